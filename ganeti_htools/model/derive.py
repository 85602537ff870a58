"""Makes a state of the rows that were read, and finds nodes whose figures do not add up."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.errors import on_one_line
from ganeti_htools.model.figures import Figures, tabulate
from ganeti_htools.model.state import State


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), np.float64)


def _bools(values: Iterable[bool]) -> Bools:
    return np.array(list(values), np.bool_)


def _sum_by(rows: Ints, values: Any, size: int) -> Any:
    """``values`` summed by row, in order, in their own type."""
    total = np.zeros(size, np.asarray(values).dtype)
    np.add.at(total, rows, values)
    return total


def _spindles_left(free: Ints, nodes: Ints, spindles: Ints, vague: Bools) -> Ints:
    """Free spindles after instances are placed in order; one that does not say what it needs leaves -1."""
    order, last = np.arange(len(nodes)), np.full(len(free), NOWHERE)
    np.maximum.at(last, nodes[vague], order[vague])
    after = order > last[nodes]
    left: Ints = np.where(last == NOWHERE, free, -1) - _sum_by(nodes[after], spindles[after], len(free))
    return left


def _tag_columns(tag_sets: Sequence[frozenset[str]]) -> tuple[dict[str, int], Bools]:
    """A row number for each tag that occurs, and a matrix of which node or instance has which tag."""
    rows = {tag: row for row, tag in enumerate(sorted(frozenset().union(*tag_sets)))}
    has = np.zeros((len(tag_sets), len(rows)), np.bool_)
    for holder, held in enumerate(tag_sets):
        for tag in held:
            has[holder, rows[tag]] = True
    return rows, has


def _migrates(cluster_tags: Sequence[str], nodes: Sequence[Node]) -> Bools | None:
    sent = [tags.migration_tags(cluster_tags, node.tags) for node in nodes]
    received = [tags.receivable_migration_tags(cluster_tags, node.tags) for node in nodes]
    if not any(sent):
        return None
    return np.array([[source <= target for target in received] for source in sent], np.bool_)


def derive(
    cluster: Cluster,
    requested: Sequence[Instance] = (),
    static_kvm_node_memory: int = 0,
    known: Figures | None = None,
) -> State:
    """Compute every derived figure of a consistent cluster (see :func:`.cluster.check`).

    ``requested`` are instances that are going to be placed (only their tags matter here).
    ``static_kvm_node_memory`` (MiB), unless 0, replaces what nodes running KVM report as their own
    memory: KVM counts its instances' there (``hail(1)``, Ganeti 3.0). ``known`` are figures of a
    cluster that shares rows with this one.
    """
    rows, size = cluster.nodes, len(cluster.nodes)
    node_row = {node.name: row for row, node in enumerate(rows)}
    group_row = {group.uuid: row for row, group in enumerate(cluster.groups)}
    group = _ints(group_row[node.group] for node in rows)
    policies = tuple(group.ipolicy for group in cluster.groups)
    static = static_kvm_node_memory
    n_mem = _ints(static if static and node.hypervisor == "kvm" else node.n_mem for node in rows)
    t_mem, f_mem = _floats(node.t_mem for node in rows), _ints(node.f_mem for node in rows)
    t_spindles = _ints(node.t_spindles for node in rows)
    excl_stor = _bools(node.excl_stor for node in rows)
    spindle_ratio = _floats(policies[row].spindle_ratio for row in group.tolist())

    instances = cluster.instances
    figures = tabulate(instances, known, policies)
    values = figures.values
    pnode = _ints(node_row[instance.pnode] for instance in instances)
    secondary_row: dict[str | None, int] = {None: NOWHERE}
    secondary_row.update(node_row)
    snode = _ints(secondary_row[instance.snode] for instance in instances)
    mem, record_mem, dsk = (np.ascontiguousarray(values[name]) for name in ("mem", "record_mem", "dsk"))
    forthcoming, local = np.ascontiguousarray(values["forthcoming"]), values["local"]
    vcpus, loads = values["vcpus"], values["load"]
    settled, doubled = ~forthcoming, snode != NOWHERE
    any_forthcoming = bool(forthcoming.any())

    def on_nodes(amounts: Any, primary: Bools, secondary: Bools | None = None) -> Any:
        """Sums per node, instances in order, a primary before a secondary of the same instance."""
        if secondary is None:
            return _sum_by(pnode[primary], amounts[primary], size)
        keep = np.stack([primary, secondary], axis=1)
        both = np.stack([pnode, snode], axis=1)
        return _sum_by(both[keep], np.stack([amounts, amounts], axis=1)[keep], size)

    everyone = np.ones_like(forthcoming)
    n_cpu = _ints(node.n_cpu for node in rows)
    u_cpu = n_cpu + on_nodes(vcpus, settled)
    use = values["spindle_use"].astype(np.float64)
    inst_spindles = np.where(excl_stor, 0.0, on_nodes(use, settled, settled & doubled))
    f_dsk, f_spindles = _ints(node.f_dsk for node in rows), _ints(node.f_spindles for node in rows)
    f_dsk_forth, f_spindles_forth = f_dsk, f_spindles
    u_cpu_forth, inst_spindles_forth = u_cpu, inst_spindles
    if any_forthcoming:
        reserved = forthcoming, forthcoming & doubled
        f_dsk_forth = f_dsk - on_nodes(np.where(local, dsk, 0), *reserved)
        touched = on_nodes(np.ones_like(dsk), *reserved) > 0
        coming = np.stack(reserved, axis=1)
        places = np.stack([pnode, snode], axis=1)[coming]
        wants = values[["spindles", "vague"]][np.flatnonzero(coming) // 2]
        left = _spindles_left(f_spindles, places, wants["spindles"], wants["vague"])
        f_spindles_forth = np.where(excl_stor, left, np.where(touched, 0, f_spindles))
        u_cpu_forth = n_cpu + on_nodes(vcpus, everyone)
        inst_spindles_forth = np.where(excl_stor, 0.0, on_nodes(use, everyone, doubled))

    load_cpu = on_nodes(loads[:, 0], settled)
    load_mem, load_net = (
        load_cpu if np.array_equal(loads[:, 0], loads[:, kind]) else on_nodes(loads[:, kind], settled)
        for kind in (1, 3)
    )
    measured = [node.cpu_load for node in rows]
    if any(load is not None for load in measured):
        pairs = zip(measured, load_cpu.tolist(), strict=True)
        load_cpu = _floats(summed if load is None else load for load, summed in pairs)

    peers = np.zeros((size, size), np.int64)
    keeps = settled & doubled
    np.add.at(peers, (pnode[keeps], snode[keeps]), values["secondary_mem"][keeps])
    r_mem = peers.max(axis=0, initial=0)
    i_mem = on_nodes(record_mem, settled)

    tag_rows, tag_counts, settled_tag_counts = _exclusion(
        cluster, requested, values["tagged"], pnode, forthcoming
    )
    location_rows, located = _tag_columns([tags.location_tags(cluster.tags, node.tags) for node in rows])
    location = np.zeros(size, np.int64)
    if location_rows or any(tag.startswith(tags.DESIRED_LOCATION) for tag in cluster.tags):
        shared = np.where(doubled, (located[pnode] & located[snode]).sum(axis=1), 0)
        unmet = _ints(
            len(
                tags.desired_locations(cluster.tags, instance.tags)
                - tags.location_tags(cluster.tags, rows[node].tags)
            )
            for instance, node in zip(instances, pnode.tolist(), strict=True)
        )
        location = on_nodes(shared + unmet, settled)

    columns = Columns(
        t_mem=t_mem,
        n_mem=n_mem,
        x_mem=t_mem.astype(np.int64) - n_mem - i_mem - f_mem,
        t_dsk=_floats(node.t_dsk for node in rows),
        t_cpu=_floats(node.t_cpu for node in rows),
        cpu_speed=_floats(node.cpu_speed for node in rows),
        t_spindles=t_spindles,
        lo_dsk=np.zeros(size, np.int64),
        hi_spindles=spindle_ratio * t_spindles,
        vcpu_ratio=_floats(policies[row].vcpu_ratio for row in group.tolist()),
        offline=_bools(node.offline for node in rows),
        excl_stor=excl_stor,
        i_mem=i_mem,
        f_mem_forth=f_mem - on_nodes(np.where(record_mem > 0, 0, mem), everyone),
        f_dsk=f_dsk,
        f_dsk_forth=f_dsk_forth,
        f_spindles=f_spindles,
        f_spindles_forth=f_spindles_forth,
        u_cpu=u_cpu,
        u_cpu_forth=u_cpu_forth,
        inst_spindles=inst_spindles,
        inst_spindles_forth=inst_spindles_forth,
        r_mem=r_mem,
        fail_n1=f_mem < r_mem,
        load_cpu=load_cpu,
        load_mem=load_mem,
        load_dsk=on_nodes(loads[:, 2], settled, settled & doubled),
        load_net=load_net,
        primaries=on_nodes(np.ones_like(dsk), settled),
        secondaries=_sum_by(snode[keeps], np.ones_like(dsk)[keeps], size),
        conflicts=np.maximum(tag_counts - 1, 0).sum(axis=0),
        location=location,
    )
    return State(
        cluster=cluster,
        figures=figures,
        nodes=node_row,
        group=group,
        policies=policies,
        columns=columns,
        pnode=pnode,
        snode=snode,
        stamp=np.arange(len(instances)),
        record_mem=record_mem,
        dsk=dsk,
        template=np.ascontiguousarray(values["template"]),
        forthcoming=forthcoming,
        peers=peers,
        tag_rows=tag_rows,
        tag_counts=tag_counts,
        settled_tag_counts=settled_tag_counts,
        migrates=_migrates(cluster.tags, rows),
        located=located,
        location_rows=location_rows,
    )


def _exclusion(
    cluster: Cluster, requested: Sequence[Instance], tagged: Bools, pnode: Ints, forthcoming: Bools
) -> tuple[dict[str, int], Ints, Ints]:
    """Rows of all exclusion tags, and their counts on nodes, with and without forthcoming instances."""
    prefixes, instances = tags.exclusion_prefixes(cluster.tags), cluster.instances
    candidates = np.flatnonzero(tagged).tolist() if prefixes else []
    held = [(row, tags.exclusion_tags(prefixes, instances[row].tags)) for row in candidates]
    wanted = [tags.exclusion_tags(prefixes, instance.tags) for instance in requested]
    met = {tag for each in (*(found for _, found in held), *wanted) for tag in each}
    tag_rows = {tag: row for row, tag in enumerate(sorted(met))}
    counts = np.zeros((len(tag_rows), len(cluster.nodes)), np.int64)
    waiting = np.zeros_like(counts)
    for row, found in held:
        for tag in found:
            counts[tag_rows[tag], pnode[row]] += 1
            if forthcoming[row]:
                waiting[tag_rows[tag], pnode[row]] += 1
    return tag_rows, counts, counts - waiting if waiting.any() else counts


def missing_resources(state: State) -> list[str]:
    """A line for each node that lacks more than 512 MiB of memory or 1 GiB of disk, last node first.

    Nodes that are ``updating`` are left out: their figures and their instances are of different times.
    """
    size = len(state.cluster.nodes)
    placed = [(state.pnode, ~state.forthcoming), (state.snode, ~state.forthcoming & (state.snode != NOWHERE))]
    used = sum(_sum_by(node[keep], state.dsk[keep], size) for node, keep in placed)
    columns = state.columns
    lost_mem = columns.x_mem.tolist()
    lost_dsk = (columns.t_dsk.astype(np.int64) - columns.f_dsk - used).tolist()
    return [
        f"node {on_one_line(node.name)} is missing {mem} MB ram and {dsk // 1024} GB disk"
        for node, mem, dsk in zip(state.cluster.nodes, lost_mem, lost_dsk, strict=True)
        if (mem > 512 or dsk > 1024) and not node.updating
    ][::-1]
