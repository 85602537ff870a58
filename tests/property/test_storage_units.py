"""Storage units: the rules of the designs, told once more as slowly and plainly as possible."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.engine.rules.score import node_values, statistics
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from tests.property.narrow import cases
from tests.support.plain_storage import default_unit, free_on, has_room, is_source, keeps, left_on, told
from tests.support.trials import anew

PLENTY = 1 << 39

# Nodes tell their units. Exclusive storage has rules of its own.
with_units = cases.filter(lambda case: told(case[0].cluster) and not case[0].columns.excl_stor.any())


def without_disks(state: State, new: Instance) -> State:
    """The cluster with so much disk space everywhere that it limits nothing."""
    cluster = state.cluster
    nodes = tuple(
        replace(node, storage=None, t_dsk=float(PLENTY), f_dsk=PLENTY - 1) for node in cluster.nodes
    )
    return derive(replace(cluster, nodes=nodes), (new,))


@settings(max_examples=20)
@given(case=with_units)
def test_a_new_instance_fits_where_each_of_its_disks_does(case: tuple[State, Instance]) -> None:
    state, new = case
    cluster = state.cluster
    found, free = anew(state, new), anew(without_disks(state, new), new)
    places = [found.pnode, found.snode] if new.template is DiskTemplate.DRBD else [found.pnode]
    for candidate, code in enumerate(found.codes.tolist()):
        nodes = [cluster.nodes[int(rows[candidate])] for rows in places]
        expected = free.codes[candidate] == FITS and all(
            has_room(cluster, new, node, made=True) for node in nodes
        )
        assert (code == FITS) == expected, [node.name for node in nodes]


@settings(max_examples=20)
@given(case=with_units)
def test_a_move_fits_where_each_disk_does(case: tuple[State, Instance]) -> None:
    state, new = case
    cluster = state.cluster
    plenty, scope = without_disks(state, new), np.ones(len(state.group), np.bool_)
    for index, row in enumerate(cluster.instances):
        if row.template not in (DiskTemplate.DRBD, DiskTemplate.EXT):
            continue
        own = {int(state.pnode[index]), int(state.snode[index])}
        targets = np.array(sorted({*range(len(scope))} - own))
        if not len(targets):
            continue
        codes = [
            move(each, each.instance(index), MoveKind.FAILOVER_TO, targets, scope).codes
            if row.template is DiskTemplate.EXT
            else move(each, each.instance(index), MoveKind.REPLACE_SECONDARY, targets).codes
            for each in (state, plenty)
        ]
        shared = row.template is DiskTemplate.EXT
        lost = bool(state.columns.offline[(state.pnode if shared else state.snode)[index]])
        # The primary stays, and must have had the units with something left all along.
        primary = cluster.nodes[int(state.pnode[index])]
        # Of a forthcoming instance nothing is copied.
        source = row.forthcoming or is_source(cluster, primary)
        stays = shared or (keeps(cluster, row, primary, force=True) and source)
        for target, code, free in zip(targets.tolist(), *codes, strict=True):
            expected = free == FITS and stays and has_room(cluster, row, cluster.nodes[target], lost)
            assert (code == FITS) == expected, (row.name, cluster.nodes[target].name)


@settings(max_examples=40)
@given(case=with_units)
def test_nodes_change_roles_where_both_have_the_units(case: tuple[State, Instance]) -> None:
    state, new = case
    cluster = state.cluster
    plenty, scope = without_disks(state, new), np.ones(len(state.group), np.bool_)
    for index, row in enumerate(cluster.instances):
        if row.template is DiskTemplate.DRBD:
            primary, secondary = (cluster.nodes[int(at[index])] for at in (state.pnode, state.snode))
            code, free = (
                move(each, each.instance(index), MoveKind.FAILOVER, None, scope).codes[0]
                for each in (state, plenty)
            )
            # The data of a primary that is lost are on the secondary.
            lost = primary.offline
            there = keeps(cluster, row, secondary, lost) and (lost or keeps(cluster, row, primary))
            assert (code == FITS) == (free == FITS and there), row.name


def spread(cluster: Cluster, free_of: Callable[[Cluster, Node], dict[DesiredUnit, int]]) -> float:
    """The mean, over units on nodes, of how the free share differs between online nodes that have them."""
    shares: dict[DesiredUnit, list[float]] = {}
    for node in cluster.nodes:
        totals = {unit.desired: unit.total for unit in node.storage or ()}
        if node.storage is None:
            totals = {default_unit(cluster, StorageType.LVM_VG): int(node.t_dsk)}
        for unit, free in free_of(cluster, node).items():
            if unit.type.local and totals[unit] > 0 and not node.offline:
                shares.setdefault(unit, []).append(free / totals[unit])
    return float(np.mean([np.std(each) for each in shares.values()])) if shares else 0.0


@settings(max_examples=20)
@given(case=with_units)
def test_the_score_has_the_mean_spread_of_the_units(case: tuple[State, Instance]) -> None:
    state, _ = case
    found = statistics(state.columns, node_values(state.columns))
    parts = list(zip(found.names, found.weights, found.components(), strict=True))
    for name, free_of in (("free_disk_cv", free_on), ("free_disk_cv_forth", left_on)):
        figure = sum(weight * value for each, weight, value in parts if each.split(":")[0] == name)
        assert np.isclose(figure, 0.5 * spread(state.cluster, free_of), atol=1e-12)
