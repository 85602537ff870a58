"""Equal instances placed one after the other so that every node can be lost after each.

Room only shrinks as instances come. So where sums prove of a state that every node can be lost
(:meth:`.Redundancy.certain`), they prove it of each state on the way there, and many instances are placed
before anybody looks. Where only simulation tells, there is no such rule: in the order in which the instances
of a lost node look for room, they may find none now, and some with one instance more. There each placement
is looked at by itself; of instances without a mirror many in one go (:meth:`.Redundancy.bears_in_turn`).
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.allocation.solution import PATIENCE, Solution
from ganeti_htools.engine.capacity.bulk_allocation import Filled, fill
from ganeti_htools.engine.capacity.bulk_one_node import OneNodeSearch
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.capacity.bulk_search import Known, Nodes
from ganeti_htools.engine.capacity.redundant_pairs import best_pair, stands
from ganeti_htools.engine.capacity.site import Site, on_all_pairs
from ganeti_htools.engine.redundancy.global_n1 import Redundancy
from ganeti_htools.engine.rules import settling
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

# Fewer instances than these are looked at one by one at once.
STEP = 20

# The same where they are foreseen: so few take no longer than sums that prove nothing in the end.
FORESEEN = 500

# At most so many are foreseen in one go.
MOST = 64


def filled_redundantly(
    state: State, row: Instance, site: Site, first: int, limit: int | None, known: Redundancy | None = None
) -> tuple[State, Filled]:
    """Instances like ``row``, numbered from ``first``, up to a limit; the state may be changed.

    ``known`` is what holds before, if it is known.
    """
    redundancy = known or site.redundancy(state)
    state, placed, step, too_far = redundancy.state, 0, _guess(state, row), False
    nodes: Known = {}
    least = FORESEEN if redundancy.foresees(state.requested_instance(row)) else STEP
    while step >= least and redundancy.certain():
        trial = state.copy()
        number = step if limit is None else min(step, limit - placed)
        filled = fill(trial, row, site.nodes, first + placed, number, site.progress, nodes)
        then = site.redundancy(trial)
        if then.certain():
            state, redundancy, placed = trial, then, placed + filled.placed
            if placed == limit or filled.placed < number:
                return state, Filled(placed, filled.failures, redundancy)
        else:
            too_far = True
        step = number // 2 if too_far else _guess(state, row)
    return state, _one_by_one(state, row, site, redundancy, first, placed, limit, nodes)


def _guess(state: State, row: Instance) -> int:
    """About how many instances fit by memory, rather too few."""
    free = np.maximum(state.columns.unallocated - state.columns.r_mem, 0).sum()
    return int(free) // max(1, row.mem) - len(state.group)


def _one_by_one(
    state: State,
    row: Instance,
    site: Site,
    redundancy: Redundancy,
    first: int,
    placed: int,
    limit: int | None,
    known: Known,
) -> Filled:
    """Instances placed in place, with a look at redundancy each time; ``redundancy`` is what it is before,
    ``known`` what was found out about nodes.
    """
    asked, elsewhere = state.requested_instance(row), False
    step, vain = 1, 0
    suspects: list[int] = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = (PairSearch if asked.mirrored else OneNodeSearch)(state, asked, site.nodes, known)
        while placed != limit:
            number = step if limit is None else min(step, limit - placed)
            places = _next(search, redundancy, number) if number > 1 else []
            if number < 1:
                step += 1
            elif len(places) == number or number == 1:
                step = min(2 * step, MOST)
            else:  # where the first is not redundant, the next ones are often not either: try again later
                vain = 0 if places else vain + 1
                step = 2 - 2**vain
            if not places:
                nodes = _place(search, site, redundancy, suspects)
                if nodes is None:
                    failures = search.failures()
                    failures[Fail.N1] += search.candidates - sum(failures.values())
                    return Filled(placed, failures, redundancy)
                elsewhere = elsewhere or (limit is not None and nodes != search.best())
                places = [nodes]
            for nodes in places:
                search.settle(nodes)
                placed += 1
                site.progress(placed)
            numbers = range(first + placed - len(places), first + placed)
            rows = [replace(row, name=f"{row.name}-{number}") for number in numbers]
            settling.add_rows(state, asked, rows, places)
            redundancy = redundancy.after(asked, places) or site.redundancy(state)
        failures = search.failures()
    if elsewhere:  # as Ganeti's htools: at the limit, redundancy counts only if it has been in the way
        failures = dict.fromkeys(Fail, 0) | _solution(state, asked, site, redundancy).failures
    return Filled(placed, failures, redundancy)


def _next(search: OneNodeSearch | PairSearch, redundancy: Redundancy, number: int) -> list[Nodes]:
    """The best places for so many more, one after the other, as long as each is certainly redundant."""
    if isinstance(search, PairSearch) or not redundancy.foresees(search.asked):
        return []
    places: list[Nodes] = []
    before: list[tuple[Any, ...]] = []
    while len(places) < number and (best := search.best()) is not None:
        places.append(best)
        before.append(search.figures_of(best))
        search.settle(best)
    for nodes, figures in zip(reversed(places), reversed(before), strict=True):
        search.put(nodes, figures)
    return places[: redundancy.bears_in_turn(search.asked, [primary for primary, _ in places])]


def _place(
    search: OneNodeSearch | PairSearch, site: Site, redundancy: Redundancy, suspects: list[int]
) -> Nodes | None:
    """The best redundant place for one more; ``suspects`` are nodes that could not be lost before."""
    if isinstance(search, PairSearch):
        return _pair(search, site, redundancy, suspects)
    state, asked, tries = search.state, search.asked, 0
    allowed = redundancy.admits(asked, search.nodes, None)
    while (best := search.best(allowed)) is not None:
        if stands(state, asked, best, redundancy, suspects):
            return best
        allowed[np.searchsorted(search.nodes, best.primary)] = False
        tries += 1
        if tries == PATIENCE and redundancy.hopeless(suspects):
            return None
    return None


def _pair(search: PairSearch, site: Site, redundancy: Redundancy, suspects: list[int]) -> Nodes | None:
    """The best redundant pair; ``suspects`` as above."""
    state, asked, scores = search.state, search.asked, search.scores()
    if not any(np.isnan(each).any() for each in scores):
        return best_pair(search, scores, redundancy, suspects)
    best = search.best()
    if best is None:
        return None
    primary, secondary = (np.array([node]) for node in best)
    admitted = redundancy.admits(asked, primary, secondary)[0, 0]
    if admitted and stands(state, asked, best, redundancy, []):
        return best
    solution = _solution(state, asked, site, redundancy)
    return Nodes(*solution.nodes) if solution.nodes else None


def _solution(state: State, asked: RequestedInstance, site: Site, redundancy: Redundancy) -> Solution:
    """The best redundant place, in any group, and why others are not."""
    if not asked.mirrored:
        everyone = np.ones(len(state.group), np.bool_)
        return on_nodes(state, asked, site.nodes, everyone, site.options, redundancy)
    found = list(on_all_pairs(state, asked, site, redundancy))
    failures = sum((Counter(each.failures) for each in found), Counter())
    good = [each for each in found if each.trial is not None]
    if not good:
        return Solution(failures, 0)
    lowest = np.fmin.reduce([each.metric for each in good])
    equal = [each for each in good if each.metric == lowest or np.isnan(lowest)]
    best = max(equal, key=lambda each: each.nodes)
    return replace(best, failures=failures)
