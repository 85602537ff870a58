"""The best of moves whose scores lie close together."""

import random
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.step_search import BestMove, best_of
from ganeti_htools.engine.rules import settling
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import RANK, MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.rows import any_cluster
from tests.support.searches import baseline_of, moves_within, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_the_first_instance_goes_to_the_first_node() -> None:
    rows = [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n0")]
    state = derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 9000), rows))
    search = searching(state)
    score = score_of(state, search.space.scope)
    found = moves_within(search, score, 1.0)
    assert sum(len(each.members) for each in found) == 4
    best = best_of(search.space, baseline_of(search.space), found, np.inf)
    assert best is not None
    assert (best.trial.asked.index, best.kind, best.node) == (0, MoveKind.FAILOVER_TO, 1)
    assert best.trial.pnode.tolist() == [1]
    assert best.score < score


def test_single_best_move_is_scored_from_nothing_unless_it_is_clearly_better() -> None:
    rows = [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n0")]
    state = derive(by_hand.cluster(dict.fromkeys(("n0", "n1"), 9000), rows))
    search = searching(state)
    moves = moves_within(search, score_of(state, search.space.scope), 0.0)[0].take([0])
    inexact, baseline = moves._replace(scores=moves.scores + 1e-9), baseline_of(search.space)
    given = float(inexact.scores[0])

    def best(enough: float | None) -> BestMove:
        found = best_of(search.space, baseline, [inexact], np.inf, enough)
        assert found is not None
        return found

    assert best(given + 1e-6).score == given
    close, fresh = best(given), best(None)
    settling.settle(state, close.trial)
    assert close.score == fresh.score == score_of(state, search.space.scope) != given


def test_no_best_move_above_the_limit() -> None:
    state = derive(by_hand.cluster({"n0": 9000, "n1": 9000}, [instance("a", DiskTemplate.EXT, "n0")]))
    search = searching(state)
    found = moves_within(search, score_of(state, search.space.scope), 100.0)
    assert best_of(search.space, baseline_of(search.space), found, -1.0) is None


@pytest.mark.parametrize("seed", range(6))
def test_of_equal_moves_the_first_is_best(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    scope = search.space.scope
    everything = moves_within(search, score_of(state, scope), 1e6)
    baseline = baseline_of(search.space)
    best = best_of(search.space, baseline, everything, np.inf)
    backwards = best_of(search.space, baseline, everything[::-1], np.inf)
    assert (best is None) == (backwards is None)
    if best and backwards:
        ranks = [
            (each.score, each.trial.asked.index, each.node, RANK[each.kind]) for each in (best, backwards)
        ]
        assert ranks[0] == ranks[1]


@pytest.mark.parametrize("seed", range(12))
def test_no_move_near_the_best_has_a_lower_fresh_score(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    scope = search.space.scope
    found = moves_within(search, score_of(state, scope), 1e-6)
    best = best_of(search.space, baseline_of(search.space), found, np.inf)
    fresh = [np.inf]
    for moves in found:
        trial = moves.trial(search.space)
        for which, row in enumerate(moves.batch.rows[moves.members].tolist()):
            after = state.copy()
            settling.settle(after, replace(trial.only(which), asked=state.instance(row)))
            fresh.append(score_of(after, scope))
    assert min(fresh) == (best.score if best else np.inf)
