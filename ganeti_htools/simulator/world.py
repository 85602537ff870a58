"""The simulated cluster: Ganeti's configuration, and the figures that its nodes would report.

A world is immutable; every change makes a new one. Nodes keep their figures while they do not answer, and
report them again afterwards.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.cluster import Cluster, Group, Instance, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.node_after import node_after
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import SINGLE, Units
from ganeti_htools.model.units_in_use import units_in_use


@dataclass(frozen=True, slots=True)
class World:
    """A cluster, its master node, and the nodes (names) that are drained, offline, or silent.

    ``unpowered`` nodes have no out-of-band program; that of ``stuck`` nodes fails; ``off`` nodes were powered
    off, according to Ganeti's records. ``addresses`` are by node. ``regular`` nodes are in use, but are no
    master candidates; Ganeti wants ``candidate_pool`` candidates. ``units`` are the storage units, which
    never change. ``name`` is the cluster's. ``boots`` count how often nodes came back.
    """

    cluster: Cluster
    master: str
    drained: frozenset[str] = frozenset()
    offline: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    unpowered: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    addresses: Mapping[str, str] = field(default_factory=dict)
    regular: frozenset[str] = frozenset()
    candidate_pool: int = 10
    units: Units = SINGLE
    name: str = "cluster"
    boots: Mapping[str, int] = field(default_factory=dict, compare=False)

    def node(self, name: str) -> Node | None:
        """Return a node by its name, None if the name is unknown."""
        return next((node for node in self.cluster.nodes if node.name == name), None)

    def instance(self, name: str) -> Instance | None:
        """Return an instance by its name, None if the name is unknown."""
        return next((instance for instance in self.cluster.instances if instance.name == name), None)

    def answers(self, name: str) -> bool:
        """Whether a node can be asked for its figures."""
        return name not in self.offline and name not in self.silent

    def missing_candidates(self, without: str) -> int:
        """Return the number of master candidates that would be missing without a node."""
        able = {node.name for node in self.cluster.nodes} - self.offline - self.drained - {without}
        return min(len(able), self.candidate_pool) - len(able - self.regular)

    def with_nodes(self, nodes: Iterable[Node]) -> "World":
        """Return the world with these nodes in place of those of the same names."""
        changed = {node.name: node for node in nodes}
        rows = tuple(changed.get(node.name, node) for node in self.cluster.nodes)
        return replace(self, cluster=replace(self.cluster, nodes=rows))

    def with_instance(self, changed: Instance) -> "World":
        """Return the world with this instance in place of the one of the same name."""
        rows = tuple(changed if row.name == changed.name else row for row in self.cluster.instances)
        return replace(self, cluster=replace(self.cluster, instances=rows))

    def file_cluster(self) -> Cluster:
        """Return the cluster as a file describes it: offline nodes have no figures."""
        return replace(self.cluster, nodes=tuple(map(self._file_node, self.cluster.nodes)))

    def _file_node(self, node: Node) -> Node:
        unused = node.name in self.drained or not self.answers(node.name)
        node = replace(node, master=node.name == self.master, offline=unused)
        return node if self.answers(node.name) else _without_figures(node)


def _without_figures(node: Node) -> Node:
    spindles = 0 if node.excl_stor else node.t_spindles
    return replace(
        node,
        t_mem=0.0,
        n_mem=0,
        f_mem=0,
        t_dsk=0.0,
        f_dsk=0,
        t_cpu=0.0,
        n_cpu=0,
        t_spindles=spindles,
        f_spindles=0,
        storage=None,
    )


def initial_world(cluster: Cluster) -> World:
    """Return the world of a cluster file. Raises DataError if no node can be the master.

    Files do not distinguish drained from offline: an unused node is drained if it has figures, and offline
    otherwise. A file lacks the figures of an offline node. Once online, such a node is like the first node of
    its group with figures. If the file has no master, the first node that answers is the master. As in Ganeti
    all RBD disks of a group are on one pool: the one that most of them name.
    """
    unused = [node for node in cluster.nodes if node.offline]
    offline = frozenset(node.name for node in unused if not _reports(node))
    drained = frozenset(node.name for node in unused if _reports(node))
    answering = [node for node in cluster.nodes if node.name not in offline]
    masters = [node.name for node in cluster.nodes if node.master] or [node.name for node in answering]
    if not masters:
        raise DataError("no node can be the master; expected a node that is not offline")
    units = units_in_use(cluster)
    groups = tuple(replace(group, rbd_pool=_rbd_pool(cluster, group)) for group in cluster.groups)
    cluster = replace(cluster, groups=groups)
    figured = (_with_figures(cluster, units, node, answering) for node in unused if node.name in offline)
    return World(cluster, masters[0], drained, offline, units=units).with_nodes(figured)


def _rbd_pool(cluster: Cluster, group: Group) -> str | None:
    found = Counter(rbd_pools(cluster, group)).most_common(1)
    return found[0][0] if found else group.rbd_pool


def rbd_pools(cluster: Cluster, group: Group) -> list[str]:
    """Return the pool that each RBD disk of a group names."""
    nodes = {node.name for node in cluster.nodes if node.group == group.uuid}
    disks = [disk for row in cluster.instances if row.pnode in nodes for disk in row.disks]
    return [disk.unit.key for disk in disks if disk.unit and disk.unit.type is StorageType.RADOS]


def _reports(node: Node) -> bool:
    return any((node.t_mem, node.f_mem, node.t_dsk, node.t_cpu))


def _with_figures(cluster: Cluster, units: Units, node: Node, models: Iterable[Node]) -> Node:
    model = next((other for other in models if other.group == node.group), None)
    if model is None:
        return node
    node = replace(
        node,
        t_mem=model.t_mem,
        n_mem=model.n_mem,
        f_mem=int(model.t_mem) - model.n_mem,
        t_dsk=model.t_dsk,
        f_dsk=int(model.t_dsk),
        t_cpu=model.t_cpu,
        n_cpu=model.n_cpu,
        storage=model.storage and tuple(unit._replace(free=unit.total) for unit in model.storage),
    )
    if node.excl_stor:
        node = replace(node, t_spindles=model.t_spindles, f_spindles=model.t_spindles)
    for row in cluster.instances:
        if node.name in (row.pnode, row.snode):
            node = node_after(node, row, units, memory=int(node.name == row.pnode), storage=1)
    return node


def full_unit(node: Node, instance: Instance, units: Units) -> DesiredUnit | None:
    """Return a unit of the node that has no space for the instance's disks, None if all have."""
    room = {units.local[0]: node.f_dsk}
    if node.storage is not None:
        room = {unit.desired: unit.free for unit in node.storage}
    types = units.reported_types or {StorageType.LVM_VG}
    wanted = {} if instance.forthcoming else units.needs(instance)
    needs = {unit: need for unit, need in wanted.items() if unit.type.local and unit.type in types}
    return next((unit for unit, need in needs.items() if need > room.get(unit, -1)), None)


def lose_node(world: World, name: str) -> World:
    """Return the world in which a node no longer answers. Its instances count as down."""
    lost = replace(world, silent=world.silent | {name})
    return lost if name in world.offline else _set_status(lost, name, Status.RUNNING, Status.NODE_DOWN)


def restore_node(world: World, name: str) -> World:
    """Return the world in which a node has booted and answers again."""
    boots = {**world.boots, name: world.boots.get(name, 0) + 1}
    found = replace(world, silent=world.silent - {name}, boots=boots)
    return _set_status(found, name, Status.NODE_DOWN, Status.RUNNING) if found.answers(name) else found


def with_role(world: World, name: str, *, offline: bool, drained: bool) -> World:
    """Return the world in which a node is offline, drained, or neither."""
    others = world.offline - {name}, world.drained - {name}
    marked = replace(
        world,
        offline=others[0] | {name} if offline else others[0],
        drained=others[1] | {name} if drained else others[1],
    )
    if offline:
        marked = _set_status(marked, name, Status.RUNNING, Status.NODE_OFFLINE)
        return _set_status(marked, name, Status.NODE_DOWN, Status.NODE_OFFLINE)
    found = Status.NODE_DOWN if name in world.silent else Status.RUNNING
    return _set_status(marked, name, Status.NODE_OFFLINE, found)


def _set_status(world: World, node: str, was: Status, now: Status) -> World:
    rows = tuple(
        replace(row, status=now) if row.pnode == node and row.status is was else row
        for row in world.cluster.instances
    )
    return replace(world, cluster=replace(world.cluster, instances=rows))
