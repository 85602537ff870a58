"""Plans of a front can be made, keep to all limits, cost what they say, and none beats another."""

import itertools
from operator import attrgetter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.front import front, spread
from ganeti_htools.engine.balancing.recheck import obstacle
from ganeti_htools.engine.balancing.replay import DIGITS, RatedPlan
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from tests.property.narrow import cases
from tests.property.test_optimise import balancings, check_steps
from tests.support.patience import Steps

copyings = st.builds(
    CopyingOptions,
    price=st.sampled_from([0.0, 0.0, 1.0, 1000.0]),
    price_memory=st.sampled_from([None, 0.0]),
    max_copy=st.sampled_from([-1, -1, 0, 2000, 5000]),
    max_moves=st.sampled_from([-1, -1, 1, 3]),
    max_time=st.sampled_from([-1.0, -1.0, 300.0]),
)


@settings(max_examples=3)
@given(
    case=cases,
    options=balancings,
    copying=copyings,
    chosen=st.integers(0, 3),
    number=st.sampled_from([15, 300]),
)
def test_plans_can_be_made_and_none_is_beaten(
    case: tuple[State, Instance], options: BalancingOptions, copying: CopyingOptions, chosen: int, number: int
) -> None:
    state, _ = case
    scope = np.ones(len(state.group), np.bool_)
    movable = np.arange(len(state.pnode)) % 4 != chosen
    before = state.copy()
    found = front(state, scope, options, copying, movable, Steps(number))
    cost = attrgetter("charge" if copying.priced else "weighted")
    assert found.plans[0].length == 0
    for plan in spread(found, 4):
        rated = RatedPlan(tuple(plan.steps), plan.score, plan.copied, state)
        check_steps(state, rated, options)
        assert obstacle(state.copy(), scope, list(named(state, plan.steps)), options, movable) is None
        assert plan.within(copying, options)
        assert {step.instance for step in plan.steps} <= set(np.flatnonzero(movable).tolist())
    for one, other in itertools.permutations(found.plans[1:], 2):
        assert cost(one) > cost(other) or round(one.score, DIGITS) > round(other.score, DIGITS)
    if found.usual.within(copying, options):
        assert any(
            cost(plan) <= cost(found.usual) and plan.figures[1] <= found.usual.figures[1]
            for plan in found.plans
        )
    assert front(state, scope, options, copying, movable, Steps(number)) == found
    assert (state.pnode == before.pnode).all()
    assert (state.snode == before.snode).all()
