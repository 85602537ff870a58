"""A move updates figures and scores to those of the cluster derived afterwards."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings

from ganeti_htools.engine.rules import affinity, choice, placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.placement_rules import mates
from ganeti_htools.engine.rules.relocate import move, move_pairs
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.node_reservations import node_reservations
from ganeti_htools.model.state import State
from tests.property.narrow import cases, figures

ROUNDED = 1e-7  # where a spread should be 0, rounding leaves the root of the last bit


def everywhere(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def trials(state: State, new: Instance, force: bool) -> Iterator[Trial]:
    """Every kind of move of the first instances, and the new instance placed."""
    scope, rows = everywhere(state), np.arange(len(state.group))
    asked = state.requested_instance(new)
    yield placements.allocate_one(state, asked, rows, scope, force)
    p, s = np.nonzero(rows[:, np.newaxis] != rows)
    yield placements.allocate_pairs(state, asked, p, s, state.peers[p, s], force)
    for index in range(min(4, len(state.pnode))):
        asked = state.instance(index)
        used = [int(state.pnode[index]), int(state.snode[index])]
        targets = rows[~np.isin(rows, used)]
        if asked.mirrored:
            yield move(state, asked, MoveKind.FAILOVER, None, scope, force)
            yield move(state, asked, MoveKind.REPLACE_SECONDARY, targets, force=force)
        else:
            yield move(state, asked, MoveKind.FAILOVER_TO, targets, scope, force)
            yield move(state, asked, MoveKind.MOVE, targets, scope, force)


def described(state: State, new: Instance) -> State:
    """The state derived from a description of it, with live figures that belong to it."""
    cluster, columns = state.to_cluster(), state.columns
    free = columns.t_mem.astype(np.int64) - columns.n_mem - columns.i_mem - columns.x_mem
    free += node_reservations(cluster.nodes, state.units).memory
    nodes = tuple(replace(node, f_mem=mem) for node, mem in zip(cluster.nodes, free.tolist(), strict=True))
    return derive(replace(cluster, nodes=nodes), (new,))


@settings(max_examples=12)
@given(case=cases)
@pytest.mark.parametrize("force", [False, True])
def test_settled_move_equals_the_derived_state(force: bool, case: tuple[State, Instance]) -> None:
    state, new = case
    for trial in trials(state, new, force):
        for candidate in np.flatnonzero(trial.codes == FITS).tolist():
            after = state.copy()
            chosen = trial.only(candidate)
            index = settling.settle(after, chosen)
            fresh = described(after, new)
            for name in after.columns.changing():
                if name != "fail_n1":  # judged by other rules once something changes
                    ours, theirs = (figures(getattr(each.columns, name)) for each in (after, fresh))
                    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9, err_msg=name)
            for touched in chosen.changes if not chosen.asked.forthcoming else ():
                row = int(touched.rows[0])
                failing = fresh.columns.unallocated[row] <= fresh.columns.r_mem[row]
                assert after.columns.fail_n1[row] == failing
            same = ("pnode", "snode", "peers", "class_peers", "classes", "template")
            for name in (*same, "tag_counts", "forthcoming_tag_counts"):
                np.testing.assert_array_equal(getattr(after, name), getattr(fresh, name), err_msg=name)
            assert after.stamp[index] > np.delete(after.stamp, index).max(initial=-1)


@settings(max_examples=12)
@given(case=cases)
def test_updated_scores_equal_fresh_ones(case: tuple[State, Instance]) -> None:
    state, new = case
    scope = everywhere(state)
    assume(not state.columns.offline.all())
    location_exclusion = affinity.location_exclusion(state, scope)
    base = choice.base(state, scope, location_exclusion)
    for trial in trials(state, new, force=True):
        scores = trial.scores(base)
        for candidate in np.flatnonzero(trial.codes == FITS).tolist():
            afresh = choice.fresh_score(state, trial, candidate, scope, location_exclusion)
            after = state.copy()
            settling.settle(after, trial.only(candidate))
            settled = choice.base(after, scope, affinity.location_exclusion(after, scope)).score()
            assert afresh == settled
            assert scores[candidate] == pytest.approx(afresh, rel=1e-9, abs=ROUNDED)


@settings(max_examples=12)
@given(case=cases)
def test_two_failovers_restore_the_state(case: tuple[State, Instance]) -> None:
    state, _ = case
    for index in np.flatnonzero(state.snode != NOWHERE).tolist():
        after = state.copy()
        for _ in range(2):
            settling.settle(after, move(after, after.instance(index), MoveKind.FAILOVER, force=True))
        for name in state.columns.changing():
            ours, theirs = (figures(getattr(each.columns, name)) for each in (after, state))
            if name != "fail_n1":
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9, err_msg=name)


@settings(max_examples=12)
@given(case=cases)
@pytest.mark.parametrize("force", [False, True])
def test_moving_off_both_nodes_equals_three_moves(force: bool, case: tuple[State, Instance]) -> None:
    state, _ = case
    scope, rows = everywhere(state), np.arange(len(state.group))
    assume(not state.columns.offline.all())
    base = choice.base(state, scope, affinity.location_exclusion(state, scope))
    for index in np.flatnonzero(state.snode != NOWHERE)[:3].tolist():
        if mates(state, index):
            continue  # it may be without its mates between two of the three moves
        asked = state.instance(index)
        targets = rows[~np.isin(rows, [state.pnode[index], state.snode[index]])]
        trial, steps = move_pairs(state, asked, targets, scope, force)
        scores = trial.scores(base)
        for p, s in np.argwhere(targets[:, np.newaxis] != targets).tolist():
            after, codes = state.copy(), []
            for target in (targets[[p]], None, targets[[s]]):
                step = (
                    move(after, asked, MoveKind.FAILOVER, None, scope, force)
                    if target is None
                    else move(after, asked, MoveKind.REPLACE_SECONDARY, target, force=force)
                )
                codes.append(int(step.codes[0]))
                if codes[-1] != FITS:
                    break
                settling.settle(after, step.only(0))
            step_codes = [int(np.broadcast_to(code, trial.codes.shape)[p, s]) for code in steps]
            assert step_codes[: len(codes)] == codes
            if len(codes) == 3 and codes[-1] == FITS:
                assert trial.codes[p, s] == FITS
                score = choice.base(after, scope, affinity.location_exclusion(after, scope)).score()
                assert scores[p, s] == pytest.approx(score, rel=1e-9, abs=ROUNDED)
