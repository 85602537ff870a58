"""Exchanges of instances have the score of the state that they lead to."""

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.batches import batches_of
from ganeti_htools.engine.balancing.exchanges import ExchangeRating
from ganeti_htools.engine.balancing.linear_score import linear_score
from ganeti_htools.engine.balancing.place_scores import place_scores
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.rules import settling
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from tests.support.clusters import Shape
from tests.support.rows import generated


@pytest.mark.parametrize(
    "shape",
    [
        Shape(nodes=5, instances=20, fill=0.3),
        Shape(nodes=7, instances=30, templates={"drbd": 2, "ext": 1}, fill=0.3),
        Shape(nodes=4, instances=16, templates={"ext": 1}, fill=0.3),
    ],
)
def test_rated_change_is_that_of_the_score(shape: Shape) -> None:
    start = derive(generated(3, shape))
    scope, compared, pairs = np.ones(len(start.group), np.bool_), 0, 0
    score = linear_score(start, scope, candidates(start, scope, None))
    assert score is not None
    targets = np.flatnonzero(~start.columns.offline)
    rating = ExchangeRating(score, start.columns.t_mem, targets)
    rating.at(score.pnode, score.snode)
    found = rating.propose(np.random.RandomState(1), 60)
    changes, position = rating.changes(found), {int(node): at for at, node in enumerate(targets)}
    for which, change in enumerate(changes.tolist()):
        state = start.copy()
        batches, facts = batches_of(state, candidates(state, scope, None))
        space = SearchSpace.of(facts, scope, force=True)
        for place, index in enumerate(dict.fromkeys(found.instances[:, which].tolist())):
            row = int(score.rows[index])
            (batch,) = (each.take(np.flatnonzero(each.rows == row)) for each in batches if row in each.rows)
            block = place_scores(space, space.baseline(), batch)
            snode = int(found.snode[place, which])
            at = position[int(found.pnode[place, which])], 0 if snode == NOWHERE else position[snode]
            if not np.isfinite(block.scores[0, *at]):
                break
            settling.settle(state, block.trial(0, *at))
            facts.refresh(np.arange(len(scope)))
        else:
            if (state.columns.fail_n1 == start.columns.fail_n1).all() and not state.columns.fail_n1.any():
                assert change == pytest.approx(score_of(state, scope) - score_of(start, scope), abs=1e-7)
                compared += 1
                pairs += found.instances[0, which] != found.instances[1, which]
    assert compared > 10
    assert pairs > 5
