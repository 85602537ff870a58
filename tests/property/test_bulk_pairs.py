"""Pairs by kind against the plain rule for each pair."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.capacity import bulk_pairs
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.capacity.bulk_search import InstanceNodes
from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.types import DiskTemplate
from tests.property.test_capacity import any_kind, any_size, any_state
from tests.support.seeds import one_by_one


def plain_scores(search: PairSearch) -> Floats:
    """The score of each pair by itself, primaries by secondaries; infinite if it does not fit."""
    state, every = search.state, np.arange(len(search.state.group))
    scores = np.full((len(every), len(every)), np.inf)
    base = choice.base(state, every >= 0)
    p, s = np.nonzero((every[:, np.newaxis] != every) & (state.group[:, np.newaxis] == state.group))
    trial = placements.allocate_pairs(state, search.asked, p, s, state.peers[p, s])
    online = ~state.columns.offline[p] & ~state.columns.offline[s]
    scores[p, s] = np.where((trial.codes == FITS) & online, trial.scores(base), np.inf)
    return scores


@pytest.mark.parametrize("seed", one_by_one(40))
def test_pairs_by_kind_have_the_scores_and_the_best_of_pairs_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(bulk_pairs, "SPARE", rng.choice((0, 2, 64)))
    monkeypatch.setattr(bulk_pairs, "BOUNDED", rng.choice((0, 0, 1 << 14)))
    nodes = rng.choice((3, 5, 12))
    state = any_state(rng, nodes=nodes, instances=rng.choice((0, 0, 2 * nodes)), groups=rng.choice((1, 1, 2)))
    asked = state.requested_instance(any_kind(rng, state, DiskTemplate.DRBD).instance(any_size(rng)))
    online = np.flatnonzero(~state.columns.offline)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = PairSearch(state, asked, online)
        for _ in range(2 * nodes):
            plain, counted = plain_scores(search), np.full((nodes, nodes), np.inf)
            for block, scores in zip(search.blocks, search.scores(), strict=True):
                counted[np.ix_(block.nodes, block.nodes)] = scores
            np.testing.assert_allclose(counted, plain, rtol=1e-9)
            best, lowest = search.best(), counted.min()
            if not np.isfinite(lowest):
                assert best is None or np.isnan(lowest)
                break
            primary, secondary = np.argwhere(counted == lowest)[-1].tolist()
            assert best == InstanceNodes(primary, secondary)
            search.settle(best)
