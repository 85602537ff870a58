"""The search of final places with a price on copying."""

import itertools

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.batches import batches_of
from ganeti_htools.engine.balancing.place_search import PlaceSearch
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Weights
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from tests.support.clusters import Shape
from tests.support.rows import generated

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
UNLIMITED = Costs(np.inf, np.inf, np.inf)


def wandering(limits: Costs, reachable: Bools | None = None, steps: int = 80) -> PlaceSearch:
    state = derive(generated(1, Shape(nodes=6, instances=30, templates={"drbd": 3, "ext": 1})))
    scope = np.ones(len(state.group), np.bool_)
    homes = Homes(state, Weights(), reachable)
    batches, facts = batches_of(state, candidates(state, scope, None))
    search = PlaceSearch(SearchSpace.of(facts, scope, force=False), batches, homes, limits)
    counter = itertools.count()
    search.wander([1e-3, 1e-5, 1e-7], lambda _score: next(counter) < steps)
    return search


def test_best_places_are_those_that_none_beats() -> None:
    search = wandering(UNLIMITED)
    assert len(search.best) > 5
    for one, other in itertools.pairwise(search.best):
        assert one.costs.charge < other.costs.charge
        assert one.score > other.score
    assert search.score == pytest.approx(score_of(search.state, search.space.scope), abs=1e-8)


def test_equal_searches_find_equal_places() -> None:
    one, other = wandering(UNLIMITED), wandering(UNLIMITED)
    assert len(one.best) == len(other.best)
    for mine, yours in zip(one.best, other.best, strict=True):
        assert mine.score == yours.score
        assert (mine.pnode == yours.pnode).all()
        assert (mine.snode == yours.snode).all()


def test_costs_and_score_are_those_of_the_places() -> None:
    search = wandering(UNLIMITED)
    rows = np.arange(len(search.state.pnode))
    for visit in search.best:
        costs = search.homes.costs(rows, visit.pnode, visit.snode)
        assert visit.costs == Costs(*(figures.sum() for figures in costs))


def test_limits_hold_at_all_places() -> None:
    search = wandering(Costs(50_000, np.inf, 3))
    assert len(search.best) > 3
    assert max(visit.costs.copied for visit in search.best) <= 50_000
    assert max(visit.costs.moves for visit in search.best) == 3


def test_instances_stay_away_from_places_that_cannot_be_reached() -> None:
    reachable = np.zeros((30, 3, 3), np.bool_)
    reachable[:, 0, :] = True  # new secondaries only
    search = wandering(UNLIMITED, reachable)
    assert len(search.best) > 2
    for visit in search.best:
        assert (visit.pnode == search.homes.pnode).all()
