import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of, search_of
from ganeti_htools.engine.balancing.scoring import ScoredMoves
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from tests.support.rows import any_cluster
from tests.support.searches import all_candidates, baseline_of, moves_within, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
CLOSE = 1e-6  # deviations near 0 are off by the root of the last bit


@pytest.mark.parametrize("seed", range(6))
def test_all_moves_that_lose_little(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    scope, options = np.ones(len(state.group), np.bool_), BalancingOptions()
    scope &= state.group == state.group[0]
    concerned = candidates(state, scope, None)
    batches, facts = batches_of(state, concerned)
    search = search_of(facts, batches, scope, options)
    current = score_of(state, scope)
    barred = np.arange(len(state.pnode)) % 3 == 0
    possible = {
        (index, each.kind, each.node): each.place.score
        for index, moves in possible_moves(state, scope, concerned & ~barred, options).items()
        for each in moves
        if not each.place.why
    }
    assert possible
    lowest = min([current, *possible.values()])
    for loss in (0.0, 0.1, 2.0, 1e6):
        found = {
            (int(each.batch.rows[member]), each.kind, node): score
            for each in moves_within(search, current, loss, barred)
            for member, node, score in zip(
                each.members.tolist(), each.new.tolist(), each.scores.tolist(), strict=True
            )
        }
        assert set(found) <= set(possible)
        assert {move for move, score in possible.items() if score < lowest + loss - CLOSE} <= set(found)
        assert all(found[move] == pytest.approx(possible[move], abs=CLOSE) for move in found)
    assert set(found) == set(possible)


@pytest.mark.parametrize("seed", range(6))
def test_report_gets_every_move_and_changes_nothing(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    scope, options = state.group == state.group[0], BalancingOptions()
    batches, facts = batches_of(state, candidates(state, scope, None))
    search, barred = search_of(facts, batches, scope, options), np.arange(len(state.pnode)) % 3 == 0
    heard: list[tuple[int, MoveKind, int]] = []
    fit: list[tuple[int, MoveKind, int]] = []

    def report(judged: ScoredMoves, trial: Trial) -> None:
        rows = judged.batch.rows[judged.members].tolist()
        moves = [(row, judged.kind, node) for row, node in zip(rows, judged.new.tolist(), strict=True)]
        heard.extend(moves)
        assert (np.isfinite(judged.scores) == (trial.codes == FITS)).all()
        fit.extend(move for move, code in zip(moves, trial.codes.tolist(), strict=True) if code == FITS)

    current = score_of(state, scope)
    silent, reported = search.best(current, barred), search.best(current, barred, report)
    assert (silent is None) is (reported is None)
    if silent and reported:
        assert silent[1:] == reported[1:]
        assert (reported.trial.asked.index, reported.kind, reported.node) in fit
    assert len(set(heard)) == len(heard) > len(fit)
    assert not barred[[index for index, _, _ in heard]].any()
    found = moves_within(search, current, 1e6, barred)
    assert set(fit) == {
        (int(each.batch.rows[member]), each.kind, node)
        for each in found
        for member, node in zip(each.members.tolist(), each.new.tolist(), strict=True)
    }


@pytest.mark.parametrize("seed", range(6))
def test_search_after_moves_equals_a_new_search(seed: int) -> None:
    rng = random.Random(seed)
    state = derive(any_cluster(rng))
    search = searching(state)
    for each in list(all_candidates(search)):
        member = rng.choice(np.flatnonzero(each.free).tolist())
        others = {int(state.pnode[each.batch.rows[member]]), int(state.snode[each.batch.rows[member]])}
        targets = [node for node in search.space.targets.tolist() if node not in others]
        trial = try_move(search.space.facts, each.batch, member, each.kind, rng.choice(targets or [0]), False)
        if targets and trial.codes[0] == FITS:
            settling.settle(state, trial)
            search.note(trial)
    search.bounds.update(baseline_of(search.space))
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
