"""Promises of earlier decisions, counted as if the decisions had been carried out.

A new instance takes its place at once. An instance that moves leaves its old nodes only when it has left; its
new nodes reserve until then, by resource class, what they lack.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.decide import Decision
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.node_reservations import with_reserved
from ganeti_htools.model.placement_tags import has_rules
from ganeti_htools.model.request import AllocateSecondary, Request
from ganeti_htools.model.resource_usage import local_unit_classes, usage_on
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import Units, needs_of
from ganeti_htools.model.units_in_use import reported_units

_PROMISED = ("pnode", "snode", "template", "disks", "dsk")  # fields of an existing instance


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise to an instance: its row with its future nodes and disks.

    A ``new`` instance is created; any other exists, and gets other nodes or disks.
    """

    row: Instance
    new: bool

    @property
    def name(self) -> str:
        return self.row.name

    def fulfilled(self, row: Instance) -> Instance:
        """Return the existing instance with the promised nodes and disks."""
        return replace(row, **{name: getattr(self.row, name) for name in _PROMISED})


def promised(request: Request, decision: Decision) -> tuple[Promise, ...]:
    """Return the promises of a decision, in the order of its placements."""
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
            promise = replace(promise, row=promise.fulfilled(state.cluster.instances[known[row.name]]))
        promises.append(promise)
    return tuple(promises)


def _placed(state: State, index: int) -> Instance:
    nodes, snode = state.cluster.nodes, int(state.snode[index])
    return replace(
        state.cluster.instances[index],
        pnode=nodes[state.pnode[index]].name,
        snode=None if snode == NOWHERE else nodes[snode].name,
    )


@dataclass(slots=True)
class _Taken:
    """Resources that promises take of a node.

    Memory and space of units are in MiB; ``spindles`` is None if unknown. ``reserved`` are amounts by
    resource class for instances that move to the node.
    """

    mem: int = 0
    disk: Counter[DesiredUnit] = field(default_factory=Counter)
    spindles: int | None = 0
    reserved: Counter[str] = field(default_factory=Counter)


def with_promises(
    cluster: Cluster, promises: Iterable[Promise], own: Collection[str] = ()
) -> tuple[Cluster, list[str]]:
    """Count promises. Returns the cluster, and the names of the instances whose promises change it.

    * Promises to the request's own instances (``own``) are left out.
    * An instance that does not exist yet is added at its promised place.
    * An instance that exists but is down has its disks already; its memory is taken too.
    * The new nodes of an instance that will move reserve what it lacks there. Rules of tags count it there.

    Rows of nodes and instances without promises stay the same objects.
    """
    counted = {promise.name: promise for promise in promises if promise.name not in own}
    if not counted:
        return cluster, []
    units, nodes = reported_units(cluster), {node.name: node for node in cluster.nodes}
    taken, pools = defaultdict[str, _Taken](_Taken), Counter[DesiredUnit]()
    rows, names, moving = list(cluster.instances), list[str](), list[Instance]()
    existing = [index for index, row in enumerate(cluster.instances) if row.name in counted]
    for index, row in ((index, rows[index]) for index in existing):
        promise = counted.pop(row.name)
        if not promise.new:
            target = promise.fulfilled(row)
            missing = _missing_amounts(row, target, units, nodes)
            for name, amounts in missing.items():
                taken[name].reserved.update(amounts)
            places = {target.pnode, target.snode} - {None}
            ruled = target != row and has_rules(row.tags) and places <= nodes.keys()
            moving += [target] * ruled
            names += [row.name] * (ruled or bool(missing))
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
                pools.update(units.pool_needs(row))
    if not names:
        return cluster, []
    remaining = tuple(
        _remaining(node, taken.get(node.name), units, pools) if pools or node.name in taken else node
        for node in cluster.nodes
    )
    left = tuple(
        pool if pool.free is None else pool._replace(free=pool.free - pools[pool.unit])
        for pool in cluster.pools
    )
    return replace(cluster, nodes=remaining, instances=tuple(rows), pools=left, moving=tuple(moving)), names


def without_reserved(
    cluster: Cluster, requested: Iterable[Instance], promised: Mapping[str, Mapping[DesiredUnit, int]]
) -> tuple[Cluster, list[str]]:
    """Release what pools reserve for instances of other clusters (``promised``: MiB, by name).

    Also returns the names of those instances that hold space of a pool that the requested instances use.
    """
    if not promised:
        return cluster, []
    units, reserved = reported_units(cluster), Counter[DesiredUnit]()
    for held in promised.values():
        reserved.update(held)
    pools = tuple(pool._replace(taken=max(0, pool.taken - reserved[pool.unit])) for pool in cluster.pools)
    wanted = {unit for row in requested for unit in units.pool_needs(row)}
    names = [name for name, held in promised.items() if not wanted.isdisjoint(held)]
    return replace(cluster, pools=pools), names


def _take(row: Instance, units: Units, taken: Mapping[str, _Taken]) -> None:
    """Count the resources that an instance takes of its nodes."""
    taken[row.pnode].mem += row.mem if row.uses_memory else 0
    disk, spindles = units.needs(row), needs_of(row, units).spindles
    for name in (row.pnode, row.snode):
        if name is not None:
            node = taken[name]
            node.disk.update(disk)
            node.spindles = None if spindles is None or node.spindles is None else node.spindles + spindles


def _remaining(node: Node, taken: _Taken | None, units: Units, pools: Counter[DesiredUnit]) -> Node:
    """Return the node with what remains of it and of its pools; the same object if all remains."""
    if taken is None:
        if not pools or all(unit.desired not in pools for unit in node.storage or ()):
            return node
        taken = _Taken()
    if taken.reserved:
        node = with_reserved(node, taken.reserved)
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


def _missing_amounts(
    row: Instance, target: Instance, units: Units, nodes: Mapping[str, Node]
) -> dict[str, Counter[str]]:
    """Return what an instance still lacks on its future nodes, by node and resource class."""
    classes, found = local_unit_classes(units), dict[str, Counter[str]]()
    for node in (nodes[name] for name in (target.pnode, target.snode) if name and name in nodes):
        is_to_have, has = (
            Counter(usage_on(node.name, each, units, classes, node.excl_stor)) for each in (target, row)
        )
        if amounts := is_to_have - has:
            found[node.name] = amounts
    return found
