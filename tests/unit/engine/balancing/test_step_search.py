"""The search for one step: bounds rule out what cannot be the best."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.step_search import MONOTONE, StepSearch
from ganeti_htools.engine.rules.components import INDEX, WEIGHTS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.rows import any_cluster, generated
from tests.support.searches import baseline_of, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_memory_kept_free_on_one_of_many_nodes_is_never_worth_it() -> None:
    assert MONOTONE == 16
    kept = np.random.default_rng(3).uniform(size=(MONOTONE, 200))
    for more in (0.01, 1.0, 100.0):
        after = kept.copy()
        after[0] += more
        even = WEIGHTS[INDEX["reserved_mem_cv"]] * (after.std(axis=0) - kept.std(axis=0))
        total = WEIGHTS[INDEX["reserved_mem_rtotal"]] * (after.sum(axis=0) - kept.sum(axis=0))
        assert (even + total >= 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_best_is_found_and_little_else(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    score, baseline = score_of(state, search.space.scope), baseline_of(search.space)
    every = StepSearch(search.space, baseline, score, loss=1e6)
    scores = np.concatenate([each.scores for each in every.moves(list(search._candidates(None)))])
    some = StepSearch(search.space, baseline, score)
    found = some.moves(list(search._candidates(None)))
    assert some.bound == pytest.approx(min(score, scores.min(initial=np.inf)), abs=1e-7)
    assert all((each.scores <= some.limit).all() for each in found)


def test_no_more_are_looked_for_than_asked() -> None:
    state = derive(generated(1, Shape(nodes=20, instances=100, templates={"drbd": 1})))
    search = searching(state)
    score = score_of(state, search.space.scope)

    def number(most: int | None) -> int:
        few = StepSearch(search.space, baseline_of(search.space), score, 1e6, most)
        return sum(len(each.members) for each in few.moves(list(search._candidates(None))))

    assert 0 < number(1) < number(None)


def test_who_listens_hears_of_each_move() -> None:
    rows = [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n0", mem=9000)]
    state = derive(by_hand.cluster({"n0": 20_000, "n1": 20_000, "n2": 5000}, rows))
    search, heard = searching(state), list[tuple[int, int, bool]]()
    step = StepSearch(
        search.space,
        baseline_of(search.space),
        score_of(state, search.space.scope),
        report=lambda found, trial: heard.extend(
            zip(found.members.tolist(), found.new.tolist(), (trial.codes == 0).tolist(), strict=True)
        ),
    )
    step.moves(list(search._candidates(None)))
    assert heard == [(0, 1, True), (0, 2, True), (1, 1, True), (1, 2, False)]
