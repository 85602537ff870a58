"""Searches for moves in balancing, and what they look at."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.balancing.balance import Search, candidates, search_of
from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.scoring import (
    MoveCandidates,
    ScoredMoves,
    SearchSpace,
    weighted_location_exclusion,
)
from ganeti_htools.engine.balancing.step_search import StepSearch
from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State


@np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
def searching(state: State) -> Search:
    """A search for all moves in the group of the first node, with its bounds."""
    scope = state.group == state.group[0]
    batches, facts = batches_of(state, candidates(state, scope, None))
    search = search_of(facts, batches, scope, BalancingOptions())
    search.bounds.update(search.space.baseline())
    return search


def all_candidates(search: Search) -> Iterator[MoveCandidates]:
    """Those that take a new node."""
    for batch, own, new in zip(search.batches, search.own, search.new, strict=True):
        for kind, nodes in own.kinds.items():
            if kind.takes_node and nodes.free.any():
                location_exclusion = weighted_location_exclusion(search.space, batch)
                there = new[kind.to_primary]
                yield MoveCandidates(batch, kind, nodes.may, nodes.free, nodes, there, location_exclusion)


@np.errstate(invalid="ignore", divide="ignore", over="ignore")
def moves_within(
    search: Search, current: float, loss: float, barred: Bools | None = None
) -> list[ScoredMoves]:
    """All moves that leave a score of at most ``loss`` above the lower of ``current`` and the best."""
    baseline = search.space.baseline()
    search.bounds.update(baseline)
    return StepSearch(search.space, baseline, current, loss).moves(list(search.candidates(barred)))


def baseline_of(space: SearchSpace) -> Baseline:
    """The score of a search's nodes as they are."""
    return Baseline(space.parts, affinity.location_exclusion(space.facts.state, space.scope))
