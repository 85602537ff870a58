"""Effects of changed nodes on the sums behind the score."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.effects import Effect, ScoreParts, added
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.components import AGGREGATES, INDEX, SPREAD, WEIGHTS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.rows import any_cluster
from tests.support.searches import searching

CLOSE = 1e-7
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_changes_add_up() -> None:
    one, more = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    effects = [Effect({0: (one, more)}, 0.0), Effect({0: (one, more), 2: (more, one)}, 0.0)]
    changes, squares = added(effects, 3, 2)
    assert changes.tolist() == [[2, 4], [0, 0], [10, 20]]
    assert squares.tolist() == [[20, 40], [0, 0], [1, 2]]


def test_components_that_are_the_same_are_put_together() -> None:
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.EXT, "n0")]))
    parts = ScoreParts(state, np.ones(2, np.bool_))
    spreads = [which for which, aggregate in enumerate(AGGREGATES) if aggregate is SPREAD]
    assert parts.weights.sum() == sum(WEIGHTS[which] for which in spreads)
    assert len(parts.leaders) < len(spreads)
    cpus = parts.leaders.index(INDEX["vcpu_ratio_cv"])
    assert parts.weights[cpus] == WEIGHTS[INDEX["vcpu_ratio_cv"]] + WEIGHTS[INDEX["vcpu_ratio_cv_forth"]]


def test_effect_of_a_move_by_hand() -> None:
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.EXT, "n0")]))
    everywhere = np.ones(2, np.bool_)
    parts = ScoreParts(state, everywhere)
    memory = parts.leaders.index(INDEX["free_mem_cv"])
    # 9000 and 10000 MiB of 10000 are free.
    assert parts.centre[memory] == pytest.approx(0.95)
    assert parts.totals().heights[memory] == pytest.approx([-0.05, 0.05])
    assert parts.totals().squares[memory] == pytest.approx(2 * 0.05**2)
    trial = move(state, state.instance(0), MoveKind.FAILOVER_TO, np.array([1]), everywhere)
    left, came = (parts.effect(node).spreads[memory] for node in trial.changes)
    assert (left[0][0], came[0][0]) == (pytest.approx(0.1), pytest.approx(-0.1))
    # From 0.05 on one side of the centre to 0.05 on the other: the squares stay.
    assert (left[1][0], came[1][0]) == (pytest.approx(0), pytest.approx(0))


def test_offline_nodes_count_only_for_lost_instances() -> None:
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.EXT, "n0")]))
    state.columns.offline[0] = True
    everywhere = np.ones(2, np.bool_)
    parts = ScoreParts(state, everywhere)
    lost = WEIGHTS[INDEX["offline_all_cnt"]] + WEIGHTS[INDEX["offline_pri_cnt"]]
    assert parts.totals().rest == lost
    trial = move(state, state.instance(0), MoveKind.FAILOVER_TO, np.array([1]), everywhere)
    left, came = (parts.effect(node) for node in trial.changes)
    assert not left.spreads
    assert left.rest[0] == -lost
    assert came.spreads


@pytest.mark.parametrize("seed", range(6))
def test_effect_of_a_move_equals_the_difference_of_totals(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    parts: ScoreParts = search.space.parts
    best = search.best(score_of(state, search.space.scope))
    assert best is not None
    before, effects = parts.totals(), [parts.effect(node) for node in best.trial.changes]
    settling.settle(state, best.trial)
    after = parts.totals()
    changes, squares = np.zeros((2, len(parts.leaders)))
    for effect in effects:
        for spread, (change, square) in effect.spreads.items():
            changes[spread] += change[0]
            squares[spread] += square[0]
    assert after.sums - before.sums == pytest.approx(changes, abs=CLOSE)
    assert after.squares - before.squares == pytest.approx(squares, abs=CLOSE)
    assert score_of(state, search.space.scope) == pytest.approx(best.score, abs=CLOSE)
