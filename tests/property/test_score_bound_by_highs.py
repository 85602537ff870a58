"""Bounds of scores compared with the optimum that an independent solver proves."""

import numpy as np
import pytest

from bench.score_bound import PlaceCosts, Relaxation, costs_of, no_shares
from ganeti_htools.backends import text as text_backend
from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.linear_score import LinearScore, linear_score
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions
from tests.support.clusters import MIXED, Shape, cluster
from tests.support.highs import least_value
from tests.support.storage_units import with_four_units
from tests.support.text_format import text

ROUNDS = 100
CLOSE = 1e-4  # of the solver's optimum


def model(seed: int, nodes: int, instances: int) -> tuple[LinearScore, PlaceCosts]:
    """The convex score of a cluster without offline nodes, and the costs of places."""
    templates = ({"drbd": 1}, MIXED)[seed % 2]
    data = cluster(seed, Shape(nodes, instances, templates=templates, fill=0.6))
    data = with_four_units(data)[0] if seed % 3 == 0 else data
    state, options = derive(text_backend.parse(text(data), "test")), BalancingOptions()
    scope = np.ones(nodes, np.bool_)
    score = linear_score(state, scope, candidates(state, scope, None))
    assert score is not None
    return score, costs_of(state, score, options)


@pytest.mark.parametrize(("seed", "part"), [(1, 0.02), (2, 0.1), (3, 0.3)])
def test_bound_of_mixtures_of_places_is_close_to_the_proved_optimum(seed: int, part: float) -> None:
    score, costs = model(seed, 8, 40)
    budget = part * float(costs.parts.max(axis=2).sum())  # of what it costs to bring all to new nodes
    relaxation = Relaxation(score, costs, no_shares(score))
    relaxation.least[:] = 0.0
    choices = relaxation.ascend(relaxation.start(), budget, ROUNDS)
    found = max(relaxation.value(dual) - dual.price * budget for dual in choices)
    optimum = least_value(score, costs, budget)
    assert found <= optimum + CLOSE
    assert found >= optimum - 0.03 * max(optimum, 1.0)
