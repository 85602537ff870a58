"""Exchanges of instances have the score of the state that they lead to."""

import itertools

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.place_exchanges import PlaceExchanges, ProposedExchanges
from ganeti_htools.engine.balancing.place_scores import place_scores
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.balancing.visits import Visits
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Weights
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import Batch, batches_of
from ganeti_htools.model.columns import NOWHERE, Floats
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.clusters import Shape
from tests.support.rows import generated

UNLIMITED = Costs(np.inf, np.inf, np.inf)


def start(state: State, limits: Costs = UNLIMITED) -> tuple[Visits, list[Batch]]:
    scope = np.ones(len(state.group), np.bool_)
    batches, facts = batches_of(state, candidates(state, scope, None))
    return Visits(SearchSpace.of(facts, scope, force=False), Homes(state, Weights()), limits), batches


def places_after(exchanges: PlaceExchanges, found: ProposedExchanges, which: int) -> list[tuple[int, ...]]:
    places = zip(found.instances[:, which], found.pnode[:, which], found.snode[:, which], strict=True)
    return [
        (int(exchanges.rows[index]), int(exchanges.nodes[pnode]), int(exchanges.nodes[snode]))
        for index, pnode, snode in dict.fromkeys(places)
    ]


def score_after(state: State, places: list[tuple[int, ...]]) -> float | None:
    """Make an exchange by the rules; the score, or None if they refuse it in this order."""
    for row, *nodes in places:
        visits, batches = start(state)
        (batch,) = (each.take(np.flatnonzero(each.rows == row)) for each in batches if row in each.rows)
        targets = np.array([node for node in nodes if node != NOWHERE])
        block = place_scores(visits.space._replace(targets=targets), visits.baseline, batch)
        place = 0, len(targets) - 1
        if not np.isfinite(block.scores[0, *place]):
            return None
        settling.settle(state, block.trial(0, *place))
    return score_of(state, np.ones(len(state.group), np.bool_))


SHAPES = [
    Shape(nodes=5, instances=20, fill=0.3),
    Shape(nodes=7, instances=30, templates={"drbd": 2, "ext": 1}, fill=0.3),
    Shape(nodes=4, instances=16, templates={"ext": 1}, fill=0.3),
    Shape(nodes=7, instances=30, fill=0.3, tags=("location",)),
    Shape(nodes=8, instances=40, fill=0.6, offline=1),
    Shape(nodes=8, instances=40, fill=0.3, offline=1, tags=("exclusion", "location")),
]


def proposed(exchanges: PlaceExchanges, number: int = 60) -> tuple[ProposedExchanges, Floats]:
    exchanges.begin()
    found = exchanges.rating.propose(np.random.RandomState(1), number)
    return found, exchanges.rating.changes(found)


@pytest.mark.parametrize("shape", SHAPES)
def test_rated_change_is_that_of_the_score(shape: Shape) -> None:
    state, compared, pairs = derive(generated(3, shape)), 0, 0
    exchanges, before = PlaceExchanges(*start(state.copy())), score_of(state, np.ones(shape.nodes, np.bool_))
    found, changes = proposed(exchanges)
    for which, change in enumerate(changes.tolist()):
        after = state.copy()
        score = score_after(after, places_after(exchanges, found, which))
        if score is not None and (after.columns.fail_n1 == state.columns.fail_n1).all():
            assert change == pytest.approx(score - before, abs=1e-7)
            compared += 1
            pairs += found.instances[0, which] != found.instances[1, which]
    assert compared > 10
    assert pairs > 5


@pytest.mark.parametrize("shape", SHAPES)
def test_total_after_exchanges_on_paper_is_that_of_the_places(shape: Shape) -> None:
    exchanges = PlaceExchanges(*start(derive(generated(3, shape))))
    exchanges.begin()
    rating, random = exchanges.rating, np.random.RandomState(2)
    for _ in range(20):
        found = rating.propose(random, 40)
        changes, before = rating.changes(found), rating.total
        which = int(changes.argmin())
        rating.make(found, which)
        assert rating.total - before == pytest.approx(changes[which], abs=1e-9)
        total = rating.total
        rating.at(rating.pnode, rating.snode)
        assert rating.total == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("shape", [Shape(6, 60, fill=0.95), Shape(6, 30, tags=("exclusion",))])
def test_exchanges_without_room_are_those_that_the_rules_refuse(shape: Shape) -> None:
    state, refused = derive(generated(4, shape)), 0
    exchanges = PlaceExchanges(*start(state.copy()))
    found, changes = proposed(exchanges, 400)
    for which in np.flatnonzero(np.isinf(changes))[:20].tolist():
        places = places_after(exchanges, found, which)
        assert None in (score_after(state.copy(), order) for order in (places, places[::-1]))
        refused += 1
    assert refused > 3


def test_primaries_with_an_exclusion_tag_do_not_change_places() -> None:
    exchanges = PlaceExchanges(*start(derive(generated(4, Shape(6, 30, tags=("exclusion",))))))
    exchanges.begin()
    rating, number = exchanges.rating, 0
    for one, two in itertools.combinations(range(len(rating.pnode)), 2):
        tags, nodes = rating.tags.sets[[one, two]], rating.pnode[[one, two]]
        if tags[0] == tags[1] != 0 and nodes[0] != nodes[1]:
            instances, goal = np.array([[one], [two]]), nodes[::-1, np.newaxis]
            exchange = ProposedExchanges(instances, goal, rating.snode[instances])
            assert np.isinf(rating.changes(exchange)).all()
            number += 1
    assert number > 3


def test_places_at_the_end_of_a_round_are_within_the_limits_when_the_rules_refuse_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visits, batches = start(derive(generated(3, SHAPES[0])), Costs(np.inf, np.inf, 1))
    exchanges = PlaceExchanges(visits, batches)
    found, changes = proposed(exchanges)
    rating, homes = exchanges.rating, visits.homes
    moves = homes.costs(exchanges.rows[found.instances], found.pnode, found.snode).moves.max(axis=0)
    alone = (found.instances[0] == found.instances[1]) & (moves == 1) & np.isfinite(changes)
    first, *others = np.flatnonzero(alone).tolist()
    away = int(found.instances[0, first])
    other = next(which for which in others if found.instances[0, which] != away)
    home = rating.pnode.copy(), rating.snode.copy()
    exchanges.make(found, first)
    exchanges.end()
    assert visits.total.moves == 1

    exchanges.begin()
    rating.at(*home)
    exchanges.make(found, other)
    lead, row = exchanges.lead, exchanges.rows[away]
    monkeypatch.setattr(exchanges, "lead", lambda *goal: goal[0] != row and lead(*goal))
    exchanges.end()
    assert visits.total.moves == 1
    assert (visits.state.pnode[row], visits.state.snode[row]) != (homes.pnode[row], homes.snode[row])
