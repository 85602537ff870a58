"""Counts of instances that a cluster takes: of one size, or of sizes that shrink as it fills (``hspace(1)``).

Instances are placed one after the other as ``allocation.allocate`` would. Assessment of the whole is not
looked at for mirrored ones where existing errors are accepted, since they keep enough memory free on their
secondaries as it is. In tiered allocation, when a size no longer fits, it is made smaller by what most
candidates lack, a unit at a time; if that ends without success, each size on the way is made smaller by the
other things that it lacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.capacity.fill import Filled, fill
from ganeti_htools.engine.capacity.redundant_places import fill_redundantly
from ganeti_htools.engine.capacity.scope import AllocationScope, by_group
from ganeti_htools.engine.capacity.shrinking import Failures, Shrinking, SizeRun, worst
from ganeti_htools.engine.redundancy.assessment import Assessment
from ganeti_htools.engine.rules.pools import fit
from ganeti_htools.model.columns import Ints, availability
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
