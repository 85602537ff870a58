"""What is said of redundancy without trying is what trying says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from ganeti_htools.engine.allocation import allocate
from ganeti_htools.engine.allocation.solution import Solution
from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.engine.redundancy.checks import SecondaryCheck
from ganeti_htools.engine.redundancy.demand import Amounts
from ganeti_htools.engine.redundancy.rule import can_be_lost
from ganeti_htools.engine.redundancy.simulate import NewInstances
from ganeti_htools.engine.rules import affinity, choice, node_rules, placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Ints, of_unit
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.property.narrow import cases

OPTIONS = (PlacementOptions(), PlacementOptions(accept_existing=True))


def of_all(state: State, options: PlacementOptions) -> Assessment:
    return assess(state, np.ones(len(state.group), np.bool_), options)


def lost(state: State, redundancy: Assessment) -> list[int]:
    """Nodes that count and cannot be emptied, each tried."""
    nodes = np.flatnonzero(redundancy.bounds.checked).tolist()
    return [node for node in nodes if not can_be_lost(state, node, redundancy.bounds.scope)]


def placed(state: State, new: Instance) -> tuple[Ints, Ints | None]:
    """Every node, or for a mirrored instance every pair, as primaries and secondaries."""
    rows = np.arange(len(state.group))
    return rows, rows if new.template is DiskTemplate.DRBD else None


@settings(max_examples=30)
@given(case=cases)
@pytest.mark.parametrize("options", OPTIONS)
def test_as_it_is(options: PlacementOptions, case: tuple[State, Instance]) -> None:
    state, _ = case
    redundancy = of_all(state, options)
    tried, unsettled = lost(state, redundancy), redundancy.bounds.unproved().tolist()
    broken = np.flatnonzero(redundancy.bounds.fatal & redundancy.bounds.checked).tolist()
    assert set(broken) <= set(tried) <= {*broken, *unsettled}


@settings(max_examples=14)
@given(case=cases)
@pytest.mark.parametrize("options", OPTIONS)
def test_with_a_new_instance(options: PlacementOptions, case: tuple[State, Instance]) -> None:
    state, new = case
    asked, redundancy = state.requested_instance(new), of_all(state, options)
    rows = np.arange(len(state.group))
    if asked.mirrored:
        p, s = np.nonzero((rows[:, np.newaxis] != rows) & (state.group[:, np.newaxis] == state.group))
        admitted = redundancy.admissible(asked, rows, rows)[p, s]
        trial = placements.allocate_pairs(state, asked, p, s, state.peers[p, s], force=True)
    else:
        admitted = redundancy.admissible(asked, rows, None)
        trial = placements.allocate_one(state, asked, rows, redundancy.bounds.scope, force=True)
    for candidate in np.flatnonzero(trial.codes == FITS).tolist():
        chosen, after = trial.only(candidate), state.copy()
        settling.settle(after, chosen)
        redundant = not lost(after, redundancy)
        nodes = int(chosen.pnode[0]), int(chosen.snode[0])
        assert (admitted[candidate] and redundancy.survives(asked, *nodes)) == redundant
        if redundant:
            redundancy.cache.suspects = list(range(len(state.group)))
            assert not redundancy.refuted(NewInstances.of(asked, *nodes)).any()
            unproved = redundancy.bounds.unproved(asked, nodes[0]).tolist()
            assert redundancy.bounds.surely_fatal(asked, *nodes, unproved) == NOWHERE


@settings(max_examples=30)
@given(case=cases)
def test_sums_take_what_resources_declare(case: tuple[State, Instance]) -> None:
    state, new = case
    asked, columns = state.requested_instance(replace(new, forthcoming=False)), state.columns
    redundancy = of_all(state, PlacementOptions())
    after, _ = node_rules.add_primary(columns, asked, 0, 0, force=True)
    for node in range(len(state.group)):
        before, (displaced, free) = redundancy.bounds.demand, redundancy.bounds.demand_and_room(asked, [node])
        sums: list[tuple[Amounts, Amounts, Ints, Ints, Ints]] = [
            (before.memory, displaced.memory, free.memory, columns.unallocated, after.unallocated),
        ]
        disks = zip(before.disk, displaced.disk, free.disk, strict=True)
        for unit, (alone, together, left) in enumerate(disks):
            if not state.units.reported or getattr(columns, of_unit("t_dsk", unit))[node] > 0:
                name = of_unit("f_dsk", unit)
                sums.append((alone, together, left, getattr(columns, name), getattr(after, name)))
        if columns.excl_stor[node] and asked.spindles is not None:
            spindles = before.spindles, displaced.spindles, free.spindles
            sums.append((*spindles, columns.f_spindles, after.f_spindles))
        for alone, together, left, figure, then in sums:
            assert left[node] == then[node]
            if not asked.mirrored and not redundancy.bounds.is_bound(asked, node):
                assert together.total[node] - alone.total[node] == figure[node] - then[node]


@settings(max_examples=14)
@given(case=cases)
def test_a_place_that_was_found_is_the_best_that_is_redundant(case: tuple[State, Instance]) -> None:
    state, new = case
    scope, options = np.ones(len(state.group), np.bool_), PlacementOptions()
    asked, redundancy = state.requested_instance(new), of_all(state, options)
    count = new.template.required_nodes

    def found(check: Assessment | None) -> Solution | None:
        nodes = allocate.usable_nodes(state, scope, None)
        try:
            return allocate.in_scope(state, asked, count, nodes, scope, options, check)
        except RequestFailed:
            return None

    best, bare = found(redundancy), found(None)
    if best is None or bare is None:
        assert best is bare
        return
    assert best.successes + sum(best.failures.values()) == bare.successes + sum(bare.failures.values())
    if best.trial is None:
        return
    after = state.copy()
    settling.settle(after, best.trial)
    assert not lost(after, redundancy)
    assert best.metric == pytest.approx(
        choice.base(after, scope, affinity.location_exclusion(after, scope)).score()
    )
    assert bare.metric <= best.metric
    if bare.trial is not None and bare.nodes != best.nodes:
        other = state.copy()
        settling.settle(other, bare.trial)
        assert lost(other, redundancy)


@settings(max_examples=40)
@given(case=cases)
def test_with_a_secondary_more(case: tuple[State, Instance]) -> None:
    state, _ = case
    alone = [row for row, each in enumerate(state.cluster.instances) if each.template is DiskTemplate.PLAIN]
    before = of_all(state, PlacementOptions())
    for index in alone[:2]:
        primary, bare = int(state.pnode[index]), settling.without_primary(state, index)
        asked = bare.instance(index)
        for secondary in set(range(len(state.group))) - {primary}:
            pair = np.array([primary]), np.array([secondary])
            chosen = placements.allocate_pairs(bare, asked, *pair, bare.peers[pair], force=True)
            if chosen.codes[0] != FITS:
                continue
            check = SecondaryCheck(before, bare)
            after = state.copy()
            for touched in chosen.changes:
                after.columns.put(int(touched.rows[0]), touched.new)
            settling.reserve(after, asked, primary, secondary)
            admitted = bool(check.admissible(asked, *pair)[0, 0])
            assert (admitted and check.fatal_loss(asked, primary, secondary) == NOWHERE) == (
                not lost(after, before)
            )
