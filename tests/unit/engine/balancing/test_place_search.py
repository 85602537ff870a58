"""The search of final places with a price on copying."""

import itertools
import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.place_search import PlaceSearch
from ganeti_htools.engine.balancing.step_search import StepSearch
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Pricing, Weights
from ganeti_htools.model.derive import derive
from tests.support.clusters import Shape
from tests.support.rows import any_cluster, generated
from tests.support.searches import baseline_of, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
UNLIMITED = Costs(np.inf, np.inf, np.inf)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("price", [0.0, 1e-6, 1e-3])
def test_finds_the_lowest_sum_of_score_and_price(seed: int, price: float) -> None:
    state = derive(any_cluster(random.Random(seed)))
    search = searching(state)
    prices = Pricing(Homes(state, Weights()), state).at(price, UNLIMITED)
    score = score_of(state, search.space.scope)
    every = StepSearch(search.space, baseline_of(search.space), score, loss=1e6)
    found = every.moves(list(search.candidates()))
    sums = [each.scores + prices(each.batch, each.kind).of(each.members, each.new) for each in found]
    least = min((float(some.min()) for some in sums if len(some)), default=np.inf)
    best = search.cheapest(score, prices)
    if best is None:
        assert not least < score - 1e-7
    else:
        assert best.score == pytest.approx(least, abs=1e-7)
        assert best.score < score


def wandering(limits: Costs, steps: int = 60) -> PlaceSearch:
    state = derive(generated(1, Shape(nodes=6, instances=30, templates={"drbd": 3, "ext": 1})))
    search = PlaceSearch(searching(state), Homes(state, Weights()), limits)
    counter = itertools.count()
    search.wander([1e-3, 1e-5, 1e-7], lambda _score: next(counter) < steps)
    return search


def test_best_places_are_those_after_some_moves() -> None:
    search = wandering(UNLIMITED)
    assert len(search.best) > 5
    for one, other in itertools.pairwise(search.best):
        assert one.costs.charge < other.costs.charge
        assert one.score > other.score
    for visit in search.best:
        places = dict(search.made[: visit.moves])
        costs = [
            search.homes.costs(*(np.array([each]) for each in (row, *place))) for row, place in places.items()
        ]
        assert visit.costs.copied == sum(each.copied[0] for each in costs)
    assert search.score == score_of(search.state, search.search.space.scope)
    assert wandering(UNLIMITED).made == search.made


def test_limits_hold_at_all_places() -> None:
    search = wandering(Costs(50_000, np.inf, 3))
    assert len(search.made) > 10
    assert max(visit.costs.copied for visit in search.best) <= 50_000
    assert max(visit.costs.moves for visit in search.best) == 3
