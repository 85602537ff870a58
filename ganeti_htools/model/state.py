"""The state of a cluster: the rows that were read and every figure derived from them.

:func:`ganeti_htools.model.derive.derive` computes a state; :mod:`ganeti_htools.engine.rules.settling`
changes it in place. To keep a state, work on a copy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints, by_unit, existing
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.figures import Figures
from ganeti_htools.model.hour_sums import HourSums, MeasuredLoads
from ganeti_htools.model.node_reservations import node_reservations
from ganeti_htools.model.node_state import NodeState
from ganeti_htools.model.placement_rules import PlacementRules
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.model.units import Units, needs_of, taken_of_pools, with_free


@dataclass(frozen=True, slots=True)
class RequestedInstance:
    """The figures of an instance that placements use. Sizes are MiB.

    ``record_mem`` is the memory taken of the primary (state of record), ``secondary_mem`` the memory kept
    free on the secondary. ``disk`` is the space taken of each storage unit. ``wants`` marks the units,
    pools and custom classes (those with columns, in this order) that a node must have. ``spare`` is the
    additional free space of each unit that Ganeti demands of a node where disks are created.

    ``classes`` is the amount of each custom class taken of the primary, ``secondary_classes`` the amount
    kept free on the secondary. ``vcpus`` and ``classes`` are 0 if the instance is administratively offline.
    ``spindles`` is None if unknown. ``hours`` is the measured load of each kind, if load counts.

    ``tags`` are rows of exclusion tags in the state's table, ``desired`` rows of desired locations;
    ``unknown_desires`` counts desired locations of no node. ``index`` is the instance's row, NOWHERE if it
    is new.
    """

    row: Instance
    mem: int
    record_mem: int
    secondary_mem: int
    disk: tuple[Any, ...]
    wants: tuple[bool, ...]
    spare: tuple[int, ...]
    mirrored: bool
    vcpus: int
    spindles: int | None
    spindle_use: int
    tags: Ints
    desired: Ints
    unknown_desires: int
    forthcoming: bool
    index: int = NOWHERE
    classes: tuple[Any, ...] = ()
    secondary_classes: tuple[Any, ...] = ()
    hours: tuple[HourSums, ...] = ()

    @property
    def needs(self) -> tuple[Any, ...]:
        """All amounts and properties, tags aside, that decide the resources taken of a node."""
        needs: tuple[Any, ...] = _needs(self)
        return (*needs, self.row.load)

    @property
    def dsk(self) -> Any:
        """Space taken of the default storage unit (MiB)."""
        return self.disk[0]

    @property
    def units(self) -> int:
        """Number of storage units and pools that a node must have."""
        return sum(self.wants[: len(self.wants) - len(self.classes)])

    @property
    def local(self) -> bool:
        """Whether the instance has disks on its nodes' own storage units."""
        return any(self.wants[: len(self.disk)])


# Whatever is added to RequestedInstance belongs to its needs unless it is named here.
_NEEDS = [
    each.name
    for each in fields(RequestedInstance)
    if each.name not in {"row", "tags", "desired", "unknown_desires", "index", "hours"}
]
_needs = attrgetter(*_NEEDS)


def cohort(several: Sequence[RequestedInstance]) -> RequestedInstance:
    """Return instances that differ only in amounts as one; differing amounts are arrays with one row per
    instance.
    """
    needs: dict[str, Any] = {name: _together([getattr(asked, name) for asked in several]) for name in _NEEDS}
    return replace(several[0], **needs)


def _together(values: Sequence[Any]) -> Any:
    if all(value == values[0] for value in values):
        return values[0]
    if isinstance(values[0], tuple):
        return tuple(map(_together, zip(*values, strict=True)))
    return np.array(values)[:, np.newaxis]


@dataclass(slots=True)
class State:
    """A cluster with everything derived from it.

    Columns of instances are in row order. ``pnode`` and ``snode`` are node rows. ``stamp`` orders the
    instances of a node by arrival; a node is emptied from its latest arrival on.
    ``peers[p, s]`` is the memory (MiB) that secondary ``s`` keeps free in case ``p`` fails; ``class_peers``
    has the same for each custom resource class. Both are read-only if another state may share them.
    ``tag_counts[t, n]`` counts the primaries of node ``n`` with exclusion tag ``t``;
    ``forthcoming_tag_counts`` only forthcoming ones.
    ``allowed_migrations[n, m]`` is False where migration tags forbid migrations from ``n`` to ``m``. It is
    None without such tags. ``location_tags[n, t]``: node ``n`` has location tag ``t``. ``rules`` are None if
    no instance has a rule about its nodes, ``in_maintenance`` (by node) if no node is, ``load`` if measured
    load does not count.
    """

    cluster: Cluster
    figures: Figures  # of the instances it was derived from
    units: Units
    nodes: dict[str, int]
    group: Ints
    policies: tuple[IPolicy, ...]  # of each node group, by row
    columns: Columns
    pnode: Ints
    snode: Ints
    stamp: Ints
    record_mem: Ints
    dsk: Ints
    disk: Ints  # what instances take of each unit (by instance and unit)
    wants: Bools  # units, pools and classes that they have to find on their nodes (by instance)
    classes: Ints  # what instances take of each custom class (by instance and class)
    template: Ints
    forthcoming: Bools
    peers: Ints
    class_peers: tuple[Ints, ...]
    tag_rows: dict[str, int]
    tag_counts: Ints
    forthcoming_tag_counts: Ints
    allowed_migrations: Bools | None
    location_tags: Bools
    location_rows: dict[str, int]
    rules: PlacementRules | None = None
    in_maintenance: Bools | None = None
    load: MeasuredLoads | None = None

    @property
    def everywhere(self) -> Bools:
        """A mask of all nodes, new with each call."""
        return np.ones(len(self.group), np.bool_)

    @property
    def binds(self) -> bool:
        """Whether an instance may be unable to leave its nodes, whatever is free on others."""
        return self.columns.shape.binds or self.rules is not None or self.in_maintenance is not None

    def copy(self) -> "State":
        """Return a copy; changes of one do not affect the other.

        Both share what nodes keep free for each other, which is large, until that changes in one of them.
        """
        for kept in (self.peers, *self.class_peers):
            kept.flags.writeable = False
        return replace(
            self,
            columns=self.columns.copy(),
            pnode=self.pnode.copy(),
            snode=self.snode.copy(),
            stamp=self.stamp.copy(),
            tag_counts=self.tag_counts.copy(),
            forthcoming_tag_counts=self.forthcoming_tag_counts.copy(),
            rules=self.rules and self.rules.copy(),
        )

    def part(self, nodes: Ints, instances: Ints) -> "State":
        """Return the state of some nodes (rows) and of some instances (rows) that use only these nodes.

        Groups, tags and units keep their rows. The use of the nodes by other instances stays counted.
        """
        row = np.full(len(self.group) + 1, NOWHERE)  # the last one stands for NOWHERE
        row[nodes] = np.arange(len(nodes))
        cluster = replace(
            self.cluster,
            nodes=tuple(self.cluster.nodes[node] for node in nodes.tolist()),
            instances=tuple(self.cluster.instances[index] for index in instances.tolist()),
        )
        return replace(
            self,
            cluster=cluster,
            figures=self.figures.part(instances),
            nodes={node.name: row for row, node in enumerate(cluster.nodes)},
            group=self.group[nodes],
            columns=self.columns.take(nodes),
            pnode=row[self.pnode[instances]],
            snode=row[self.snode[instances]],
            stamp=self.stamp[instances],
            record_mem=self.record_mem[instances],
            dsk=self.dsk[instances],
            disk=self.disk[instances],
            wants=self.wants[instances],
            classes=self.classes[instances],
            template=self.template[instances],
            forthcoming=self.forthcoming[instances],
            peers=self.peers[np.ix_(nodes, nodes)],
            class_peers=tuple(peers[np.ix_(nodes, nodes)] for peers in self.class_peers),
            tag_counts=self.tag_counts[:, nodes],
            forthcoming_tag_counts=self.forthcoming_tag_counts[:, nodes],
            allowed_migrations=None
            if self.allowed_migrations is None
            else self.allowed_migrations[np.ix_(nodes, nodes)],
            location_tags=self.location_tags[nodes],
            rules=self.rules and self.rules.part(nodes, instances),
            in_maintenance=None if self.in_maintenance is None else self.in_maintenance[nodes],
            load=self.load and self.load.part(instances),
        )

    def without_load(self) -> "State":
        """Return the state without measured load, which decides no feasibility."""
        if self.load is None:
            return self
        return replace(self, columns=self.columns.without_load(), load=None)

    def instance(self, index: int) -> RequestedInstance:
        return self.requested_instance(self.cluster.instances[index], index)

    def requested_instance(self, row: Instance, index: int = NOWHERE) -> RequestedInstance:
        """Return the figures of an instance on this state."""
        exclusion = tags.exclusion_tags(tags.exclusion_prefixes(self.cluster.tags), row.tags)
        desired = tags.desired_locations(self.cluster.tags, row.tags)
        known = [self.location_rows[tag] for tag in desired if tag in self.location_rows]
        needs = needs_of(row, self.units)
        # With a single unit Ganeti counts the size of the instance.
        fresh = index == NOWHERE and needs.units > 1
        return RequestedInstance(
            row=row,
            mem=row.mem,
            record_mem=row.mem if row.uses_memory else 0,
            secondary_mem=row.mem if row.uses_secondary_memory else 0,
            disk=needs.disk,
            wants=needs.wants,
            spare=self.units.creation_spare(row) if fresh else (0,) * len(needs.disk),
            mirrored=row.template is DiskTemplate.DRBD,
            vcpus=0 if row.status is Status.OFFLINE else row.vcpus,
            spindles=needs.spindles,
            spindle_use=row.spindle_use if needs.wants[0] else 0,
            tags=np.array([self.tag_rows[tag] for tag in exclusion], np.int64),
            desired=np.array(known, np.int64),
            unknown_desires=len(desired) - len(known),
            forthcoming=row.forthcoming,
            index=index,
            classes=needs.classes,
            secondary_classes=needs.secondary_classes,
            hours=self.load.of(index, row.vcpus * row.uses_memory) if self.load else (),
        )

    def lacks_unit(self, template: DiskTemplate) -> bool:
        """Whether no node has the unit of a template's disks, although nodes would report it."""
        unit = self.units.unit_of(Disk(0), template)
        if self.units.reported and unit in self.units.local:
            return not by_unit(self.columns, "t_dsk")[self.units.local.index(unit)].any()
        return unit.type.local and unit.type in self.units.reported_types

    def with_disk_defaults(self, group: int, asked: RequestedInstance) -> RequestedInstance:
        """Return a new instance with the disk defaults of a group (row). Instances of the cluster are
        unchanged.
        """
        row = (
            asked.row if asked.index != NOWHERE else with_disk_defaults(self.cluster.groups[group], asked.row)
        )
        return asked if row is asked.row else self.requested_instance(row)

    def primaries_of(self, node: int) -> Ints:
        """Return the rows of a node's primaries, without forthcoming ones, latest arrival first."""
        return self._latest_first(self.pnode == node)

    def secondaries_of(self, node: int) -> Ints:
        """Return the rows of a node's secondaries, as those of its primaries: a move renews both."""
        return self._latest_first(self.snode == node)

    def _latest_first(self, which: Bools) -> Ints:
        here = np.flatnonzero(which & ~self.forthcoming)
        return here[np.argsort(-self.stamp[here], kind="stable")]

    def node_state(self, node: int) -> NodeState:
        """Return why a node takes no instances; options and plans change what counts as offline."""
        return replace(self.cluster.nodes[node], offline=bool(self.columns.offline[node])).state

    def nodes_of(self, index: int) -> tuple[int, ...]:
        """Return the nodes (rows) of an instance, primary first."""
        return existing(self.pnode[index], self.snode[index])

    def group_name(self, node: int) -> str:
        group: str = self.cluster.groups[self.group[node]].name
        return group

    def names(self, rows: Iterable[int]) -> list[str]:
        return [self.cluster.nodes[row].name for row in rows]

    def instance_names(self, rows: Iterable[int]) -> list[str]:
        return [self.cluster.instances[row].name for row in rows]

    def rows_by_name(self) -> dict[str, int]:
        return {instance.name: row for row, instance in enumerate(self.cluster.instances)}

    def node_pair(self, index: int) -> tuple[int, int]:
        """Return the rows of an instance's primary and secondary, NOWHERE for none."""
        return int(self.pnode[index]), int(self.snode[index])

    def to_cluster(self) -> Cluster:
        """Return the cluster after the placements made on this state, as a backend would describe it."""
        columns = self.columns
        free, held = np.array(by_unit(columns, "f_dsk")), node_reservations(self.cluster.nodes, self.units)
        own = columns.n_mem - held.memory, (free + held.disk).T, columns.f_spindles + held.free_spindles
        figures = (column.tolist() for column in own)
        new = self.cluster.instances[len(self.figures.rows) :]
        taken = taken_of_pools(self.units, (row for row in new if not row.forthcoming)) if new else {}
        nodes = tuple(
            _unless_same(node, n_mem=n_mem, f_spindles=left, **with_free(node, self.units, room, taken))
            for node, n_mem, room, left in zip(self.cluster.nodes, *figures, strict=True)
        )
        instances = tuple(
            replace(row, pnode=nodes[pnode].name, snode=None if snode == NOWHERE else nodes[snode].name)
            for row, pnode, snode in zip(
                self.cluster.instances, self.pnode.tolist(), self.snode.tolist(), strict=True
            )
        )
        return replace(self.cluster, nodes=nodes, instances=instances)


def _unless_same(node: Node, **figures: Any) -> Node:
    """Return the node with these figures; the same object if nothing changes."""
    same = all(getattr(node, name) == figure for name, figure in figures.items())
    return node if same else replace(node, **figures)
