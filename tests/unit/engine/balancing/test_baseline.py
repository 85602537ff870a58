"""The score before a step."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.rules.components import INDEX, LOCATION_EXCLUSION, WEIGHTS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.rows import any_cluster
from tests.support.searches import baseline_of, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_baseline_figures_by_hand() -> None:
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.EXT, "n0")]))
    space = searching(state).space
    baseline, memory = baseline_of(space), space.parts.leaders.index(INDEX["free_mem_cv"])
    assert set(baseline.numbers.tolist()) == {2.0}
    assert baseline.means[memory] == pytest.approx(0)
    assert baseline.deviation.variance[memory] == pytest.approx(0.05**2)
    assert baseline.heights[memory] == pytest.approx([-0.05, 0.05])
    assert 0 <= baseline.doubt < 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_baseline_without_changes_equals_the_score(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    space = searching(state).space
    baseline, nothing = baseline_of(space), np.zeros((len(space.parts.leaders), 1))
    assert baseline.scores(nothing, nothing, 0.0)[0] == pytest.approx(score_of(state, space.scope), abs=1e-7)


def test_changes_of_sums_by_hand() -> None:
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.EXT, "n0")]))
    space = searching(state).space
    baseline, memory = baseline_of(space), space.parts.leaders.index(INDEX["free_mem_cv"])
    changes, squares = np.zeros((2, len(space.parts.leaders), 2))
    # Of the first move nothing remains of the spread; the second changes the rest only.
    squares[memory] = -2 * 0.05**2, 0
    before = score_of(state, space.scope)
    even, other = baseline.scores(changes, squares, np.array([0.0, 3.0])).tolist()
    assert even == pytest.approx(before - space.parts.weights[memory] * 0.05)
    assert other == pytest.approx(before + 3)


def test_locations_exclude_each_other_with_their_weight() -> None:
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.EXT, "n0")]))
    space = searching(state).space
    crowded = type(baseline_of(space))(space.parts, 2.0)
    assert crowded.rest - baseline_of(space).rest == pytest.approx(2 * WEIGHTS[LOCATION_EXCLUSION])
