"""A step found with knowledge of earlier steps equals the step of a new search."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import score_of, stepwise
from ganeti_htools.engine.squeezing.power_group import TO_THE_END
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from tests.property.narrow import cases
from tests.support.rarities import Rarely, rare

KINDS = (
    Rarely(templates={"ext": 1}, vague=0.8, nodes=3, instances=5),
    Rarely(templates={"ext": 1}, vague=0.7),
    Rarely(exclusive=0.5, forthcoming=0.2),
    Rarely(exclusive=0.7, nodes=18, instances=40),
)
OPTIONS = BalancingOptions(min_gain=0.0, min_gain_limit=0.0)


def one_by_one(state: State) -> Iterator[Move]:
    """Each step by a search of its own, in place."""
    scope = np.ones(len(state.group), np.bool_)
    while found := list(islice(stepwise(state, scope, OPTIONS), 1)):
        yield found[0]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 30), kind=st.sampled_from(KINDS))
def test_step_equals_the_step_of_a_new_search(seed: int, kind: Rarely) -> None:
    check_steps(derive(rare(seed, kind)))


@settings(max_examples=15, deadline=None)
@given(case=cases)
def test_step_equals_the_step_of_a_new_search_with_every_rule(case: tuple[State, Instance]) -> None:
    check_steps(case[0])


@settings(max_examples=15, deadline=None)
@given(case=cases, lost=st.integers(0, 3))
def test_rough_steps_are_the_same_moves(case: tuple[State, Instance], lost: int) -> None:
    state, scope = case[0].copy(), np.ones(len(case[0].group), np.bool_)
    state.columns.offline[:lost] = True
    exact, rough = (list(stepwise(state.copy(), scope, TO_THE_END, rough=each)) for each in (False, True))
    assert [replace(step, score=0.0) for step in rough] == [replace(step, score=0.0) for step in exact]
    assert [step.score for step in rough] == pytest.approx([step.score for step in exact], abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(case=cases, lost=st.integers(0, 2), options=st.sampled_from((OPTIONS, BalancingOptions())))
def test_step_has_the_score_of_the_state_to_the_last_bit(
    case: tuple[State, Instance], lost: int, options: BalancingOptions
) -> None:
    state, scope = case[0].copy(), np.ones(len(case[0].group), np.bool_)
    state.columns.offline[:lost] = True
    for step in stepwise(state, scope, options):
        assert step.with_next or step.score == score_of(state, scope)


def check_steps(state: State) -> None:
    scope = np.ones(len(state.group), np.bool_)
    expected = list(islice(one_by_one(state.copy()), 12))
    assert list(islice(stepwise(state.copy(), scope, OPTIONS), 12)) == expected
