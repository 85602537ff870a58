import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of, search_of
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions
from tests.support.rows import any_cluster
from tests.support.searches import moves_within

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
