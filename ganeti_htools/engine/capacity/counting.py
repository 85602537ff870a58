"""Counts of instances that a cluster takes: of one size, or of sizes that shrink as it fills (``hspace(1)``).

Instances are placed one after the other as ``allocation.allocate`` would. Assessment of the whole is not
looked at for mirrored ones where existing errors are accepted, since they keep enough memory free on their
secondaries as it is. In tiered allocation, when a size no longer fits, it is made smaller by what most
candidates lack, a unit at a time; if that ends without success, each size on the way is made smaller by the
other things that it lacks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.allocation.pairs import best_redundant
from ganeti_htools.engine.allocation.solution import PATIENCE, Solution
from ganeti_htools.engine.capacity.bulk_one_node import OneNodeSearch
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.capacity.bulk_search import InstanceNodes
from ganeti_htools.engine.capacity.fill import Filled, fill
from ganeti_htools.engine.capacity.scope import AllocationScope, on_all_pairs, positions_by_group
from ganeti_htools.engine.capacity.shrinking import Failures, Shrinking, SizeRun, worst
from ganeti_htools.engine.redundancy.assessment import Assessment
from ganeti_htools.engine.redundancy.simulate import NewInstances
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.pools import fit
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Ints, availability, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate, Fail

FEW = 20  # instances that are checked one by one at once
MOST = 64  # unmirrored instances that are checked in one batch


@dataclass(frozen=True, slots=True)
class Capacity:
    """The instances placed of each size, in order, and how many candidates each reason rules out."""

    state: State
    tiers: tuple[tuple[InstanceSize, int], ...]
    failures: Failures

    @property
    def placed(self) -> int:
        return sum(number for _, number in self.tiers)


def check_enough(state: State, template: DiskTemplate, nodes: Ints) -> None:
    """Raises RequestFailed if no instance could ever go on these nodes."""
    if template.required_nodes == 1:
        if not len(nodes):
            raise RequestFailed("No online nodes")
    elif not len(positions_by_group(state, nodes)):
        raise RequestFailed("Not enough online nodes")


def standard(
    state: State, kind: InstanceKind, size: InstanceSize, scope: AllocationScope, limit: int | None
) -> Capacity:
    """Instances of one size, at most ``limit`` if not negative."""
    if scope.closed:
        return Capacity(state, (), {Fail.N1: 1})
    state, filled = _filled(state.copy(), kind, size, _seeing_pools(state, kind, size, scope), 0, limit)
    return Capacity(state, ((size, filled.placed),) if filled.placed else (), filled.failures)


def tiered(
    state: State, kind: InstanceKind, sizes: Sequence[InstanceSize], scope: AllocationScope, limit: int | None
) -> Capacity:
    """Instances of each of ``sizes`` in turn; a size that does not fit any more is made smaller."""
    if scope.closed:
        return Capacity(state, (), {Fail.N1: 1})
    result = Capacity(state.copy(), (), {})
    for size in sizes:
        if limit is not None and limit <= result.placed:
            break
        result = _tiers(result, kind, size, _seeing_pools(state, kind, size, scope), limit)
    return result


def _seeing_pools(
    state: State, kind: InstanceKind, size: InstanceSize, scope: AllocationScope
) -> AllocationScope:
    """Leave out the nodes that do not see the pools of the instances, if others do.

    They are no reason why no more instances fit.
    """
    wants, shape = state.requested_instance(kind.instance(size)).wants, state.columns.shape
    pools = slice(len(shape.units), len(shape.units) + len(shape.pools))
    wanted = availability(state.columns)[pools][np.array(wants[pools], np.bool_)]
    sees = np.logical_and.reduce(wanted, axis=0)
    nodes = scope.nodes[sees[scope.nodes]]
    return replace(scope, nodes=nodes) if len(nodes) else scope


def _tiers(
    before: Capacity, kind: InstanceKind, size: InstanceSize, scope: AllocationScope, limit: int | None
) -> Capacity:
    """Further tiers, from a size on, until ``limit`` instances are placed with those before."""
    state, tiers, placed, result = before.state, list(before.tiers), before.placed, None
    shrinking, start = Shrinking(state, kind, scope), size
    while True:
        at: InstanceSize | None = start
        passed: list[SizeRun] = []
        while at is not None:
            run = None if at is start else shrinking.failed(at)
            if run is None:
                known = shrinking.assessment if scope.guards(kind.mirrored) else None
                left = None if limit is None else limit - placed
                state, filled = _filled(state, kind, at, scope, placed, left, known)
                run = SizeRun(at, filled.failures)
                if filled.placed or result is None:
                    passed = []
                    placed += filled.placed
                    tiers += [(at, filled.placed)] * (filled.placed > 0)
                    result = filled.failures
                    shrinking = Shrinking(state, kind, scope, filled.assessment)
            if limit is not None and limit <= placed:
                break
            passed.append(run)
            hopeless = shrinking.hopeless(at.least())
            at = None if hopeless else run[run.number - 1].smaller(worst(run.failures))
        sidesteps = map(shrinking.sidestep, reversed(passed))
        found = next((each for each in sidesteps if each is not None), None)
        if found is None:
            break
        start = found[1]
    assert result is not None
    return Capacity(state, tuple(tiers), result)


def _filled(
    state: State,
    kind: InstanceKind,
    size: InstanceSize,
    scope: AllocationScope,
    first: int,
    limit: int | None,
    known: Assessment | None = None,
) -> tuple[State, Filled]:
    """Instances of one size on a state of its own, numbered from ``first``; the state may be changed.

    ``known`` is the assessment of the state, if there is one.
    """
    row = kind.instance(size)
    if limit is not None and limit < 0:
        limit = None
    room = fit(scope.pools.free_after(state), state, row)
    bounded = room is not None and (limit is None or limit >= room)
    if bounded:
        limit = room
    if scope.guards(kind.mirrored):
        state, filled = fill_redundantly(state, row, scope, first, limit, known)
    else:
        filled = fill(state, row, scope.nodes, first, limit, scope.progress)
    if bounded and filled.placed == room:
        filled = replace(filled, failures=dict.fromkeys(Fail, 0) | {Fail.DISK: len(scope.nodes)})
    return state, filled


def fill_redundantly(
    state: State,
    row: Instance,
    scope: AllocationScope,
    first: int,
    limit: int | None,
    assessment: Assessment | None = None,
) -> tuple[State, Filled]:
    """Place instances like ``row`` so that every node can be lost after each; the state may be changed.

    They are numbered from ``first``, up to a limit. ``assessment`` is that of the state, if it is known.

    Free resources only shrink as instances come. If bounds prove a state redundant, they prove each state on
    the way to it, so many instances are placed before the first check. Simulation has no such rule: the
    instances of a lost node may find no place now, and find one after one more instance. So each placement is
    checked, for unmirrored instances many in one batch.
    """
    assessment = assessment or scope.assess(state)
    state, placed, step, too_far = assessment.state, 0, _guess(state, row), False
    while step >= FEW and assessment.bounds.proves_all:
        trial = state.copy()
        number = step if limit is None else min(step, limit - placed)
        filled = fill(trial, row, scope.nodes, first + placed, number, scope.progress)
        after = scope.assess(trial)
        if after.bounds.proves_all:
            state, assessment, placed = trial, after, placed + filled.placed
            if placed == limit or filled.placed < number:
                return state, Filled(placed, filled.failures, assessment)
        else:
            too_far = True
        step = number // 2 if too_far else _guess(state, row)
    return state, _one_by_one(row, scope, assessment, first, placed, limit)


def _guess(state: State, row: Instance) -> int:
    """Estimate how many instances fit by memory, rather too few."""
    free = np.maximum(state.columns.unallocated - state.columns.r_mem, 0).sum()
    return int(free) // max(1, row.mem) - len(state.group)


def _one_by_one(
    row: Instance, scope: AllocationScope, assessment: Assessment, first: int, placed: int, limit: int | None
) -> Filled:
    """Place instances on the assessed state, in place, and check each."""
    state, elsewhere, ahead = assessment.state, False, 2
    asked = state.requested_instance(row)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = (PairSearch if asked.mirrored else OneNodeSearch)(state, asked, scope.nodes)
        while placed != limit:
            number = ahead if limit is None else min(ahead, limit - placed)
            places = _next(search, assessment, number) if isinstance(search, OneNodeSearch) else []
            ahead = min(2 * ahead, MOST) if len(places) == number else 1
            if not places:
                nodes, best = _place(search, scope, assessment), search.best()
                if nodes is None:
                    failures = search.failures()
                    failures[Fail.N1] += search.candidates - sum(failures.values())
                    return Filled(placed, failures, assessment)
                elsewhere = elsewhere or (limit is not None and nodes != best)
                places, ahead = [nodes], 2 if nodes == best else 1
            for nodes in places:
                search.settle(nodes)
                placed += 1
                scope.progress(placed)
            numbers = range(first + placed - len(places), first + placed)
            rows = [replace(row, name=f"{row.name}-{number}") for number in numbers]
            settling.add_rows(state, asked, rows, places)
            assessment = scope.assess(state)
        failures = search.failures()
    if elsewhere:  # as Ganeti's htools: at the limit, redundancy counts only if it has been in the way
        failures = dict.fromkeys(Fail, 0) | _solution(state, asked, scope, assessment).failures
    return Filled(placed, failures, assessment)


def _next(search: OneNodeSearch, assessment: Assessment, number: int) -> list[InstanceNodes]:
    """The best places for ``number`` more instances, in turn, up to the first after which a loss is fatal."""
    places: list[InstanceNodes] = []
    before = search.state.columns
    search.state.columns = before.copy()
    while number > 1 and len(places) < number and (best := search.best()) is not None:
        places.append(best)
        search.settle(best)
    primaries = [primary for primary, _ in places]
    search.restore(before, sorted_unique(np.array(primaries, np.int64)))
    if not places:
        return []
    return places[: assessment.survives_in_turn(search.asked, primaries)]


def _place(
    search: OneNodeSearch | PairSearch, scope: AllocationScope, assessment: Assessment
) -> InstanceNodes | None:
    """The best place for one more instance with which every node can be lost."""
    if isinstance(search, PairSearch):
        return _pair(search, scope, assessment)
    asked, nodes, tries = search.asked, search.nodes, 0
    allowed, refuted = assessment.admissible(asked, nodes, None), np.zeros(len(nodes), np.bool_)
    fatal = NOWHERE
    while (best := search.best(allowed)) is not None:
        at = np.searchsorted(nodes, best.primary)
        if not refuted[at]:
            fatal = assessment.fatal_loss(asked, best.primary)
            if fatal == NOWHERE:
                return best
            others = np.flatnonzero(allowed & ~refuted)
            refuted[others] = assessment.refuted(NewInstances.of(asked, nodes[others]))
        allowed[at] = False
        tries += 1
        if tries == PATIENCE and assessment.fatal_alone(fatal):
            return None
    return None


def _pair(search: PairSearch, scope: AllocationScope, assessment: Assessment) -> InstanceNodes | None:
    """The best pair for one more instance with which every node can be lost."""
    asked, scores = search.asked, search.scores()
    if not any(np.isnan(each).any() for each in scores):
        found = []
        for block, here in zip(search.blocks, scores, strict=True):
            nodes = block.nodes
            allowed = np.isfinite(here) & assessment.admissible(asked, nodes, nodes)
            if pair := best_redundant(asked, nodes, nodes, here, allowed, assessment):
                found.append((-here[pair], InstanceNodes(int(nodes[pair[0]]), int(nodes[pair[1]]))))
        return max(found)[1] if found else None
    best = search.best()
    if best is None:
        return None
    primary, secondary = (np.array([node]) for node in best)
    if assessment.admissible(asked, primary, secondary)[0, 0] and assessment.survives(asked, *best):
        return best
    solution = _solution(search.state, asked, scope, assessment)
    return InstanceNodes(*solution.nodes) if solution.nodes else None


def _solution(
    state: State, asked: RequestedInstance, scope: AllocationScope, assessment: Assessment
) -> Solution:
    """The best redundant place, in any group, and the reasons of the others."""
    if not asked.mirrored:
        return on_nodes(state, asked, scope.nodes, state.everywhere, scope.options, assessment)
    found = list(on_all_pairs(state, asked, scope, assessment))
    failures = sum((Counter(each.failures) for each in found), Counter())
    good = [each for each in found if each.trial is not None]
    if not good:
        return Solution(failures, 0)
    lowest = np.fmin.reduce([each.metric for each in good])
    equal = [each for each in good if each.metric == lowest or np.isnan(lowest)]
    best = max(equal, key=lambda each: each.nodes)
    return replace(best, failures=failures)
