"""Groups are emptied as promised, on any cluster of several groups."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.groups.compression import compress
from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome, cost
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.regroupings import check_moves, groups_of, narrow_rules, read_again, rules_of
from tests.support.super_clusters import super_clusters


def emptied(
    state: State, rules: RegroupingRules, *named: int, number: int = 1, reserve: float = 0.0
) -> RegroupingOutcome:
    return compress(state, rules, RegroupingLimits(), named, number, reserve, lambda _: None)


def residents(state: State, group: int) -> set[int]:
    """The instances with a node in a group."""
    nodes = zip(state.pnode.tolist(), state.snode.tolist(), strict=True)
    return {
        index
        for index, pair in enumerate(nodes)
        if any(node != NOWHERE and state.group[node] == group for node in pair)
    }


@settings(max_examples=12)
@given(described=super_clusters, plain=st.booleans(), number=st.sampled_from((1, 2)))
def test_a_group_is_emptied_and_no_other_gets_worse(described: Cluster, plain: bool, number: int) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    before, outcome = Regrouping(state, rules), emptied(state, rules, number=number)
    moves = outcome.after.moved
    after = Regrouping(read_again(state, outcome.after.state), rules)
    assert len(outcome.done) <= number
    assert len({move.instance for move in moves}) == len(moves)
    assert {move.instance for move in moves} == {
        row for each in outcome.done for row in residents(state, each)
    }
    for group in groups_of(state):
        if group in outcome.done:
            assert not residents(after.state, group)
        else:
            assert not after.diagnosis(group).worse_than(before.diagnosis(group))
        if not residents(state, group):
            assert not residents(after.state, group)
    for move in moves:
        assert before.diagnosis(int(state.group[move.nodes[0]])).good
    assert {each.group for each in outcome.possible}.isdisjoint(group for group, _ in outcome.failed)
    assert bool(outcome.done) == bool(outcome.possible)


@settings(max_examples=10)
@given(described=super_clusters)
def test_possible_group_is_emptied_when_named_and_second_run_does_nothing(
    described: Cluster,
) -> None:
    state = derive(described)
    rules = rules_of(state)
    start, rows = Regrouping(state, rules), state.cluster.instances
    for each in emptied(state, rules).possible:
        named = emptied(state, rules, each.group)
        assert named.done == (each.group,)
        assert len(named.after.moved) == each.moves
        if all(len(start.homes(move.instance)) == 1 for move in named.after.moved):  # else it may go home
            assert sum(cost(rows, move) for move in named.after.moved) == each.copied
        again = emptied(read_again(state, named.after.state), rules, each.group)
        assert not again.after.moved
        assert again.failed == ()


@settings(max_examples=10)
@given(described=super_clusters, reserve=st.sampled_from((1.0, 1.5, 3.0)))
def test_the_reserve_stays_free(described: Cluster, reserve: float) -> None:
    state = derive(described)
    rules = rules_of(state)
    outcome = emptied(state, rules, reserve=reserve)
    after = Regrouping(outcome.after.state, rules)
    for group in {int(state.group[move.nodes[0]]) for move in outcome.after.moved}:
        assert after.has_room(group, 3 if reserve == 3 else int(np.ceil(reserve)))


@settings(max_examples=10)
@given(described=super_clusters, seed=st.integers(0, 1 << 30))
def test_limits_hold(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    rules = narrow_rules(state, rng)
    limits = RegroupingLimits(rng.choice((-1, 1, 4)), rng.choice((-1, 2000, 20000)))
    moves = compress(state, rules, limits, (), 2, 0.0, lambda _: None).after.moved
    check_moves(state, rules, limits, moves)
