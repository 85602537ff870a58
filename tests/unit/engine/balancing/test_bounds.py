"""Lower bounds of the scores of moves."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.scoring import relocations
from ganeti_htools.engine.balancing.step_search import bounds_of
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.rows import any_cluster
from tests.support.searches import all_candidates, baseline_of, searching

CLOSE = 1e-7
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("seed", range(6))
def test_no_move_scores_below_its_bound(seed: int) -> None:
    search = searching(derive(any_cluster(random.Random(seed))))
    baseline = baseline_of(search.space)
    for each in all_candidates(search):
        assert each.new is not None
        bounds = bounds_of(search.space, each)
        for members, places in bounds.promising(np.flatnonzero(each.free), None):
            found, _ = relocations(search.space, baseline, each, members, places)
            assert (bounds.least[found.members] <= found.scores + CLOSE).all()


def test_promising_moves_are_those_below_the_limit() -> None:
    rows = [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n0", mem=8000)]
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 5000}, rows))
    search = searching(state)
    (each,) = all_candidates(search)
    assert each.new is not None
    bounds = bounds_of(search.space, each)

    def promising(limit: float | None) -> set[tuple[int, int]]:
        found = bounds.promising(np.array([0, 1]), None if limit is None else lambda: limit)
        return {pair for block in found for pair in zip(*(each.tolist() for each in block), strict=True)}

    # Both fill their node, and the large one does not fit on the small node.
    assert promising(None) == {(0, 1), (0, 2), (1, 1)}
    assert promising(float(bounds.least.min()) - 1e-9) == set()
    assert len(promising(float(bounds.least.min()) + 1e-9)) == 1


def test_instances_that_leave_an_offline_node_are_forced() -> None:
    rows = [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n1")]
    state = derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 9000), rows))
    state.columns.offline[0] = True
    search = searching(state)
    (each,) = all_candidates(search)
    assert each.new is not None
    bounds = bounds_of(search.space, each)
    assert bounds.forced.tolist() == [True, False]
    assert sorted(each.new.lines) == [False, True]
