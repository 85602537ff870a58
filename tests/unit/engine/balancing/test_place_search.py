"""The search of final places with a price on copying."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.place_exchanges import PlaceExchanges
from ganeti_htools.engine.balancing.place_plans import PATIENCE, RATINGS, Annealing, TabuSearch, wander
from ganeti_htools.engine.balancing.place_scores import PlaceMoves
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.balancing.visits import Visit, Visits
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Weights
from ganeti_htools.engine.rules.batches import Batch, batches_of
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from tests.support.clusters import Shape
from tests.support.rows import generated

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
UNLIMITED = Costs(np.inf, np.inf, np.inf)


def start(limits: Costs = UNLIMITED, reachable: Bools | None = None) -> tuple[Visits, Sequence[Batch]]:
    state = derive(generated(1, Shape(nodes=6, instances=30, templates={"drbd": 3, "ext": 1})))
    scope = np.ones(len(state.group), np.bool_)
    homes = Homes(state, Weights(), reachable)
    batches, facts = batches_of(state, candidates(state, scope, None))
    return Visits(SearchSpace.of(facts, scope, force=False), homes, limits), batches


def wandering(limits: Costs = UNLIMITED, reachable: Bools | None = None) -> list[Visit]:
    counter = itertools.count()
    prices = [1e-3, 1e-5, 1e-7]
    tabu = TabuSearch(PlaceMoves(*start(limits, reachable)))
    annealing = Annealing(PlaceExchanges(*start(limits, reachable)))
    *_, found = wander(tabu, annealing, prices, lambda _score: next(counter) < 60)
    return found


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


@pytest.mark.parametrize("tabu", [True, False])
def test_score_and_costs_are_those_of_the_present_places(tabu: bool) -> None:
    visits, batches = start()
    rows = np.arange(len(visits.state.pnode))
    steps = (
        map(TabuSearch(PlaceMoves(visits, batches)).step, [1e-6] * 20)
        if tabu
        else Annealing(PlaceExchanges(visits, batches)).round(1e-6, 1.0)
    )
    for _ in (*steps, None):  # also after the end of a round
        assert visits.score == pytest.approx(score_of(visits.state, visits.space.scope), abs=1e-8)
        costs = visits.homes.costs(rows, visits.state.pnode, visits.state.snode)
        assert visits.total == Costs(*(figures.sum() for figures in costs))
    assert len(visits.best) > 3


def test_limits_hold_at_all_places() -> None:
    found = wandering(Costs(50_000, np.inf, 3))
    assert len(found) > 3
    assert max(visit.costs.copied for visit in found) <= 50_000
    assert max(visit.costs.moves for visit in found) == 3


def test_instances_stay_away_from_places_that_cannot_be_reached() -> None:
    reachable = np.zeros((30, 3, 3), np.bool_)
    reachable[:, 0, :] = True  # new secondaries only
    found, homes = wandering(reachable=reachable), start()[0].homes
    assert len(found) > 2
    for visit in found:
        assert (visit.pnode == homes.pnode).all()


class Idle:
    """A search, and its problem, that never finds anything better."""

    def __init__(self) -> None:
        self.movable, self.ratings = np.arange(16), 128
        self.visits, self.exchanges, self.rated = self, self, 0
        self.idle, self.score, self.best = 1, 0.0, list[Visit]()

    def step(self, _price: float) -> None:
        """Find nothing."""

    def round(self, _price: float, _hot: float, length: int) -> Iterator[None]:
        """Rate exchanges, and find nothing."""
        for _ in range(self.ratings * length):
            self.rated += 1
            yield


def test_ratings_without_anything_better_count_as_steps() -> None:
    tabu, annealing = Idle(), Idle()
    *_, found = wander(cast(Any, tabu), cast(Any, annealing), [1.0], lambda _score: True)
    assert not found
    assert 0 < annealing.rated < PATIENCE * len(annealing.movable) * RATINGS


def test_large_clusters_are_searched_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganeti_htools.engine.balancing.place_scores.PLACES", 5 * 36)
    monkeypatch.setattr("ganeti_htools.engine.balancing.linear_score.LARGEST", 100)
    assert PlaceMoves(*start()).number == (4, 1)
    assert not list(Annealing(PlaceExchanges(*start())).round(1e-6, 1.0))
    assert len(wandering()) > 2
