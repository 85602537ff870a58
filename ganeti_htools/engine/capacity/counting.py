"""Counts of instances that a cluster takes: of one size, or of sizes that shrink as it fills (``hspace(1)``).

Instances are placed one after the other as ``allocation.allocate`` would. Assessment of the whole is not
looked at for mirrored ones where existing errors are accepted, since they keep enough memory free on their
secondaries as it is. In tiered allocation, when a size no longer fits, it is made smaller by what most
candidates lack, a unit at a time; if that ends without success, each size on the way is made smaller by the
other things that it lacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ganeti_htools.engine.capacity.fill import Filled, fill
from ganeti_htools.engine.capacity.redundant_places import fill_redundantly
from ganeti_htools.engine.capacity.scope import AllocationScope, by_group
from ganeti_htools.engine.capacity.shrinking import Failures, Shrinking, SizeRun, worst
from ganeti_htools.engine.redundancy.assessment import Assessment
from ganeti_htools.engine.rules.pools import fit
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail


@dataclass(frozen=True, slots=True)
class Capacity:
    """The instances placed of each size, in order, and how many candidates each reason rules out."""

    state: State
    tiers: tuple[tuple[InstanceSize, int], ...]
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


def standard(
    state: State, kind: InstanceKind, size: InstanceSize, scope: AllocationScope, limit: int | None
) -> Capacity:
    """Instances of one size, at most ``limit`` if not negative."""
    if scope.closed:
        return Capacity(state, (), {Fail.N1: 1})
    state, filled = _filled(state.copy(), kind, size, scope, 0, limit)
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
        result = _tiers(result, kind, _Level(size, _less(limit, result.placed)), scope)
    return result


@dataclass(frozen=True, slots=True)
class _Level:
    """A size that is tried, at most ``limit`` times."""

    size: InstanceSize
    limit: int | None


def _tiers(before: Capacity, kind: InstanceKind, start: _Level | None, scope: AllocationScope) -> Capacity:
    """Further tiers, from a size on.

    The limit of a size is that of the one before it less all instances placed so far, not only those of
    that size: so do Ganeti's htools.
    """
    state, tiers, placed, result = before.state, list(before.tiers), before.placed, None
    shrinking = Shrinking(state, kind, scope)
    while start is not None:
        level: _Level | None = start
        passed: list[tuple[int | None, SizeRun]] = []
        while level is not None:
            failed = None if level is start else shrinking.failed(level.size)
            if failed is None:
                known = shrinking.assessment if scope.guards(kind.mirrored) else None
                state, filled = _filled(state, kind, level.size, scope, placed, level.limit, known)
                run = SizeRun(level.size, filled.failures)
                if filled.placed or result is None:
                    passed = []
                    placed += filled.placed
                    tiers += [(level.size, filled.placed)] * (filled.placed > 0)
                    result = filled.failures
                    shrinking = Shrinking(state, kind, scope, filled.assessment)
            else:
                run = _within(failed, level.limit, placed)
            if level.limit is not None and level.limit <= placed:
                break
            passed.append((level.limit, run))
            hopeless = shrinking.hopeless(level.size.least())
            smaller = None if hopeless else run[run.number - 1].smaller(worst(run.failures))
            level = None if smaller is None else _Level(smaller, _less(level.limit, placed * run.number))
        start = None
        for limit, run in reversed(passed):
            if (found := shrinking.sidestep(run)) is not None:
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
