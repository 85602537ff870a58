"""The search of final places with a price on copying."""

import itertools
from functools import partial

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.batches import batches_of
from ganeti_htools.engine.balancing.place_search import PlaceSearch, Visit, wander
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Weights
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from tests.support.clusters import Shape
from tests.support.rows import generated

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
UNLIMITED = Costs(np.inf, np.inf, np.inf)


def searching(limits: Costs = UNLIMITED, reachable: Bools | None = None) -> PlaceSearch:
    state = derive(generated(1, Shape(nodes=6, instances=30, templates={"drbd": 3, "ext": 1})))
    scope = np.ones(len(state.group), np.bool_)
    homes = Homes(state, Weights(), reachable)
    batches, facts = batches_of(state, candidates(state, scope, None))
    return PlaceSearch(SearchSpace.of(facts, scope, force=False), batches, homes, limits)


def wandering(limits: Costs = UNLIMITED, reachable: Bools | None = None) -> list[Visit]:
    counter = itertools.count()
    start = partial(searching, limits, reachable)
    return wander(start, [1e-3, 1e-5, 1e-7], lambda _score: next(counter) < 80)


def test_found_places_are_those_that_none_beats() -> None:
    found = wandering()
    assert len(found) > 5
    for one, other in itertools.pairwise(found):
        assert one.costs.charge < other.costs.charge
        assert one.score > other.score


def test_equal_searches_find_equal_places() -> None:
    for mine, yours in zip(wandering(), wandering(), strict=True):
        assert mine.score == yours.score
        assert (mine.pnode == yours.pnode).all()
        assert (mine.snode == yours.snode).all()


def test_costs_and_score_are_those_of_the_places() -> None:
    search = searching()
    rows = np.arange(len(search.state.pnode))
    for _ in itertools.chain(search.anneal(1e-6, 0.3), map(search.exchange, [1e-6] * 20)):
        assert search.score == pytest.approx(score_of(search.state, search.space.scope), abs=1e-8)
        costs = search.homes.costs(rows, search.state.pnode, search.state.snode)
        assert search.total == Costs(*(figures.sum() for figures in costs))


def test_limits_hold_at_all_places() -> None:
    found = wandering(Costs(50_000, np.inf, 3))
    assert len(found) > 3
    assert max(visit.costs.copied for visit in found) <= 50_000
    assert max(visit.costs.moves for visit in found) == 3


def test_instances_stay_away_from_places_that_cannot_be_reached() -> None:
    reachable = np.zeros((30, 3, 3), np.bool_)
    reachable[:, 0, :] = True  # new secondaries only
    found, homes = wandering(reachable=reachable), searching().homes
    assert len(found) > 2
    for visit in found:
        assert (visit.pnode == homes.pnode).all()
