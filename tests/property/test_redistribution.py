"""Groups are repaired as promised, on any cluster of several groups."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.allocation.evacuate import change_group
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.redistribution import redistribute
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from tests.support.regroupings import check_moves, groups_of, narrow_rules, read_again, rules_of
from tests.support.super_clusters import super_clusters


def repaired(
    state: State, rules: RegroupingRules, limits: RegroupingLimits | None = None, partial: bool = False
) -> RegroupingOutcome:
    return redistribute(state, rules, limits or RegroupingLimits(), lambda _: None, partial)


def well(now: Regrouping, group: int) -> bool:
    """Whether there is nothing to be done for a group."""
    found = now.diagnosis(group)
    return found.good and all(now.obstacle(row) is not None for row in found.between)


@settings(max_examples=7)
@given(described=super_clusters, plain=st.booleans(), partial=st.booleans())
def test_repaired_groups_are_healthy_and_none_gets_worse(
    described: Cluster, plain: bool, partial: bool
) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    before, outcome = Regrouping(state, rules), repaired(state, rules, partial=partial)
    told = {*outcome.done, *(group for group, _ in outcome.failed)}
    assert told == {group for group in groups_of(state) if not well(before, group)}
    after = Regrouping(read_again(state, outcome.after.state), rules)
    for group in groups_of(state):
        assert not after.diagnosis(group).worse_than(before.diagnosis(group))
        assert after.diagnosis(group) == outcome.after.diagnosis(group)
        assert well(after, group) is (group not in dict(outcome.failed))
        if group in outcome.done:
            assert after.diagnosis(group).good
    between = {row for group in groups_of(state) for row in before.diagnosis(group).between}
    if not outcome.done and not partial:
        assert between.issuperset(move.instance for move in outcome.after.moved)
    for _, why in outcome.failed:
        assert why


@settings(max_examples=6)
@given(described=super_clusters, partial=st.booleans())
def test_a_second_run_does_nothing(described: Cluster, partial: bool) -> None:
    state = derive(described)
    outcome = repaired(state, rules_of(state), partial=partial)
    again = repaired(read_again(state, outcome.after.state), rules_of(state), partial=partial)
    assert not again.after.moved
    assert again.done == ()


def replayed(state: State, rules: RegroupingRules, moves: Sequence[Move]) -> Regrouping | None:
    """The cluster after these moves; None if one cannot be made."""
    now = Regrouping(state, rules)
    return now if all(now.move(move.instance, move.parts) for move in moves) else None


@settings(max_examples=6)
@given(described=super_clusters, plain=st.booleans())
def test_no_move_of_a_repair_is_needless(described: Cluster, plain: bool) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    outcome, before = repaired(state, rules), Regrouping(state, rules)
    moves = outcome.after.moved
    assert len({move.instance for move in moves}) == len(moves)
    whole = replayed(state, rules, moves)
    assert whole is not None
    between = {row for group in groups_of(state) for row in before.diagnosis(group).between}
    for move in moves:
        if move.instance in between:
            continue
        rest = replayed(state, rules, [each for each in moves if each is not move])
        if rest is not None and all(rest.diagnosis(group).good for group in outcome.done):
            assert any(
                rest.diagnosis(group).worse_than(before.diagnosis(group)) for group in groups_of(state)
            )


@settings(max_examples=6)
@given(described=super_clusters, seed=st.integers(0, 1 << 30))
def test_limits_hold(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    rules = narrow_rules(state, rng)
    limits = RegroupingLimits(rng.choice((-1, 1, 2, 4)), rng.choice((-1, 1000, 6000, 20000)))
    moves = repaired(state, rules, limits, rng.random() < 0.5).after.moved
    check_moves(state, rules, limits, moves)


@settings(max_examples=6)
@given(described=super_clusters, seed=st.integers(0, 1 << 30))
def test_interrupted_repair_is_completed_by_next_plan(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    rules = rules_of(state)
    outcome = repaired(state, rules)
    moves = outcome.after.moved
    begun = [row for row, move in enumerate(moves) if len(move.parts) > 1]
    if not begun:
        return
    last = rng.choice(begun)
    half = replayed(state, rules, moves[:last])
    assert half is not None
    assert half.move(moves[last].instance, moves[last].parts[: rng.randrange(1, len(moves[last].parts))])
    middle = read_again(state, half.state)
    again = repaired(middle, rules)
    for group in outcome.done:
        assert well(again.after, group)


@settings(max_examples=6)
@given(described=super_clusters)
def test_place_in_other_group_is_that_of_hail(described: Cluster) -> None:
    state = derive(described)
    now = Regrouping(state, rules_of(state, plain=False))
    for index in range(len(state.pnode)):
        lost = state.columns.offline[list(now.state.nodes_of(index))].any()  # then hail drops soft limits
        if lost or now.obstacle(index) is not None or len(now.homes(index)) > 1:
            continue
        for target in now.targets(index):
            hail = change_group(state, [index], [target], PlacementOptions(capacity=False))
            if not hail.moved:
                continue
            found = now.places(index, [target])
            theirs = now.after_moving(index, hail.moved[0].parts)
            # Where redundancy does not interfere it is the same, but for ties by the last bits of scores.
            if found and not now.group_state(target).lost.any() and theirs:
                scope, ours = state.group == target, now.after_moving(index, found[0].parts)
                assert ours is not None
                assert score_of(ours.state, scope) == pytest.approx(score_of(theirs.state, scope), abs=1e-9)
