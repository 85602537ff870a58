"""No placement within a budget of copying has a score below the bound; every plan keeps to it."""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import score_bound
from bench.score_bound import costs_of, score_bounds
from ganeti_htools.backends import text as text_backend
from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.linear_score import PRIMARY, SECONDARY, linear_score
from ganeti_htools.engine.balancing.ways import NodePair
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from tests.property.narrow import cases
from tests.support.clusters import Shape, cluster
from tests.support.text_format import text

MOST = 150  # placements that are tried

Move = tuple[str, int]  # an operation of a way, and its new node
Ways = dict[NodePair, tuple[float, list[Move]]]  # costs and moves, by the place


def ways(state: State, index: int, nodes: Sequence[int], limited: bool) -> Ways:
    """The cheapest ways to all places by failovers and replaced secondaries, or straight to a primary.

    ``limited``: only those that rules about nodes and migration tags allow.
    """
    row, home = state.cluster.instances[index], (int(state.pnode[index]), int(state.snode[index]))
    if limited and state.rules is not None:
        eligible = state.rules.eligible[state.rules.instances.choice[index]]
        nodes = [node for node in nodes if eligible[node] or node in home]
    migrations = state.allowed_migrations if limited else None
    memory = row.mem if row.status.running else 0
    factor = tags.price_factor(row.tags)
    found: Ways = {}
    waiting: list[tuple[float, NodePair, list[Move]]] = [(0.0, home, [])]
    while waiting:
        cost, place, moves = heapq.heappop(waiting)
        if place in found:
            continue
        found[place] = cost, moves
        p, s = place
        if s == NOWHERE:
            more = [(memory, (node, s), ("fa", node)) for node in nodes if node != p]
        else:
            more = [(row.dsk, (p, node), ("r", node)) for node in nodes if node not in place]
            more.append((memory, (s, p), ("f", NOWHERE)))
        if migrations is not None:
            more = [each for each in more if each[1][0] == p or migrations[p, each[1][0]]]
        for add, then, step in more:
            heapq.heappush(waiting, (cost + factor * add, then, [*moves, step]))
    return found


def moved(state: State, index: int, moves: Sequence[Move], scope: Bools) -> State:
    """The state after moves, whatever forbids them."""
    state = state.copy()
    for operation, node in moves:
        asked, target = state.instance(index), np.array([node])
        if operation == "f":
            trial = move(state, asked, MoveKind.FAILOVER, None, scope, force=True)
        elif operation == "r":
            trial = move(state, asked, MoveKind.REPLACE_SECONDARY, target, force=True)
        else:
            trial = move(state, asked, MoveKind.FAILOVER_TO, target, scope, force=True)
        settling.settle(state, trial)
    return state


def all_placements(state: State, scope: Bools, places: Mapping[int, Ways]) -> Iterator[tuple[float, float]]:
    """The costs and the score of each combination of places."""
    if not places:
        yield 0.0, score_of(state, scope)
        return
    index, *rest = places
    for cost, moves in places[index].values():
        after = moved(state, index, moves, scope)
        for more, score in all_placements(after, scope, {row: places[row] for row in rest}):
            yield cost + more, score


def few(state: State, scope: Bools, nodes: Sequence[int], limit: int) -> dict[int, Ways]:
    """The ways of as many instances as have few placements together."""
    batches, _ = batches_of(state, candidates(state, scope, None))
    found: dict[int, Ways] = {}
    number = 1
    for index in sorted(index for batch in batches for index in batch.rows.tolist()):
        home = int(state.pnode[index]), int(state.snode[index])
        there = ways(state, index, [*{*nodes, *home} - {NOWHERE}], limited=True)
        if number * len(there) <= limit:
            found[index], number = there, number * len(there)
    return found


@settings(max_examples=5)
@given(case=cases, parts=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_no_placement_within_a_budget_is_below_the_bound(
    case: tuple[State, Instance], parts: list[float]
) -> None:
    state, _ = case
    scope = np.ones(len(state.group), np.bool_)
    nodes = np.flatnonzero(~state.columns.offline).tolist()
    places = few(state, scope, nodes, MOST)
    movable = np.isin(np.arange(len(state.pnode)), list(places))
    found = list(all_placements(state, scope, places))
    largest = max(cost for cost, _ in found)
    budgets = [0.0, *(part * largest for part in parts), math.inf]
    with mock.patch.object(score_bound, "ROUNDS", 12):
        bounds = score_bounds(state, scope, BalancingOptions(), movable, budgets)
    if bounds is None:
        return
    for budget, bound in zip(budgets, bounds, strict=True):
        assert bound <= min(score for cost, score in found if cost <= budget) + 1e-9


@pytest.mark.parametrize("tags", [(), ("migration",), ("exclusion", "location")])
@given(seed=st.integers(0, 1 << 30), part=st.floats(0, 1.1))
@settings(max_examples=2)
def test_no_placement_that_tags_allow_is_below_the_bound(
    tags: tuple[str, ...], seed: int, part: float
) -> None:
    """Instances have the usual load of 1, so numbers of instances on nodes are whole."""
    state, scope = crowded(seed, tags), np.ones(3, np.bool_)
    found = list(all_placements(state, scope, few(state, scope, range(3), 500)))
    budget = part * max(cost for cost, _ in found) if part <= 1 else math.inf
    with mock.patch.object(score_bound, "ROUNDS", 12):
        bounds = score_bounds(state, scope, BalancingOptions(), None, [budget])
    assert bounds is not None
    assert bounds[0] <= min(score for cost, score in found if cost <= budget) + 1e-9


def crowded(seed: int, tags: tuple[str, ...]) -> State:
    """A small cluster. With exclusion tags most instances have the same one; there are two locations.

    With migration tags any nodes are the old ones.
    """
    shape = Shape(3, 3 + seed % 2, templates=({"drbd": 1}, {"drbd": 3, "ext": 1})[seed % 3 > 0], tags=tags)
    data = cluster(seed, shape)
    if "migration" in tags:
        for number, node in enumerate(data["nodes"].values()):
            node["tags"] = ["cpu:old" if seed >> number & 1 else "cpu:new"]
    if "exclusion" in tags:
        for number, node in enumerate(data["nodes"].values()):
            node["tags"] = [f"rack:r{number % 2}"]
        for number, row in enumerate(data["instances"].values()):
            row["tags"] = ["service:s0"] if number != seed % 5 else []
    return derive(text_backend.parse(text(data), "test"))


@settings(max_examples=8)
@given(case=cases)
def test_costs_are_those_of_the_cheapest_ways(case: tuple[State, Instance]) -> None:
    state, _ = case
    scope, options = np.ones(len(state.group), np.bool_), BalancingOptions()
    score = linear_score(state, scope, candidates(state, scope, None))
    if score is None:
        return
    costs = costs_of(state, score, options)
    nodes = range(len(state.group))
    for which, index in enumerate(score.rows.tolist()):
        home = int(state.pnode[index]), int(state.snode[index])
        for (p, s), (least, _) in ways(state, index, nodes, limited=False).items():
            cost = costs.parts[PRIMARY, which, p] - ((p, s) == home) * costs.detour[which]
            cost += costs.parts[SECONDARY, which, s] if s != NOWHERE else 0.0
            assert cost == pytest.approx(least)


def test_bound_is_lower_without_the_tags() -> None:
    def bound(state: State) -> float:
        (found,) = score_bounds(state, np.ones(3, np.bool_), BalancingOptions(), None, [math.inf]) or [0.0]
        return found

    state = replace(crowded(2, ()), allowed_migrations=np.eye(3, dtype=np.bool_))
    assert bound(replace(state, allowed_migrations=None)) < bound(state) - 1.0
    state = crowded(4, ("exclusion", "location"))
    assert bound(replace(state, forthcoming_tag_counts=state.tag_counts)) == pytest.approx(bound(state) - 1.0)
