"""The search for one step: bounds rule out moves that cannot be the best."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.step_search import LEAST, MOST, StepSearch, worth
from ganeti_htools.engine.rules.components import INDEX, WEIGHTS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.rows import any_cluster
from tests.support.searches import baseline_of, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("nodes", [2, 3, 8, 15, 16, 40])
def test_gain_of_reserved_memory_is_within_looseness(nodes: int) -> None:
    """On many nodes nothing."""
    assert (worth(nodes) > 0) is (nodes < 16)
    kept = np.random.default_rng(3).uniform(size=(nodes, 200))
    for more in (0.01, 0.1, 1.0, 100.0):
        after = kept.copy()
        after[0] += more
        even = WEIGHTS[INDEX["reserved_mem_cv"]] * (after.std(axis=0) - kept.std(axis=0))
        total = WEIGHTS[INDEX["reserved_mem_rtotal"]] * (after.sum(axis=0) - kept.sum(axis=0))
        assert (even + total >= -worth(nodes) * more).all()


# In the last ones the best move is one that has a node keep more memory free than it is taken to at first.
@pytest.mark.parametrize("seed", [*range(20), 164, 799, 1065, 1437, 2512, 3147, 3238])
def test_the_best_is_found_among_few_nodes(seed: int) -> None:
    rng = random.Random(seed)
    names, rows = [f"n{row}" for row in range(rng.randint(3, 4))], []
    for row in range(rng.randint(2, 7)):
        primary, secondary = rng.sample(names, 2)
        mem = rng.choice((500, 1000, 2000, 4000))
        rows.append(instance(f"i{row}", DiskTemplate.DRBD, primary, secondary, mem=mem))
    state = derive(by_hand.cluster({name: rng.choice((20_000, 20_000, 10_000)) for name in names}, rows))
    search = searching(state)
    score, baseline = score_of(state, search.space.scope), baseline_of(search.space)
    every = StepSearch(search.space, baseline, score, loss=1e6)
    scores = np.concatenate([each.scores for each in every.moves(list(search.candidates()))])
    some = StepSearch(search.space, baseline, score)
    some.moves(list(search.candidates()))
    assert some.bound == pytest.approx(min(score, scores.min(initial=np.inf)), rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_finds_the_best_move_and_few_others(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    score, baseline = score_of(state, search.space.scope), baseline_of(search.space)
    every = StepSearch(search.space, baseline, score, loss=1e6)
    scores = np.concatenate([each.scores for each in every.moves(list(search.candidates()))])
    some = StepSearch(search.space, baseline, score)
    found = some.moves(list(search.candidates()))
    assert some.bound == pytest.approx(min(score, scores.min(initial=np.inf)), abs=1e-7)
    assert all((each.scores <= some.limit).all() for each in found)


@pytest.mark.parametrize("seed", range(6))
def test_finds_the_same_moves_whatever_the_first_share(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    score, baseline, found = score_of(state, search.space.scope), baseline_of(search.space), []
    for share in (LEAST, MOST, 1.0):
        step = StepSearch(search.space, baseline, score, share=share)
        moves = step.moves(list(search.candidates()))
        found.append(
            {
                (each.kind, *move)
                for each in moves
                for move in zip(each.batch.rows[each.members].tolist(), each.new.tolist(), strict=True)
            }
        )
        assert LEAST <= step.share <= MOST
    assert found[0] == found[1] == found[2]


def test_step_search_reports_each_move() -> None:
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
    step.moves(list(search.candidates()))
    assert heard == [(0, 1, True), (0, 2, True), (1, 1, True), (1, 2, False)]
