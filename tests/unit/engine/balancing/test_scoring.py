"""What is computed of moves in parts: effects of own and new nodes, scores, and bounds below them."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import Balancing, candidates, score_of, search_of
from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.batches import batches_of
from ganeti_htools.engine.balancing.bounds import bounds_of
from ganeti_htools.engine.balancing.effects import ScoreParts
from ganeti_htools.engine.balancing.relocate import tried
from ganeti_htools.engine.balancing.scoring import Candidates, Space, crowding_changes, exact, relocations
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.ties import best_of
from ganeti_htools.engine.rules import affinity, settling
from ganeti_htools.engine.rules.move_kinds import RANK
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.rows import any_cluster

CLOSE = 1e-7
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def searching(state: State) -> Search:
    scope = state.group == state.group[0]
    batches, facts = batches_of(state, candidates(state, scope, None))
    return search_of(facts, batches, scope, Balancing())


def all_candidates(search: Search) -> Iterator[Candidates]:
    for batch, own, new in zip(search.batches, search.own, search.new, strict=True):
        for kind, nodes in own.kinds.items():
            if kind.takes_node and nodes.free.any():
                crowding = crowding_changes(search.space, batch)
                yield Candidates(batch, kind, nodes.may, nodes.free, nodes, new[kind.to_primary], crowding)


def baseline_of(space: Space) -> Baseline:
    return Baseline(space.parts, affinity.crowding(space.facts.state, space.scope))


@pytest.mark.parametrize("seed", range(6))
def test_scores_and_their_bounds(seed: int) -> None:
    search = searching(derive(any_cluster(random.Random(seed))))
    baseline = baseline_of(search.space)
    for each in all_candidates(search):
        assert each.new is not None
        bounds = bounds_of(search.space, baseline, each, each.new)
        for members, places in bounds.promising(np.flatnonzero(each.free), None):
            found, doubtful = relocations(search.space, baseline, each, members, places)
            scores, doubts = exact(search.space, baseline, found.tried(search.space))
            sure = np.setdiff1d(np.arange(len(scores)), doubtful)
            fits = sure[np.isfinite(scores[sure])]
            assert found.scores[fits] == pytest.approx(scores[fits], abs=CLOSE)
            assert (bounds.least[found.members] <= found.scores + CLOSE).all()
            assert (doubts >= 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_stays_right_as_moves_are_made(seed: int) -> None:
    rng = random.Random(seed)
    state = derive(any_cluster(rng))
    search = searching(state)
    for each in list(all_candidates(search)):
        member = rng.choice(np.flatnonzero(each.free).tolist())
        others = {int(state.pnode[each.batch.rows[member]]), int(state.snode[each.batch.rows[member]])}
        targets = [node for node in search.space.targets.tolist() if node not in others]
        trial = tried(search.space.facts, each.batch, member, each.kind, rng.choice(targets or [0]), False)
        if targets and trial.codes[0] == FITS:
            settling.settle(state, trial)
            search.note(trial)
    fresh = searching(state)
    for own, again in zip(search.own, fresh.own, strict=True):
        for kind, nodes in own.kinds.items():
            assert nodes.free.tolist() == again.kinds[kind].free.tolist()
            free = nodes.free
            assert nodes.rest[free] == pytest.approx(again.kinds[kind].rest[free], abs=CLOSE)
            assert nodes.changes[:, free] == pytest.approx(again.kinds[kind].changes[:, free], abs=CLOSE)
    for new, others_new in zip(search.new, fresh.new, strict=True):
        for role, there in new.items():
            for force, prices in there.prices.items():
                assert prices == pytest.approx(others_new[role].prices[force], abs=CLOSE)


@pytest.mark.parametrize("seed", range(6))
def test_the_effect_of_a_move_is_the_difference_it_makes(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    parts: ScoreParts = search.space.parts
    best = search.best(score_of(state, search.space.scope))
    if best is None:
        return
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


@pytest.mark.parametrize("seed", range(6))
def test_of_equal_moves_the_first_is_best(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    scope = search.space.scope
    everything = search.within(score_of(state, scope), 1e6, np.zeros(len(state.pnode), np.bool_), 1 << 30)
    baseline = baseline_of(search.space)
    best = best_of(search.space, baseline, everything, np.inf)
    backwards = best_of(search.space, baseline, everything[::-1], np.inf)
    assert (best is None) == (backwards is None)
    if best and backwards:
        ranks = [
            (each.score, each.trial.asked.index, each.node, RANK[each.kind]) for each in (best, backwards)
        ]
        assert ranks[0] == ranks[1]
