"""A plan between node groups holds on the cluster it was made for, however far it has been carried out."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.groups import regrouping
from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.redistribution import redistribute
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import routes_within
from ganeti_htools.engine.moving.named_moves import named, remaining_move
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.state import State
from tests.support.regroupings import read_again, rules_of
from tests.support.super_clusters import super_clusters


def planned(state: State) -> tuple[RegroupingOutcome, list[NamedMove]]:
    outcome = redistribute(state, rules_of(state), RegroupingLimits(), lambda _: None)
    return outcome, list(named(state, outcome.after.moved))


def again_at(before: State, now: Regrouping) -> Regrouping:
    state = read_again(before, now.state)
    return Regrouping(state, rules_of(state))


@settings(max_examples=10)
@given(described=super_clusters, seed=st.integers(0, 1 << 30))
def test_rest_of_plan_is_accepted_after_any_step(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    outcome, named = planned(state)
    now = Regrouping(state, rules_of(state))
    for number, move in enumerate(outcome.after.moved):
        assert regrouping.recheck_moves(again_at(state, now), named[number:]) is None
        gone = rng.randrange(1, len(move.parts) + 1)
        half = now.copy()
        assert half.move(move.instance, move.parts[:gone])
        again = again_at(state, half)
        told = remaining_move(again.state, move.instance, named[number])
        assert told is not None
        assert told.parts == named[number].parts[gone:]
        assert regrouping.recheck_moves(again, named[number:]) is None
        assert again.state.pnode.tolist() == outcome.after.state.pnode.tolist()
        assert again.state.snode.tolist() == outcome.after.state.snode.tolist()
        assert now.move(move.instance, move.parts)


@settings(max_examples=10)
@given(described=super_clusters, seed=st.integers(0, 1 << 30))
def test_accepted_plan_makes_no_group_worse(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    _, named = planned(state)
    # Meanwhile an instance that is no part of the plan has moved, or a node has been lost.
    now = Regrouping(state, rules_of(state))
    others = [
        row
        for row in range(len(state.pnode))
        if all(described.instances[row].name != m.instance for m in named)
    ]
    rng.shuffle(others)
    for row in others[:2]:
        for parts in routes_within(now.state, now.rules, row, now.group_of(row)):
            now.move(row, parts)
            break
    again = again_at(state, now)
    groups = sorted(again.rules.groups)
    before = {group: again.diagnosis(group) for group in groups}
    if regrouping.recheck_moves(again, named) is None:
        for group in groups:
            assert not again.diagnosis(group).worse_than(before[group])
            assert set(again.diagnosis(group).between) <= set(before[group].between)
