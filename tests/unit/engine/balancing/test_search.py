import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import Balancing, allowed, candidates, score_of
from ganeti_htools.engine.balancing.batches import batches_of
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.model.derive import derive
from tests.support.rows import any_cluster

CLOSE = 1e-6  # deviations near 0 are off by the root of the last bit


@pytest.mark.parametrize("seed", range(6))
def test_all_moves_that_lose_little(seed: int) -> None:
    state = derive(any_cluster(random.Random(seed)))
    scope, options = np.ones(len(state.group), np.bool_), Balancing()
    scope &= state.group == state.group[0]
    concerned = candidates(state, scope, None)
    batches, facts = batches_of(state, concerned)
    search = Search(facts, batches, scope, False, lambda batch, kind: allowed(facts, batch, kind, options))
    current = score_of(state, scope)
    barred = np.arange(len(state.pnode)) % 3 == 0
    possible = {
        (index, each.kind, each.node): each.score
        for index in np.flatnonzero(concerned & ~barred).tolist()
        for each in possible_moves(state, scope, index, options)
        if each.fail is None
    }
    assert possible
    lowest = min([current, *possible.values()])
    for loss in (0.0, 0.1, 2.0, 1e6):
        found = {
            (int(each.batch.rows[member]), each.kind, node): score
            for each in search.within(current, loss, barred, 1 << 30)
            for member, node, score in zip(
                each.members.tolist(), each.new.tolist(), each.scores.tolist(), strict=True
            )
        }
        assert set(found) <= set(possible)
        assert {move for move, score in possible.items() if score < lowest + loss - CLOSE} <= set(found)
        assert all(found[move] == pytest.approx(possible[move], abs=CLOSE) for move in found)
    assert set(found) == set(possible)
