"""The time limit of a plan: instances of 1,000 MiB move at 100 Mbit/s, so each move takes 80 seconds."""

import itertools

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import rebalance, score_of
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT
MOVE = 80.0


def crowded() -> State:
    """Seven instances on one of two nodes: three moves are good, the third makes it nearly even."""
    rows = [instance(f"i{i}", EXT, "n0", spindle_use=0) for i in range(7)]
    return derive(by_hand.cluster({"n0": 20_000, "n1": 20_000}, rows))


def plan(state: State, **options: float) -> list[Move]:
    scope = np.ones(len(state.group), np.bool_)
    return rebalance(state, scope, BalancingOptions(min_gain=0, **options))[1]  # type: ignore[arg-type]


def improvements(state: State) -> list[float]:
    """By what each step of the usual plan divides the score, which could become 0."""
    scores = [score_of(state, np.ones(len(state.group), np.bool_)), *(step.score for step in plan(state))]
    return [before / after for before, after in itertools.pairwise(scores)]


def test_a_short_plan_goes_on() -> None:
    state = crowded()
    assert len(plan(state)) == 3
    assert len(plan(state, long_factor=100.0, long_threshold=3 * MOVE + 1)) == 3
    assert len(plan(state, long_factor=100.0, long_threshold=3 * MOVE)) == 2
    assert len(plan(state, long_factor=100.0, long_threshold=MOVE)) == 0
    assert len(plan(state, long_factor=0.0, long_threshold=1)) == 3
    assert len(plan(state, long_factor=0.009, long_threshold=1)) == 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_long_plan_goes_on_where_that_divides_the_score_by_enough(number: int) -> None:
    state = crowded()
    gain = improvements(state)[number - 1]
    # With this threshold the plan gets long with this step, and is as long as it then.
    threshold = number * MOVE
    assert len(plan(state, long_factor=gain * 0.999, long_threshold=threshold)) >= number
    assert len(plan(state, long_factor=gain * 1.001, long_threshold=threshold)) == number - 1
    # In units half as large the plan is twice as long: half the factor is too much already.
    assert len(plan(state, long_factor=gain * 0.501, long_threshold=threshold / 2)) < number


def test_where_disks_take_too_long_instances_fail_over() -> None:
    rows = [instance(name, DRBD, "n0", "n1") for name in "abcd"]
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, rows))
    assert plan(state)[0].kind is not MoveKind.FAILOVER
    # Disks are 1,024 MiB.
    for threshold, kinds in ((81.0, [MoveKind.FAILOVER]), (79.0, [])):
        steps = plan(state, long_factor=1000.0, long_threshold=threshold)
        assert [step.kind for step in steps] == kinds
