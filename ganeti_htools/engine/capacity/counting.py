"""How many more instances a cluster takes: of one size, or of sizes that shrink as it fills (``hspace(1)``).

Instances are placed one after the other as ``allocation.allocate`` would. Redundancy of the whole is
looked at in large steps, and instance by instance only where a step went too far; not at all for mirrored
ones where existing errors are accepted, since they keep enough memory free on their secondaries as it is.
In tiered allocation, when a size no longer fits, it is made smaller by what most candidates lack, a unit
at a time; if that ends without success, each size on the way is made smaller by the other things that it
lacks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.allocation.solution import Solution
from ganeti_htools.engine.capacity.bulk_allocation import Filled, fill
from ganeti_htools.engine.capacity.shrinking import SizeVerdicts
from ganeti_htools.engine.capacity.site import Site, by_group, on_all_pairs
from ganeti_htools.engine.capacity.sizes import Failures, InstanceKind, Size, SizeRun, worst
from ganeti_htools.engine.redundancy.global_n1 import Redundancy
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.pools import fit
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate, Fail

# Instances placed before redundancy is looked at: the least of a guess, and after a guess failed.
LARGE_STEP, STEP = 20, 10


@dataclass(frozen=True, slots=True)
class Capacity:
    """What found a place, how many of each size in order, and how many candidates each reason rules out."""

    state: State
    tiers: tuple[tuple[Size, int], ...]
    failures: Failures

    @property
    def placed(self) -> int:
        """Number of instances."""
        return sum(number for _, number in self.tiers)


def check_enough(state: State, template: DiskTemplate, nodes: Ints) -> None:
    """Raises RequestFailed if no instance could ever go on these nodes."""
    if template.required_nodes == 1:
        if not len(nodes):
            raise RequestFailed("No online nodes")
    elif not len(by_group(state, nodes)):
        raise RequestFailed("Not enough online nodes")


def standard(state: State, kind: InstanceKind, size: Size, site: Site, limit: int | None) -> Capacity:
    """Instances of one size, at most ``limit`` if not negative."""
    if site.closed:
        return Capacity(state, (), {Fail.N1: 1})
    state, filled = _filled(state.copy(), kind, size, site, 0, limit)
    return Capacity(state, ((size, filled.placed),) if filled.placed else (), filled.failures)


def tiered(
    state: State, kind: InstanceKind, sizes: Sequence[Size], site: Site, limit: int | None
) -> Capacity:
    """Instances of each of ``sizes`` in turn; a size that does not fit any more is made smaller."""
    if site.closed:
        return Capacity(state, (), {Fail.N1: 1})
    result = Capacity(state.copy(), (), {})
    for size in sizes:
        if limit is not None and limit <= result.placed:
            break
        result = _tiers(result, kind, _Level(size, _less(limit, result.placed)), site)
    return result


@dataclass(frozen=True, slots=True)
class _Level:
    """A size that is tried, at most ``limit`` times."""

    size: Size
    limit: int | None


def _tiers(before: Capacity, kind: InstanceKind, start: _Level | None, site: Site) -> Capacity:
    """Further tiers, from a size on.

    The limit of a size is that of the one before it less all instances placed so far, not only those of
    that size: so do Ganeti's htools.
    """
    state, tiers, placed, result = before.state, list(before.tiers), before.placed, None
    while start is not None:
        level: _Level | None = start
        passed: list[tuple[int | None, SizeRun]] = []
        verdicts = SizeVerdicts(state, kind, site)
        while level is not None:
            failed = None if level is start else verdicts.failed(level.size)
            if failed is None:
                state, filled = _filled(state, kind, level.size, site, placed, level.limit)
                run = SizeRun(level.size, filled.failures)
                if filled.placed or result is None:
                    passed = []
                    placed += filled.placed
                    tiers += [(level.size, filled.placed)] * (filled.placed > 0)
                    result = filled.failures
                    verdicts = SizeVerdicts(state, kind, site)
            else:
                run = _within(failed, level.limit, placed)
            if level.limit is not None and level.limit <= placed:
                break
            passed.append((level.limit, run))
            hopeless = verdicts.hopeless(level.size.least())
            smaller = None if hopeless else run[run.number - 1].smaller(worst(run.failures))
            level = None if smaller is None else _Level(smaller, _less(level.limit, placed * run.number))
        start = None
        for limit, run in reversed(passed):
            if (found := verdicts.sidestep(run)) is not None:
                at, size = found
                start = _Level(size, _less(limit, placed * (at + 1)))
                break
    assert result is not None
    return Capacity(state, tuple(tiers), result)


def _within(run: SizeRun, limit: int | None, placed: int) -> SizeRun:
    """The part of a run before the limit of its sizes, which shrinks by what is placed, ends it."""
    if limit is None or not placed:
        return run
    return replace(run, number=min(run.number, max(1, -(-limit // placed) - 1)))


def _less(limit: int | None, placed: int) -> int | None:
    return None if limit is None else limit - placed


def _solution(state: State, asked: Asked, site: Site, redundancy: Redundancy) -> Solution:
    """The best redundant place, in any group."""
    everyone = np.ones(len(state.group), np.bool_)
    if not asked.mirrored:
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


def _filled(
    state: State, kind: InstanceKind, size: Size, site: Site, first: int, limit: int | None
) -> tuple[State, Filled]:
    """Instances of one size on a state of its own, numbered from ``first``; the state may be changed."""
    row = kind.instance(size)
    if limit is not None and limit < 0:
        limit = None
    room = fit(site.pools.left(state), state, row)
    if room is None or (limit is not None and limit < room):
        return _filled_by_nodes(state, kind, size, site, first, limit)
    state, filled = _filled_by_nodes(state, kind, size, site, first, room)
    if filled.placed < room:
        return state, filled
    return state, Filled(room, dict.fromkeys(Fail, 0) | {Fail.DISK: len(site.nodes)})


def _filled_by_nodes(
    state: State, kind: InstanceKind, size: Size, site: Site, first: int, limit: int | None
) -> tuple[State, Filled]:
    """The same as far as nodes have room, with a limit that is not negative."""
    row, placed = kind.instance(size), 0
    mirrored = kind.template is DiskTemplate.DRBD
    if not site.guards(mirrored):
        return state, fill(state, row, site.nodes, first, limit, site.progress)
    redundancy = site.redundancy(state)
    if limit != 0 and (solution := _solution(state, state.ask(row), site, redundancy)).trial is None:
        return state, Filled(0, _all_reasons(solution))
    step = _guess(state, size)
    while True:
        trial = state.copy()
        number = step if limit is None else min(step, limit)
        filled = fill(trial, row, site.nodes, first + placed, number, site.progress)
        then = site.redundancy(trial)
        if then.holds():
            state, redundancy, placed = trial, then, placed + filled.placed
            limit = None if limit is None else max(0, limit - step)
            if limit == 0 or filled.placed < number:
                return state, Filled(placed, filled.failures)
            step = STEP if step == STEP else _guess(state, size)
        elif step == STEP:
            break
        else:
            step = STEP
    return _one_by_one(state, row, site, redundancy, first, placed, limit)


def _all_reasons(solution: Solution) -> Failures:
    return {fail: solution.failures.get(fail, 0) for fail in Fail}


def _guess(state: State, size: Size) -> int:
    """About how many instances fit by memory, rather too few; never STEP."""
    free = np.maximum(state.columns.unallocated - state.columns.r_mem, 0).sum()
    return max(LARGE_STEP, int(free) // max(1, size.mem) - len(state.group))


def _one_by_one(
    state: State,
    row: Instance,
    site: Site,
    redundancy: Redundancy,
    first: int,
    placed: int,
    limit: int | None,
) -> tuple[State, Filled]:
    """Place instances one by one, with a look at redundancy each time, up to ``limit`` of them.

    The state is changed; ``redundancy`` is what it is before.
    """
    while True:
        asked = state.ask(replace(row, name=f"{row.name}-{first + placed}"))
        solution = _solution(state, asked, site, redundancy)
        if solution.trial is None or limit == 0:
            return state, Filled(placed, _all_reasons(solution))
        lost = redundancy.lost_after(solution.trial)
        settling.settle(state, solution.trial)
        redundancy = site.redundancy(state, lost)
        placed, limit = placed + 1, _less(limit, 1)
        site.progress(placed)
