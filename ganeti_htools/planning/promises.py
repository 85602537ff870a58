"""Room that decisions have promised, counted as if what they decided had been carried out already."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.decide import Decision
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.request import AllocateSecondary, Request
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import Units, needs_of
from ganeti_htools.model.units_in_use import reported_units
from ganeti_htools.planning.promised_moves import keeping, lacking

_PROMISED = ("pnode", "snode", "template", "disks", "dsk")  # of an instance that is there


@dataclass(frozen=True, slots=True)
class Promise:
    """Where an instance was promised room: its row with the nodes and disks that it will have.

    A ``new`` one is to be created; others are there, and get other nodes or disks.
    """

    row: Instance
    new: bool

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.row.name

    def kept_by(self, row: Instance) -> Instance:
        """The instance, which is there, once it has the nodes and disks that it was promised."""
        return replace(row, **{name: getattr(self.row, name) for name in _PROMISED})


def promised(request: Request, decision: Decision) -> tuple[Promise, ...]:
    """What a decision promises, in the order in which it found places."""
    state = decision.state
    if isinstance(decision.result, Evacuation):
        return tuple(Promise(_placed(state, each.instance), False) for each in decision.result.moved)
    known = {row.name: index for index, row in enumerate(state.cluster.instances[: len(state.figures.rows)])}
    if isinstance(request, AllocateSecondary):
        index = known[request.instance]
        group = state.cluster.groups[state.group[state.pnode[index]]]
        return (Promise(with_disk_defaults(group, _placed(state, index)), False),)
    promises = []
    for index in range(len(known), len(state.cluster.instances)):
        row = _placed(state, index)
        promise = Promise(row, row.name not in known)
        if not promise.new:  # its disks are made anew
            promise = replace(promise, row=promise.kept_by(state.cluster.instances[known[row.name]]))
        promises.append(promise)
    return tuple(promises)


def _placed(state: State, index: int) -> Instance:
    """An instance's row as it stands in a state."""
    nodes, snode = state.cluster.nodes, int(state.snode[index])
    return replace(
        state.cluster.instances[index],
        pnode=nodes[state.pnode[index]].name,
        snode=None if snode == NOWHERE else nodes[snode].name,
    )


@dataclass(slots=True)
class _Taken:
    """What is taken of a node: memory (MiB), space of its units (MiB), spindles (None: nobody can tell); and
    what it keeps for instances that move there, by resource class.
    """

    mem: int = 0
    disk: Counter[DesiredUnit] = field(default_factory=Counter)
    spindles: int | None = 0
    kept: Counter[str] = field(default_factory=Counter)


def with_promises(
    cluster: Cluster, promises: Iterable[Promise], own: Collection[str] = ()
) -> tuple[Cluster, list[str]]:
    """The cluster with what was promised, and the names of the instances for which that makes a difference.

    Promises to the instances that the request itself is about (``own``) are left out. An instance that is not
    there yet stands where it was promised room. One that is there already has its disks, as Ganeti says, but
    as long as it is down its memory is still to be taken, wherever it is. For one that is to move its new
    nodes keep what it does not have there yet.
    Rows of nodes and instances that nothing was promised on or to stay the same objects.
    """
    counted = {promise.name: promise for promise in promises if promise.name not in own}
    if not counted:
        return cluster, []
    units, nodes = reported_units(cluster), {node.name: node for node in cluster.nodes}
    taken, pools = defaultdict[str, _Taken](_Taken), Counter[DesiredUnit]()
    rows, names = list(cluster.instances), []
    there = [index for index, row in enumerate(cluster.instances) if row.name in counted]
    for index, row in ((index, rows[index]) for index in there):
        promise = counted.pop(row.name)
        if not promise.new:
            kept = lacking(row, promise.kept_by(row), units, nodes)
            for name, amounts in kept.items():
                taken[name].kept.update(amounts)
            names += [row.name] * bool(kept)
        elif row.status is Status.DOWN and not row.forthcoming:
            rows[index] = replace(row, status=Status.RUNNING)
            taken[row.pnode].mem += row.mem
            names.append(row.name)
    for row in (promise.row for promise in counted.values() if promise.new):
        if {row.pnode, row.snode} - {None} <= nodes.keys():
            rows.append(row)
            names.append(row.name)
            if not row.forthcoming:
                _take(row, units, taken)
                pools.update(units.of_pools(row))
    if not names:
        return cluster, []
    left = tuple(
        _left(node, taken.get(node.name), units, pools) if pools or node.name in taken else node
        for node in cluster.nodes
    )
    return replace(cluster, nodes=left, instances=tuple(rows)), names


def without_reserved(
    cluster: Cluster, requested: Iterable[Instance], promised: Mapping[str, Mapping[DesiredUnit, int]]
) -> tuple[Cluster, list[str]]:
    """The cluster as if nothing were reserved of pools for those that are ``promised`` it (MiB, by name);
    and the names of those of them that have something of a pool that those ``requested`` want.
    """
    if not promised:
        return cluster, []
    units, reserved = reported_units(cluster), Counter[DesiredUnit]()
    for held in promised.values():
        reserved.update(held)
    pools = tuple(
        pool._replace(reserved=max(0, pool.reserved - reserved[pool.unit])) for pool in cluster.pools
    )
    wanted = {unit for row in requested for unit in units.of_pools(row)}
    names = [name for name, held in promised.items() if not wanted.isdisjoint(held)]
    return replace(cluster, pools=pools), names


def _take(row: Instance, units: Units, taken: Mapping[str, _Taken]) -> None:
    """Count what an instance takes of its nodes."""
    taken[row.pnode].mem += row.mem if row.uses_memory else 0
    disk, spindles = units.wants(row), needs_of(row, units).spindles
    for name in (row.pnode, row.snode):
        if name is not None:
            node = taken[name]
            node.disk.update(disk)
            node.spindles = None if spindles is None or node.spindles is None else node.spindles + spindles


def _left(node: Node, taken: _Taken | None, units: Units, pools: Counter[DesiredUnit]) -> Node:
    """The node with what is left of it and of the pools that it lists; the same object if all is."""
    if taken is None:
        if not pools or all(unit.desired not in pools for unit in node.storage or ()):
            return node
        taken = _Taken()
    if taken.kept:
        node = keeping(node, taken.kept)
    storage, disk = node.storage, taken.disk + pools
    if storage is not None:
        storage = tuple(unit._replace(free=unit.free - disk[unit.desired]) for unit in storage)
    spindles = -1 if taken.spindles is None else node.f_spindles - taken.spindles
    return replace(
        node,
        f_mem=node.f_mem - taken.mem,
        f_dsk=node.f_dsk if node.storage is not None else node.f_dsk - disk[units.local[0]],
        f_spindles=spindles if node.excl_stor else node.f_spindles,
        storage=storage,
    )
