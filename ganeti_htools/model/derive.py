"""Computes a :class:`.State` from the rows of a cluster."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ganeti_htools.model.cluster import MAX_MIB, Cluster, Instance, Node
from ganeti_htools.model.columns import (
    AMOUNT_LIMITS,
    NOWHERE,
    Bools,
    Floats,
    Ints,
    Shape,
    columns_type,
    forthcoming,
    of_class,
    of_limited,
    of_load,
    of_pool,
    of_unit,
)
from ganeti_htools.model.figures import Figures, tabulate
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.hour_sums import UNITS, HourSums, MeasuredLoads, measured_loads
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.node_reservations import NodeReservations, node_reservations
from ganeti_htools.model.node_usage import HostedInstances, hosted_instances, sum_by
from ganeti_htools.model.placement_rules import placement_rules
from ganeti_htools.model.resource_classes import is_disk
from ganeti_htools.model.resource_usage import local_unit_classes
from ganeti_htools.model.state import State
from ganeti_htools.model.tag_columns import (
    allowed_migrations,
    exclusion_counts,
    location_columns,
    location_scores,
)
from ganeti_htools.model.units import Units, spaces_of
from ganeti_htools.model.units_in_use import nodes_seeing, units_in_use


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), np.float64)


def _bools(values: Iterable[bool]) -> Bools:
    return np.array(list(values), np.bool_)


def _spindles_left(free: Ints, nodes: Ints, spindles: Ints, vague: Bools) -> Ints:
    """Compute free spindles after placing instances in order. An instance with unknown spindles leaves -1."""
    order, last = np.arange(len(nodes)), np.full(len(free), NOWHERE)
    np.maximum.at(last, nodes[vague], order[vague])
    after = order > last[nodes]
    left: Ints = np.where(last == NOWHERE, free, -1) - sum_by(nodes[after], spindles[after], len(free))
    return left


def derive(
    cluster: Cluster,
    requested: Sequence[Instance] = (),
    static_kvm_node_memory: int = 0,
    known: Figures | None = None,
) -> State:
    """Compute every derived figure of a consistent cluster (see :func:`.cluster.check`).

    ``requested`` are instances to be placed; only their tags and units matter here.
    ``static_kvm_node_memory`` (MiB), unless 0, replaces the own memory that KVM nodes report, since KVM
    includes the memory of instances (``hail(1)``, Ganeti 3.0). ``known`` are figures of a cluster that
    shares rows with this one.
    """
    nodes, size = cluster.nodes, len(cluster.nodes)
    node_row = {node.name: row for row, node in enumerate(nodes)}
    group_row = {group.uuid: row for row, group in enumerate(cluster.groups)}
    group = _ints(group_row[node.group] for node in nodes)
    policies = tuple(group.ipolicy for group in cluster.groups)
    units = units_in_use(cluster, requested)
    names = tuple(map(str, units.local)), tuple(map(str, units.pools))
    held = node_reservations(nodes, units)
    figures = tabulate(cluster.instances, known, policies, units)
    load = _measured(cluster)
    limited, kinds = _limited_classes(units), load.kinds if load else ()
    shape = Shape(*names, units.reported, units.own_group, units.classes, limited, kinds)
    placed = hosted_instances(cluster, figures, node_row)
    tag_rows, tag_counts, forthcoming_tag_counts = exclusion_counts(cluster, requested, placed)
    location_rows, located = location_columns(cluster)
    peers = placed.peers(placed.values["secondary_mem"])
    class_peers = tuple(map(placed.peers, figures.secondary_classes.T))
    spindle_ratio = _floats(policies[row].spindle_ratio for row in group.tolist())
    loads, aliases = _loads(nodes, placed)
    if not placed.forthcoming.any():
        aliases += ((counted, plain) for plain, counted in forthcoming(shape).items())
    in_maintenance = _bools(node.in_maintenance for node in nodes)
    columns = columns_type(shape, tuple(aliases))(
        vcpu_ratio=_floats(policies[row].vcpu_ratio for row in group.tolist()),
        offline=_bools(node.offline for node in nodes) | in_maintenance,
        excl_stor=_bools(node.excl_stor for node in nodes),
        primaries=placed.on_primaries(np.ones(len(placed.pnode), np.int64), placed.settled),
        secondaries=np.bincount(placed.snode[placed.settled & placed.with_secondary], minlength=size),
        conflicts=np.maximum(tag_counts - 1, 0).sum(axis=0),
        location=location_scores(cluster, placed, location_rows, located),
        **_memory(nodes, placed, peers, static_kvm_node_memory, held),
        **_disk(nodes, placed, figures, units, held),
        **_pools(cluster, units),
        **_classes(nodes, placed, figures, class_peers),
        **_limited(nodes, shape),
        **_spindles(nodes, placed, spindle_ratio, held),
        **_cpus(nodes, placed, held),
        **loads,
        **(_hours(nodes, placed, load) if load else {}),
    )
    if rules_of(cluster.ganeti).n1_by_unallocated:
        columns = columns.changed(fail_n1=columns.unallocated <= columns.r_mem)
    return State(
        cluster=cluster,
        figures=figures,
        units=units,
        nodes=node_row,
        group=group,
        policies=policies,
        columns=columns,
        pnode=placed.pnode,
        snode=placed.snode,
        stamp=np.arange(len(placed.pnode)),
        record_mem=np.ascontiguousarray(figures.values["record_mem"]),
        dsk=np.ascontiguousarray(figures.values["dsk"]),
        disk=figures.disk,
        wants=figures.wants,
        classes=figures.classes,
        template=np.ascontiguousarray(figures.values["template"]),
        forthcoming=placed.forthcoming,
        peers=peers,
        class_peers=class_peers,
        tag_rows=tag_rows,
        tag_counts=tag_counts,
        forthcoming_tag_counts=forthcoming_tag_counts,
        allowed_migrations=allowed_migrations(cluster.tags, nodes),
        location_tags=located,
        location_rows=location_rows,
        rules=placement_rules(cluster, requested, placed),
        in_maintenance=in_maintenance if in_maintenance.any() else None,
        load=load,
    )


def _measured(cluster: Cluster) -> MeasuredLoads | None:
    rows = cluster.instances
    active = [row.uses_memory for row in rows]
    return measured_loads(
        cluster.load_profiles, [row.name for row in rows], [row.vcpus for row in rows], active
    )


def _hours(nodes: Sequence[Node], placed: HostedInstances, load: MeasuredLoads) -> dict[str, Any]:
    """Sum the measured load by node and hour, and compute what nodes can carry.

    All nodes carry the same disk and network load: twice the mean in the worst hour of the cluster.
    """
    columns: dict[str, Any] = {}
    known = {
        "cpu": [node.t_cpu * node.cpu_speed * UNITS["cpu"] for node in nodes],
        "mem": [node.t_mem for node in nodes],
    }
    online = max(1, sum(not node.closed for node in nodes))
    for kind, hours in zip(load.kinds, load.hours, strict=True):
        sums = np.zeros((len(nodes), hours.shape[-1]), np.int32)
        np.add.at(sums, placed.pnode[placed.settled], hours[placed.settled])
        if kind == "dsk":
            twice = placed.settled & placed.with_secondary
            np.add.at(sums, placed.snode[twice], hours[twice])
        even = 2 * float(sums.sum(axis=0).max()) / online
        carries = known.get(kind, [even] * len(nodes))
        columns |= {of_load("t", kind): _floats(carries), of_load("hours", kind): HourSums(sums)}
    return columns


def _memory(
    nodes: Sequence[Node], placed: HostedInstances, peers: Ints, static: int, held: NodeReservations
) -> dict[str, Any]:
    values = placed.values
    t_mem, f_mem = _floats(node.t_mem for node in nodes), _ints(node.f_mem for node in nodes)
    n_mem = _ints(static if static and node.hypervisor == "kvm" else node.n_mem for node in nodes)
    n_mem, f_mem = n_mem + held.memory, f_mem - held.memory
    i_mem = placed.on_primaries(values["record_mem"], placed.settled)
    not_running = np.where(values["record_mem"] > 0, 0, values["mem"])
    r_mem = peers.max(axis=0, initial=0)
    return {
        "t_mem": t_mem,
        "n_mem": n_mem,
        "x_mem": t_mem.astype(np.int64) - n_mem - i_mem - f_mem,
        "i_mem": i_mem,
        "f_mem_forth": f_mem - placed.on_primaries(not_running, placed.all_instances),
        "r_mem": r_mem,
        "fail_n1": f_mem < r_mem,
    }


def _pools(cluster: Cluster, units: Units) -> dict[str, Any]:
    return {of_pool(row): _ints(nodes_seeing(cluster, pool)) for row, pool in enumerate(units.pools)}


def _classes(
    nodes: Sequence[Node], placed: HostedInstances, figures: Figures, class_peers: Sequence[Ints]
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    nothing = Inventory(0)
    for which, (name, peers) in enumerate(zip(figures.units.classes, class_peers, strict=True)):
        there = [dict(node.inventories).get(name, nothing) for node in nodes]
        total = _ints(inventory.capacity for inventory in there)
        taken = figures.classes[:, which]
        free = counted = total - placed.on_primaries(taken, placed.settled)
        if placed.forthcoming.any():
            counted = total - placed.on_primaries(taken, placed.all_instances)
        columns |= {
            of_class("t", which): total,
            **_amount_limits(there, of_class, which),
            (figure := of_class("f", which)): free,
            f"{figure}_forth": counted,
            of_class("r", which): peers.max(axis=0, initial=0),
        }
    return columns


def _limited_classes(units: Units) -> tuple[tuple[str, int], ...]:
    """Return the limited classes of :class:`.Shape`; disk space of units that nobody uses limits nothing."""
    if not units.limited:
        return ()
    local = {name: unit for unit, name in enumerate(local_unit_classes(units).values())}
    found = ((name, local.get(name, NOWHERE)) for name in units.limited)
    return tuple((name, unit) for name, unit in found if unit != NOWHERE or not is_disk(name))


def _limited(nodes: Sequence[Node], shape: Shape) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for which, (name, _) in enumerate(shape.limited):
        there = [dict(node.inventories).get(name, Inventory(0)) for node in nodes]
        columns |= _amount_limits(there, of_limited, which)
    return columns


def _amount_limits(
    there: Sequence[Inventory], column: Callable[[str, int], str], which: int
) -> dict[str, Ints]:
    """Compute the limits of the amount of one instance, by node."""
    limits = [(each.min_unit, each.max_unit or MAX_MIB, each.step_size) for each in there]
    figures = zip(AMOUNT_LIMITS, np.array(limits, np.int64).reshape(-1, 3).T, strict=True)
    return {column(name, which): figure for name, figure in figures}


def _disk(
    nodes: Sequence[Node], placed: HostedInstances, figures: Figures, units: Units, held: NodeReservations
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    spaces = [spaces_of(node, units) for node in nodes]
    for unit in range(len(units.local)):
        space = [each[unit] for each in spaces]
        free = counted = _ints(room for _, room in space) - held.disk[unit]
        if placed.forthcoming.any():
            coming = placed.on_both(figures.disk[:, unit], placed.forthcoming)
            there = np.array([total > 0 or not units.reported for total, _ in space], np.bool_)
            counted = np.where(there, free - coming, free)
        name = of_unit("f_dsk", unit)
        columns |= {
            of_unit("t_dsk", unit): _floats(total for total, _ in space),
            of_unit("lo_dsk", unit): np.zeros(len(nodes), np.int64),
            name: free,
            f"{name}_forth": counted,
        }
    return columns


def _spindles(
    nodes: Sequence[Node], placed: HostedInstances, ratio: Floats, held: NodeReservations
) -> dict[str, Any]:
    """With exclusive storage free spindles count; without it, the spindle use of instances counts."""
    total, exclusive = _ints(node.t_spindles for node in nodes), _bools(node.excl_stor for node in nodes)
    use = placed.values["spindle_use"].astype(np.float64)
    free = free_counted = _ints(node.f_spindles for node in nodes) - held.free_spindles
    used = used_counted = np.where(exclusive, 0.0, held.spindles + placed.on_both(use, placed.settled))
    if placed.forthcoming.any():
        coming = np.stack([placed.forthcoming, placed.forthcoming & placed.with_secondary], axis=1)
        places = np.stack([placed.pnode, placed.snode], axis=1)[coming]
        wants = placed.values[["spindles", "vague"]][np.flatnonzero(coming) // 2]
        left = _spindles_left(free, places, wants["spindles"], wants["vague"])
        concerned = np.bincount(places, minlength=placed.size) > 0
        free_counted = np.where(exclusive, left, np.where(concerned, 0, free))
        used_counted = np.where(exclusive, 0.0, held.spindles + placed.on_both(use, placed.all_instances))
    return {
        "t_spindles": total,
        "hi_spindles": ratio * total,
        "f_spindles": free,
        "f_spindles_forth": free_counted,
        "inst_spindles": used,
        "inst_spindles_forth": used_counted,
    }


def _cpus(nodes: Sequence[Node], placed: HostedInstances, held: NodeReservations) -> dict[str, Any]:
    own, vcpus = _ints(node.n_cpu for node in nodes) + held.vcpus, placed.values["vcpus"]
    used = counted = own + placed.on_primaries(vcpus, placed.settled)
    if placed.forthcoming.any():
        counted = own + placed.on_primaries(vcpus, placed.all_instances)
    return {
        "t_cpu": _floats(node.t_cpu for node in nodes),
        "cpu_speed": _floats(node.cpu_speed for node in nodes),
        "u_cpu": used,
        "u_cpu_forth": counted,
    }


def _loads(nodes: Sequence[Node], placed: HostedInstances) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Sum the loads of instances. A measured CPU load replaces the sum.

    Also returns the kinds of load that equal another kind, each with the first kind that it equals. They are
    equal for each instance: sums that are equal by chance differ after a move.
    """
    cpu, mem, dsk, net = placed.values["load"].T
    amounts, measured = {"load_cpu": cpu, "load_mem": mem, "load_net": net}, [node.cpu_load for node in nodes]
    known = any(load is not None for load in measured)
    sums: dict[str, Floats] = {}
    aliases = []
    for name, amount in amounts.items():
        alike = (each for each in sums if np.array_equal(amounts[each], amount))
        first = next((each for each in alike if each != "load_cpu" or not known), name)
        if first == name:
            sums[name] = placed.on_primaries(amount, placed.settled)
        else:
            aliases.append((name, first))
            sums[name] = sums[first]
    if known:
        pairs = zip(measured, sums["load_cpu"].tolist(), strict=True)
        sums["load_cpu"] = _floats(total if load is None else load for load, total in pairs)
    return sums | {"load_dsk": placed.on_both(dsk, placed.settled)}, aliases
