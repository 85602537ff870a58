"""Storage units: the rules of the designs, told once more as slowly and plainly as possible."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import node_values, statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from tests.property.narrow import DEFAULT, DIRECTORY, POOL, cases

PLENTY = 1 << 39
VOLUMES = (DiskTemplate.PLAIN, DiskTemplate.DRBD)
OF_TEMPLATE = {DiskTemplate.FILE: DIRECTORY, DiskTemplate.EXT: POOL}


def told(cluster: Cluster) -> bool:
    return any(node.storage is not None for node in cluster.nodes)


def wanted(cluster: Cluster, row: Instance) -> Counter[DesiredUnit]:
    """What an instance takes of each unit of a node: disk by disk, with 128 MiB for each DRBD one."""
    listed = {unit.desired for node in cluster.nodes for unit in node.storage or ()}
    found: Counter[DesiredUnit] = Counter()
    for disk in row.disks:
        unit = disk.unit or (
            default_group(cluster) if row.template in VOLUMES else OF_TEMPLATE.get(row.template)
        )
        if unit is None:
            continue
        mirrored = DesiredUnit(StorageType.DRBD, unit.key)
        if row.template is DiskTemplate.DRBD and mirrored in listed:
            unit = mirrored
        found[unit] += disk.size
        if row.template is DiskTemplate.DRBD:
            apart = disk.metavg is not None and disk.metavg != unit.key
            found[DesiredUnit(StorageType.LVM_VG, disk.metavg or "") if apart else unit] += 128
    return found if len(found) > 1 else Counter(dict.fromkeys(found, row.dsk))


def default_group(cluster: Cluster) -> DesiredUnit:
    """The volume group that most nodes list first."""
    firsts: Counter[str] = Counter()
    for node in cluster.nodes:
        groups = [
            u.desired.key
            for u in node.storage or ()
            if u.desired.type in (StorageType.LVM_VG, StorageType.DRBD)
        ]
        firsts.update(groups[:1])
    return DesiredUnit(StorageType.LVM_VG, firsts.most_common(1)[0][0]) if firsts else DEFAULT


def room(cluster: Cluster, node: Node) -> dict[DesiredUnit, int]:
    """What a node has free of each unit that it has."""
    if node.storage is None:
        return {default_group(cluster): node.f_dsk}
    return {unit.desired: unit.free for unit in node.storage if unit.total > 0}


def has_room(cluster: Cluster, row: Instance, node: Node) -> bool:
    """Whether a node has the unit of each disk, with something left; and sees the pools."""
    listed = {unit.desired for each in cluster.nodes for unit in each.storage or ()}
    types = {unit.type for unit in listed} | {StorageType.LVM_VG}
    free = room(cluster, node)
    for unit, size in wanted(cluster, row).items():
        if unit.type.pool and unit in listed and unit not in free:
            return False
        if unit.type.local and unit.type in types and not free.get(unit, 0) > size:
            return False
    return True


def without_disks(state: State, new: Instance) -> State:
    """The cluster with so much disk space everywhere that it limits nothing."""
    cluster = state.cluster
    nodes = tuple(
        replace(node, storage=None, t_dsk=float(PLENTY), f_dsk=PLENTY - 1) for node in cluster.nodes
    )
    return derive(replace(cluster, nodes=nodes), (new,))


def anew(state: State, new: Instance) -> Trial:
    """A new instance on all nodes, or pairs of nodes."""
    asked, rows = state.ask(new), np.arange(len(state.group))
    if not asked.mirrored:
        return placements.allocate_one(state, asked, rows, np.ones(len(rows), np.bool_))
    p, s = np.nonzero(rows[:, np.newaxis] != rows)
    return placements.allocate_pairs(state, asked, p, s, state.peers[p, s])


@settings(max_examples=200)
@given(case=cases)
def test_a_new_instance_fits_where_each_of_its_disks_does(case: tuple[State, Instance]) -> None:
    state, new = case
    cluster = state.cluster
    if not told(cluster) or state.columns.excl_stor.any() or new.forthcoming or state.forthcoming.any():
        return
    found, free = anew(state, new), anew(without_disks(state, new), new)
    places = [found.pnode, found.snode] if new.template is DiskTemplate.DRBD else [found.pnode]
    for candidate, code in enumerate(found.codes.tolist()):
        nodes = [cluster.nodes[int(rows[candidate])] for rows in places]
        expected = free.codes[candidate] == FITS and all(has_room(cluster, new, node) for node in nodes)
        assert (code == FITS) == expected, [node.name for node in nodes]


@settings(max_examples=200)
@given(case=cases)
def test_a_move_fits_where_each_disk_does(case: tuple[State, Instance]) -> None:
    state, new = case
    cluster = state.cluster
    if not told(cluster) or state.columns.excl_stor.any() or state.forthcoming.any():
        return
    plenty, scope = without_disks(state, new), np.ones(len(state.group), np.bool_)
    for index, row in enumerate(cluster.instances):
        if row.template not in (DiskTemplate.DRBD, DiskTemplate.EXT):
            continue
        own = {int(state.pnode[index]), int(state.snode[index])}
        targets = np.array(sorted({*range(len(scope))} - own))
        if not len(targets):
            continue
        codes = [
            placements.failover_to(each, each.instance(index), targets, scope).codes
            if row.template is DiskTemplate.EXT
            else placements.replace_secondary(each, each.instance(index), targets).codes
            for each in (state, plenty)
        ]
        # The primary stays, and must have had the units with something left all along.
        primary = cluster.nodes[int(state.pnode[index])]
        stays = row.template is DiskTemplate.EXT or has_own(cluster, row, primary)
        for target, code, free in zip(targets.tolist(), *codes, strict=True):
            expected = free == FITS and stays and has_room(cluster, row, cluster.nodes[target])
            assert (code == FITS) == expected, (row.name, cluster.nodes[target].name)


def has_own(cluster: Cluster, row: Instance, node: Node) -> bool:
    """Whether a node has the units on which an instance is said to be there, with something left."""
    free = room(cluster, node)
    return all(free.get(unit, 0) > 0 for unit in wanted(cluster, row))


@settings(max_examples=200)
@given(case=cases)
def test_the_score_has_the_mean_spread_of_the_units(case: tuple[State, Instance]) -> None:
    state, _ = case
    cluster = state.cluster
    if not told(cluster) or state.columns.excl_stor.any() or state.forthcoming.any():
        return
    shares: dict[DesiredUnit, list[float]] = {}
    for node in cluster.nodes:
        units = {unit.desired: (unit.total, unit.free) for unit in node.storage or ()}
        if node.storage is None:
            units = {default_group(cluster): (int(node.t_dsk), node.f_dsk)}
        for unit, (total, free) in units.items():
            if unit.type.local and total > 0 and not node.offline:
                shares.setdefault(unit, []).append(free / total)
    expected = np.mean([np.std(each) for each in shares.values()]) if shares else 0.0
    found = statistics(state.columns, node_values(state.columns))
    parts = zip(found.names, found.weights, found.components(), strict=True)
    told_of = [(weight, value) for name, weight, value in parts if name.split(":")[0] == "free_disk_cv"]
    assert np.isclose(sum(weight * value for weight, value in told_of), 0.5 * expected, atol=1e-12)
