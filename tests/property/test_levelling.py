"""Groups are balanced as promised, on any cluster of several groups."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.groups.levelling import group_loads, level
from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.cluster import Cluster, Load
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.regroupings import check_moves, groups_of, narrow_rules, read_again, rules_of
from tests.support.super_clusters import super_cluster


def loaded(seed: int) -> Cluster:
    """Any cluster of several groups; instances of most have loads of their own."""
    rng = Random(seed)
    cluster = super_cluster(rng)
    if rng.random() < 0.3:
        return cluster
    rows = (replace(row, load=Load(*(rng.uniform(0, 3) for _ in range(4)))) for row in cluster.instances)
    return replace(cluster, instances=tuple(rows))


clusters = st.builds(loaded, st.integers(0, 1 << 40))


def levelled(
    state: State, rules: RegroupingRules, limits: RegroupingLimits | None = None, min_gain: float = 1e-2
) -> RegroupingOutcome:
    return level(state, rules, limits or RegroupingLimits(), min_gain, lambda _: None)


@settings(max_examples=12)
@example(described=loaded(4612), plain=False, min_gain=0.0)
@given(described=clusters, plain=st.booleans(), min_gain=st.sampled_from((0.0, 1e-2, 1e-1)))
def test_the_score_drops_and_no_group_gets_worse(described: Cluster, plain: bool, min_gain: float) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    before, outcome = Regrouping(state, rules), levelled(state, rules, min_gain=min_gain)
    moves = outcome.after.moved
    after = Regrouping(read_again(state, outcome.after.state), rules)
    score, lower = (group_loads(each.state, rules.groups).score for each in (before, after))
    assert len({move.instance for move in moves}) == len(moves)
    assert lower < score - min_gain / 2 if moves else lower == score
    for group in groups_of(state):
        assert not after.diagnosis(group).worse_than(before.diagnosis(group))
    for move in moves:
        target = after.group_of(move.instance)
        assert after.diagnosis(target).good
        assert not before.last_resort(target)
        assert before.group_of(move.instance) != target


@settings(max_examples=10)
@given(described=clusters)
def test_a_second_run_does_nothing(described: Cluster) -> None:
    state = derive(described)
    rules = rules_of(state)
    outcome = levelled(state, rules)
    assert not levelled(read_again(state, outcome.after.state), rules).after.moved


@settings(max_examples=10)
@example(described=loaded(620))
@given(described=clusters)
def test_gain_equals_drop_of_score(described: Cluster) -> None:
    state = derive(described)
    rules = rules_of(state, plain=True)
    now, loads = Regrouping(state, rules), group_loads(state, rules.groups)
    for at, source in enumerate(loads.groups):
        rows = np.flatnonzero(state.group[state.pnode] == source)
        gains = loads.gains(rows, at)
        for row, index in enumerate(rows.tolist()):
            if now.obstacle(index) is not None or len(now.homes(index)) > 1:
                continue
            for target in now.targets(index):
                tried, way = now.copy(), now.route_to(index, target)
                if target in loads.groups and way is not None and tried.move(index, way):
                    drop = loads.score - group_loads(tried.state, rules.groups).score
                    assert abs(gains[row, loads.groups.index(target)] - drop) < 1e-6


@settings(max_examples=10)
@given(described=clusters, seed=st.integers(0, 1 << 30))
def test_limits_hold(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    rules = narrow_rules(state, rng)
    limits = RegroupingLimits(rng.choice((-1, 0, 1, 2)), rng.choice((-1, 1000, 6000)))
    moves = levelled(state, rules, limits, 0.0).after.moved
    check_moves(state, rules, limits, moves)
