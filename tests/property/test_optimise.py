"""An optimised plan is never worse than the greedy one, keeps to the options, can be made step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import rebalance, score_of
from ganeti_htools.engine.balancing.front import optimise
from ganeti_htools.engine.balancing.replay import RatedPlan
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import existing
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from tests.property.narrow import cases
from tests.support.patience import Steps

CLOSE = 1e-6  # deviations near 0 are off by the root of the last bit

balancings = st.builds(
    BalancingOptions,
    disk_moves=st.sampled_from([True, True, False]),
    instance_moves=st.sampled_from([True, True, False]),
    restricted_migration=st.booleans(),
    evacuation=st.sampled_from([False, False, True]),
    ignore_soft_errors=st.booleans(),
    min_gain=st.sampled_from([0.0, 0.01]),
    max_length=st.sampled_from([-1, -1, 0, 1, 3]),
)


def check_steps(state: State, plan: RatedPlan, options: BalancingOptions) -> State:
    """Each step is one that may be made then, and leaves the score it says; the state in the end."""
    scope, volume = np.ones(len(state.group), np.bool_), 0
    state = state.copy()
    for step in plan.steps:
        chosen = np.arange(len(state.pnode)) == step.instance
        (found,) = (
            each
            for each in possible_moves(state, scope, chosen, options)[step.instance]
            if (each.kind, each.node) == (step.kind, step.node)
        )
        assert not found.place.why
        assert existing(found.place.pnode, found.place.snode) == step.nodes
        assert found.place.score == pytest.approx(step.score, abs=CLOSE)
        (batch,), facts = batches_of(state, chosen)
        settling.settle(state, try_move(facts, batch, 0, step.kind, step.node, options.ignore_soft_errors))
        volume += sum(copied(step.kind, state.cluster.instances[step.instance]))
    assert plan.volume == volume
    assert plan.score == score_of(state, scope)
    return state


@settings(max_examples=6)
@given(case=cases, options=balancings, chosen=st.integers(0, 3), number=st.sampled_from([15, 160]))
def test_optimised_plan_can_be_made_and_is_never_worse(
    case: tuple[State, Instance], options: BalancingOptions, chosen: int, number: int
) -> None:
    state, _ = case
    scope = np.ones(len(state.group), np.bool_)
    movable = np.arange(len(state.pnode)) % 4 != chosen
    before = state.copy()
    greedy, best = optimise(state, scope, options, CopyingOptions(), movable, Steps(number))
    assert best.rank <= greedy.rank
    assert greedy.steps == tuple(rebalance(state, scope, options, movable)[1])
    for plan in (greedy, best):
        after = check_steps(state, plan, options)
        assert (after.pnode == plan.after.pnode).all()
        assert (after.snode == plan.after.snode).all()
        assert {step.instance for step in plan.steps} <= set(np.flatnonzero(movable).tolist())
        assert options.max_length < 0 or len(plan.steps) <= options.max_length
    assert optimise(state, scope, options, CopyingOptions(), movable, Steps(number)) == (greedy, best)
    assert (state.pnode == before.pnode).all()
    assert (state.snode == before.snode).all()
