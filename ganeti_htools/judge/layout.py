"""A cluster as rows and places: who is where, what is free and what is wrong on a node. Sizes are MiB.

Sources: htools(1), hbal(1), htools-tags(7), Ganeti's design of memory over-commitment.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Group, Instance, Node, without_loads
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.placement_tags import against, has_rules, placement_tags, tag_of
from ganeti_htools.model.resource_usage import local_unit_classes
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import spaces_of, unit_on
from ganeti_htools.model.units_in_use import nodes_seeing, units_in_use

# Memory as reported and by record, disks, CPUs, spindles.
Room = tuple[int, int, dict[DesiredUnit, int], int, int]


class Place(NamedTuple):
    """The nodes of an instance."""

    primary: str
    secondary: str | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The primary, then the secondary if there is one."""
        return (self.primary,) if self.secondary is None else (self.primary, self.secondary)

    def __str__(self) -> str:
        return ":".join(self.nodes)


@dataclass(slots=True)
class Left:
    """Amounts of a node: free memory and disks; CPUs, spindles and exclusion tags in use."""

    free: int
    disks: dict[DesiredUnit, int]
    cpus: int
    spindles: int
    exclusion: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class NodeSums:
    """Sums over the instances of a node. ``later`` counts forthcoming instances, and stopped ones' memory."""

    now: Left
    later: Left
    reserved: int = 0
    load: list[float] = field(default_factory=lambda: [0.0] * 4)
    primaries: list[str] = field(default_factory=list)
    secondaries: list[str] = field(default_factory=list)
    classes: Counter[str] = field(default_factory=Counter)
    class_reserved: dict[str, int] = field(default_factory=dict)


class Fault(NamedTuple):
    """Something wrong on a node, by how much, and the figures; ``soft``: hail(1) ``--ignore-soft-errors``."""

    kind: str
    excess: float
    text: str
    soft: bool = False


class Layout:
    """The instances of a cluster on their nodes, which moves change."""

    def __init__(self, cluster: Cluster, options: Mapping[str, Any]) -> None:
        cluster = without_loads(cluster) if options.get("ignore_dynu") else cluster
        self._rules = rules_of(cluster.ganeti)
        self.min_disk = float(options.get("min_disk") or 0.0)
        self.max_cpu = options.get("max_cpu")
        self._static_memory = int(options.get("static_kvm_node_memory", 4096))
        self.groups: dict[str, Group] = {row.uuid: row for row in cluster.groups}
        self.nodes: dict[str, Node] = {row.name: row for row in cluster.nodes}
        self.instances: dict[str, Instance] = {row.name: row for row in cluster.instances}
        for name in options.get("offline", ()):
            self.nodes[self.node(name)] = replace(self.nodes[self.node(name)], offline=True)
        self.closed = {name for name, row in self.nodes.items() if row.closed}
        self.unknown_size = set[str]()  # nodes that a plan powers up: they report nothing yet
        self.tags = (*cluster.tags, *(f"htools:iextags:{tag}:" for tag in options.get("exclusion_tags", ())))
        self._exclusion = tags.exclusion_prefixes(self.tags)
        self.units = units_in_use(cluster)
        self._classes = local_unit_classes(self.units)
        self._sees = {pool: nodes_seeing(cluster, pool) for pool in self.units.pools}
        self.needs = {name: self.units.needs(row) for name, row in self.instances.items()}
        self.sets = self._sets()
        self.places: dict[str, Place] = {}
        self._there: dict[str, list[str]] = {name: [] for name in self.nodes}
        self._order = {name: at for at, name in enumerate(self.instances)}
        self._known: dict[str, NodeSums] = {}
        self.room: dict[str, Room] = {}
        self.changed = set[str]()  # nodes that a move has touched
        self.coming: Mapping[str, list[str]] = {}  # who may be on a node, or still elsewhere
        for name, row in self.instances.items():
            self._arrive(name, Place(row.pnode, row.snode))
        self.failed_as_read = set(filter(lambda name: self._failed_as_read(self.nodes[name]), self.nodes))
        self.room = {name: self._room(name) for name in self.nodes}
        self._known.clear()

    def node(self, name: str) -> str:
        """Return the full name of a node, which may be cut off at a dot. Raises DataError."""
        return _full(name, self.nodes, "node")

    def instance(self, name: str) -> str:
        """Return the full name of an instance, which may be cut off at a dot. Raises DataError."""
        return _full(name, self.instances, "instance")

    def move(self, name: str, place: Place) -> None:
        """Put an instance on other nodes."""
        was = self.places[name]
        for node in was.nodes:
            self._there[node].remove(name)
            self._known.pop(node, None)
        if not self.instances[name].forthcoming:
            self.changed.update(was.nodes, place.nodes)
        self._arrive(name, place)

    def add(self, row: Instance) -> None:
        """Place a new instance on the nodes of its row."""
        self.instances[row.name] = row
        self._order[row.name] = len(self._order)
        self.needs[row.name] = self.units.needs(row)
        self.sets = self._sets()
        self.changed.update(Place(row.pnode, row.snode).nodes)
        self._arrive(row.name, Place(row.pnode, row.snode))

    def _arrive(self, name: str, place: Place) -> None:
        self.places[name] = place
        for node in place.nodes:
            self._there[node].append(name)
            self._known.pop(node, None)

    def group_of(self, node: str) -> Group:
        """The group of a node."""
        return self.groups[self.nodes[node].group]

    def has_unit(self, node: str, unit: DesiredUnit) -> bool:
        """Whether a node has, or sees, a storage unit."""
        if unit.type.local and unit.type in self.units.reported_types:
            return (there := unit_on(self.nodes[node], self.units, unit)) is not None and there.total > 0
        return unit not in self._sees or self._sees[unit][list(self.nodes).index(node)]

    def demands(self, row: Instance) -> dict[str, int]:
        """The amounts of custom classes that an instance takes (htools-tags(7), "Resources")."""
        if not self.units.classes or row.status is Status.OFFLINE:
            return {}
        return {kind: amount for kind, amount in tags.demands(row.tags).items() if kind in self.units.classes}

    def figures(self, node: str) -> NodeSums:
        """Sum up what is on a node."""
        if node not in self._known:
            self._known[node] = self._sum(node)
        return self._known[node]

    def _sum(self, node: str) -> NodeSums:
        reported, free, disks, cpus, _ = self.room.get(node) or (0, 0, {}, 0, 0)
        kept = _reserved(self.nodes[node], "CUSTOM_SPINDLES")
        found = NodeSums(Left(free, dict(disks), cpus, kept), Left(reported, dict(disks), cpus, kept))
        peers = defaultdict[str, Counter[str]](Counter)  # by resource, then by primary
        for name in sorted(self._there[node], key=self._order.__getitem__):
            row, here = self.instances[name], self.places[name].primary == node
            plain = row.spindle_use if self.units.local[0] in self.needs[name] else 0
            spindles = (row.spindles or 0) if self.nodes[node].excl_stor else plain
            for left in (found.later,) if row.forthcoming else (found.now, found.later):
                left.spindles += spindles
                for unit, size in self.needs[name].items():
                    left.disks[unit] = left.disks.get(unit, 0) - size
                if here:
                    left.free -= row.mem if row.uses_memory or left is found.later else 0
                    left.cpus += 0 if row.status is Status.OFFLINE else row.vcpus
                    left.exclusion.update(tags.exclusion_tags(self._exclusion, row.tags))
            if row.forthcoming:
                continue
            (found.primaries if here else found.secondaries).append(name)
            load = [row.load.cpu, row.load.mem, row.load.dsk, row.load.net]
            shares = load if here else [0.0, 0.0, row.load.dsk, 0.0]
            found.load = [one + two for one, two in zip(found.load, shares, strict=True)]
            if here:
                found.classes.update(self.demands(row))
            elif row.uses_secondary_memory:
                demands = self.demands(row)
                if demands and any(self.refused(row, each) for each in self.places[name].nodes):
                    demands = {}
                for kind, amount in {"": row.mem, **demands}.items():
                    peers[kind][self.places[name].primary] += amount
        found.reserved = max(peers.pop("", {"": 0}).values())
        found.class_reserved = {kind: max(each.values()) for kind, each in peers.items()}
        return found

    def _failed_as_read(self, row: Node) -> bool:
        """Whether a node fails N+1 as it is read (docs/differences.md, rules of Ganeti 3.0 and 3.1)."""
        there = self._sum(row.name)
        if self._rules.n1_by_unallocated:
            return row.t_mem - self._own_memory(row) + there.now.free <= there.reserved
        return row.f_mem - _reserved(row, "MEMORY_MB") < there.reserved

    def fails_n1(self, node: str) -> bool:
        """Whether a node fails N+1: as read until a move touches it, then by what is left."""
        there = self.figures(node)
        return there.now.free <= there.reserved if node in self.changed else node in self.failed_as_read

    def _own_memory(self, row: Node) -> int:
        return ((row.hypervisor == "kvm") * self._static_memory or row.n_mem) + _reserved(row, "MEMORY_MB")

    def _room(self, name: str) -> Room:
        """Return the amounts of a node for instances, and the CPUs that it uses itself."""
        row, there = self.nodes[name], self._sum(name)
        reported = row.f_mem - _reserved(row, "MEMORY_MB") - there.now.free
        by_record = int(row.t_mem) - self._own_memory(row)
        disks = {
            unit: free - _reserved(row, self._classes[unit]) - there.now.disks.get(unit, 0)
            for unit, (_, free) in zip(self.units.local, spaces_of(row, self.units), strict=True)
        }
        cpus = row.n_cpu + _reserved(row, "VCPU")
        return reported, min(reported, by_record), disks, cpus, row.f_spindles + there.now.spindles

    def total_disks(self, node: str) -> dict[DesiredUnit, float]:
        """The size of each storage unit of a node; 0 of units that the node lacks."""
        spaces = spaces_of(self.nodes[node], self.units)
        return {unit: total for unit, (total, _) in zip(self.units.local, spaces, strict=True)}

    def class_capacity(self, node: str, kind: str) -> int:
        """The amount of a custom class that a node has."""
        return next((each.capacity for name, each in self.nodes[node].inventories if name == kind), 0)

    def most_spindles(self, node: str) -> float:
        """The spindles of a node; without exclusive storage, the spindle use that its policy allows."""
        row = self.nodes[node]
        return row.t_spindles if row.excl_stor else self.group_of(node).ipolicy.spindle_ratio * row.t_spindles

    def faults(self, node: str) -> Iterator[Fault]:
        """Yield what is wrong on a node."""
        row, there, policy = self.nodes[node], self.figures(node), self.group_of(node).ipolicy
        if node in self.unknown_size:
            return
        if there.now.free < 0:
            yield Fault("capacity", -there.now.free, f"memory: {-there.now.free} MiB more than there is")
        totals = self.total_disks(node)
        for unit, free in there.now.disks.items():
            keep = int(self.min_disk * totals.get(unit, 0))
            if free < 0 and unit.type.local:
                yield Fault("capacity", -free, f"{unit}: {-free} MiB more than there is")
            if free < keep and unit.type.local:
                yield Fault("policy", keep - free, f"{unit} free: {free} MiB, {keep} must stay", soft=True)
        if self.fails_n1(node):
            text = f"N+1: {there.now.free} MiB of memory free, {there.reserved} reserved"
            yield Fault("n+1", there.reserved - there.now.free, text, soft=True)
        most = (policy.vcpu_ratio if self.max_cpu is None else float(self.max_cpu)) * row.t_cpu
        if (used := there.now.cpus - self.room[node][3]) > most:
            yield Fault("policy", used - most, f"CPUs: {used} virtual ones, at most {most:g}", soft=True)
        most = self.room[node][4] if row.excl_stor else self.most_spindles(node)
        if there.now.spindles > most:
            kind = "capacity" if row.excl_stor else "policy"
            text = f"spindles: {there.now.spindles}, at most {most:g}"
            yield Fault(kind, there.now.spindles - most, text, soft=not row.excl_stor)
        for kind in self.units.classes:
            most = self.class_capacity(node, kind)
            taken, kept = there.classes[kind], there.class_reserved.get(kind, 0)
            if taken > most:
                yield Fault("capacity", taken - most, f"{kind}: {taken} in use, {most} there")
            if kept and taken + kept > most:
                text = f"{kind} for N+1: {taken} in use and {kept} reserved, {most} there"
                yield Fault("n+1", taken + kept - most, text, soft=True)
        for tag, count in there.now.exclusion.items():
            if count > 1:
                yield Fault("exclusion", count - 1, f"{count} primaries with the tag {tag}", soft=True)

    def may_receive(self, name: str, node: str) -> Iterator[Fault]:
        """Yield why an instance must not get a node that is new to it."""
        row, there = self.instances[name], self.nodes[node]
        if node in self.closed:
            why = there.state.value[0] if there.closed else "the plan empties it"
            yield Fault("groups", 1, f"takes no instances ({why})")
        for unit in {**self.needs[name], **self.units.pool_needs(row)}:
            if not self.has_unit(node, unit):
                yield Fault("capacity", 1, f"has no storage unit {unit}")
        for kind in self.refused(row, node):
            yield Fault("capacity", 1, f"gives no instance this amount of {kind}")
        for tag in against(placement_tags(row.tags).choice, there):
            yield Fault("rules", 1, f"is against {tag} of the instance")

    def refused(self, row: Instance, node: str) -> list[str]:
        """The classes of which a node gives no instance this amount (htools(1): capacity, min, max, step)."""
        there, demands = self.nodes[node], self.demands(row)
        found = [kind for kind, amount in demands.items() if amount > self.class_capacity(node, kind)]
        if there.inventories:
            needs = self.needs[row.name]
            has = Counter({kind: needs[unit] for unit, kind in self._classes.items() if unit in needs})
            has |= Counter(MEMORY_MB=row.mem if row.uses_memory else 0, VCPU=row.vcpus) | Counter(demands)
            has["CUSTOM_SPINDLES"] = (row.spindles or 0) if there.excl_stor else row.spindle_use
            found += [kind for kind, each in there.inventories if has[kind] and each.refusal(has[kind])]
        return found

    def may_migrate(self, source: str, target: str) -> bool:
        """Whether migration tags let an instance go from one node to another (hbal(1), "Migration tags")."""
        wanted = tags.migration_tags(self.tags, self.nodes[source].tags)
        return wanted <= tags.receivable_migration_tags(self.tags, self.nodes[target].tags)

    def _sets(self) -> dict[tuple[str, str], list[str]]:
        """The sets of instances that keep a distance, by class of locations and name, and those together."""
        found = defaultdict[tuple[str, str], list[str]](list)
        for row in filter(lambda row: has_rules(row.tags), self.instances.values()):
            rules = placement_tags(row.tags)
            for key in (*rules.apart, *(("together", name) for name in rules.together)):
                found[key].append(row.name)
        return dict(found)

    def too_close(self, name: str) -> dict[str, int]:
        """Count the others that an instance shares its primary or location with against a rule, by tag."""
        found, here = {}, self.places[name].primary
        for distance, members in self.sets.items():
            if distance[0] == "together" or name not in members:
                continue
            at = self._location(here, distance[0])
            mates = (self.places[other].primary for other in members if other != name)
            others = [self._location(mate, distance[0]) for mate in mates]
            found[tag_of(distance)] = sum(other == at or bool(other & at) for other in others)
        return found

    def _location(self, node: str, kind: str) -> set[str]:
        return {tag for tag in self.nodes[node].tags if tag.startswith(f"{kind}:")} if kind else {node}

    def together(self, one: str, two: str) -> bool:
        """Whether two instances are to stay together."""
        sets = (members for (kind, _), members in self.sets.items() if kind == "together")
        return any(one in members and two in members for members in sets)

    def parted(self) -> set[str]:
        """The tags of sets that should stay together and do not."""
        found = set()
        for (kind, name), members in self.sets.items():
            places = [self.places[member] for member in members]
            seconds = {place.secondary for place in places if place.secondary is not None}
            if kind == "together" and (len({place.primary for place in places}) > 1 or len(seconds) > 1):
                found.add(f"htools:together:{name}")
        return found


def _reserved(row: Node, name: str) -> int:
    """The amount of a class that an inventory keeps for the node itself."""
    return next((each.reserved for kind, each in row.inventories if kind == name), 0)


def _full(name: str, known: Collection[str], kind: str) -> str:
    found = [name] if name in known else [each for each in known if each.startswith(f"{name}.")]
    if len(found) != 1:
        raise DataError(f"the cluster has no {kind} {name}")
    return found[0]
