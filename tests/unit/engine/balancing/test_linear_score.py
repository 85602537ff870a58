"""The convex part of the score at whole placements."""

import numpy as np
import pytest

from ganeti_htools.engine.balancing.linear_score import PRIMARY, SECONDARY
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.columns import NOWHERE
from tests.support.linear_scores import NODES, SEEDS, deviation, kept_at, model, values_at

LEFT_OUT = {"reserved_mem_cv", "n1_cnt", "pri_tags_score", "location_exclusion_score"}


@pytest.mark.parametrize("seed", SEEDS)
def test_present_places_have_the_score_without_what_is_left_out(seed: int) -> None:
    state, score = model(seed)
    base = choice.base(state, np.ones(NODES, np.bool_))
    expected = sum(
        weight * float(value)
        for name, weight, value in zip(base.names, base.weights, base.components(), strict=True)
        if name not in LEFT_OUT
    )
    everyone, mirrored = np.arange(len(score.rows)), score.snode != NOWHERE
    total = score.rest + float(score.rest_effects[PRIMARY, everyone, score.pnode].sum())
    total += float(score.rest_effects[SECONDARY, everyone[mirrored], score.snode[mirrored]].sum())
    total += float(score.together[score.pnode[mirrored], score.snode[mirrored]].sum())
    total += float(score.per_mib @ kept_at(score, score.pnode, score.snode))
    for spread, values in zip(score.spreads, values_at(score, score.pnode, score.snode), strict=True):
        total += spread.weight * deviation(values, spread.counted)
    assert total == pytest.approx(expected)
