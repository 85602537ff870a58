"""Groups are repaired as promised, on any cluster of several groups."""

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.allocation.evacuate import Moved
from ganeti_htools.engine.groups.outcome import Limits, Outcome, cost
from ganeti_htools.engine.groups.redistribution import redistribute
from ganeti_htools.engine.groups.regrouping import Regrouping, Rules
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import sorted_unique
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.planning.hregroup import reported
from tests.support.super_clusters import super_clusters


def rules_of(state: State, **facts: bool) -> Rules:
    """All groups, all instances."""
    return Rules(np.ones(len(state.pnode), np.bool_), frozenset(state.group.tolist()), **facts)


def repaired(state: State, rules: Rules, limits: Limits | None = None) -> Outcome:
    return redistribute(state, rules, limits or Limits(), lambda _: None)


def groups_of(state: State) -> list[int]:
    rows: list[int] = sorted_unique(state.group).tolist()
    return rows


def well(now: Regrouping, group: int) -> bool:
    """Whether a group has nothing to be repaired, so far as that may be moved."""
    found = now.health(group)
    return found.good and all(now.obstacle(row) is not None for row in found.between)


@settings(max_examples=150)
@given(described=super_clusters, plain=st.booleans())
def test_what_is_repaired_is_healthy_and_nothing_gets_worse(described: Cluster, plain: bool) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    before, outcome = Regrouping(state, rules), repaired(state, rules)
    told = {*outcome.done, *(group for group, _ in outcome.failed)}
    assert told == {group for group in groups_of(state) if not well(before, group)}
    assert len(told) == len(outcome.done) + len(outcome.failed)
    after = Regrouping(derive(reported(state, outcome.after.state)), rules)
    for group in groups_of(state):
        assert not after.health(group).worse_than(before.health(group))
        assert after.health(group) == outcome.after.health(group)
        if group in outcome.done:
            assert well(after, group)
    if not outcome.done:
        assert not outcome.after.moved
    for _, why in outcome.failed:
        assert why


@settings(max_examples=100)
@given(described=super_clusters)
def test_a_second_run_does_nothing(described: Cluster) -> None:
    state = derive(described)
    outcome = repaired(state, rules_of(state))
    again = repaired(derive(reported(state, outcome.after.state)), rules_of(state))
    assert not again.after.moved
    assert again.done == ()


def replayed(state: State, rules: Rules, moves: Sequence[Moved]) -> Regrouping | None:
    """The cluster after these moves; None if one cannot be made."""
    now = Regrouping(state, rules)
    return now if all(now.make(move.instance, move.parts) for move in moves) else None


@settings(max_examples=100)
@given(described=super_clusters, plain=st.booleans())
def test_nothing_moves_that_does_not_have_to(described: Cluster, plain: bool) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    outcome, before = repaired(state, rules), Regrouping(state, rules)
    moves = outcome.after.moved
    assert len({move.instance for move in moves}) == len(moves)
    whole = replayed(state, rules, moves)
    assert whole is not None
    for move in moves:
        rest = replayed(state, rules, [each for each in moves if each is not move])
        if rest is not None and all(well(rest, group) for group in outcome.done):
            assert any(rest.health(group).worse_than(before.health(group)) for group in groups_of(state))


@settings(max_examples=100)
@given(described=super_clusters, seed=st.integers(0, 1 << 30))
def test_limits_hold(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    chosen = frozenset(group for group in groups_of(state) if rng.random() < 0.7)
    movable = np.array([rng.random() < 0.8 for _ in state.pnode], np.bool_)
    rules = Rules(movable, chosen, mirrored=rng.random() < 0.5, plain=rng.random() < 0.5)
    limits = Limits(rng.choice((-1, 1, 2, 4)), rng.choice((-1, 1000, 6000, 20000)))
    moves = repaired(state, rules, limits).after.moved
    rows = state.cluster.instances
    assert limits.moves < 0 or len(moves) <= limits.moves
    assert limits.copy < 0 or sum(cost(rows, move) for move in moves) <= limits.copy
    for move in moves:
        assert movable[move.instance]
        assert move.group in chosen
        assert state.group[state.pnode[move.instance]] in chosen
        copying = [part for part in move.parts if part.operation.copies_disks]
        if rows[move.instance].template.mirror.value == "internal":
            assert rules.mirrored or not copying
        else:
            assert rules.plain or not copying
