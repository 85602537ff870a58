"""Groups emptied into others (``hregroup(1)``, compress).

Candidates use less than the other groups have free. They are tried by what they have free: memory first, then
disk, then CPUs (Ganeti's design "Synchronising htools to Ganeti 2.3").
"""

import math
from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.allocation.evacuate import Moved
from ganeti_htools.engine.groups.outcome import Limits, Outcome, Progress
from ganeti_htools.engine.groups.regrouping import Regrouping, Rules
from ganeti_htools.model.columns import NOWHERE, Ints, sorted_unique
from ganeti_htools.model.state import State


def compress(
    state: State,
    rules: Rules,
    limits: Limits,
    empty: Sequence[int],
    number: int,
    reserve: float,
    progress: Progress,
) -> Outcome:
    """Empty the groups (rows) in ``empty``, else as many as ``number`` of those that can be.

    ``reserve`` standard instances stay free in each group that is left.
    """
    now, done, failed = Regrouping(state, rules), list[int](), list[tuple[int, str]]()
    possible: list[tuple[int, tuple[Moved, ...]]] = []
    for group in empty or candidates(state, rules):
        progress(f"{len(done)} groups emptied")
        tried = now.copy()
        why = _empty(tried, group, {group, *done, *empty})
        if why is None and not all(_has_room(tried, each, reserve) for each in rules.groups - {group, *done}):
            why = "the reserve would not be free in the others"
        if why is None and not limits.allow(state.cluster.instances, tried.moved):
            why = "the limits do not allow so many moves"
        if why is not None:
            failed.append((group, why))
        elif empty or len(done) < number:
            done, now = [*done, group], tried
        else:
            possible.append((group, tuple(tried.moved[len(now.moved) :])))
    return Outcome(now, tuple(done), tuple(failed), tuple(possible))


def candidates(state: State, rules: Rules) -> list[int]:
    """Groups with instances that use less memory, disk and CPUs than the others have free."""
    columns = state.columns
    groups = [group for group in sorted_unique(state.group).tolist() if group in rules.groups]
    used = np.array([columns.i_mem, columns.t_dsk - columns.f_dsk, columns.u_cpu - 1])
    free = np.array([columns.unallocated, columns.f_dsk, columns.t_cpu * columns.vcpu_ratio - columns.u_cpu])
    free = np.where(columns.offline, 0, free)
    by_group = {group: (_sums(used, state, group), _sums(free, state, group)) for group in groups}
    total = sum(room for _, room in by_group.values())
    found = [
        group
        for group, (taken, room) in by_group.items()
        if (state.group[state.pnode] == group).any() and (taken <= total - room).all()
    ]
    return sorted(found, key=lambda group: tuple(-by_group[group][1]))


def _sums(figures: Ints, state: State, group: int) -> Ints:
    sums: Ints = figures[:, state.group == group].sum(axis=1)
    return sums


def _empty(tried: Regrouping, group: int, closed: set[int]) -> str | None:
    """Move all instances out of a group, the largest first; why that is not possible, if it is not."""
    state = tried.state
    here = state.group[state.pnode] == group
    here |= (state.snode != NOWHERE) & (state.group[state.snode] == group)
    rows = state.cluster.instances
    for index in sorted(np.flatnonzero(here).tolist(), key=lambda row: -rows[row].mem):
        why = tried.obstacle(index)
        if why is None and not tried.leave(
            index, [each for each in tried.targets(index) if each not in closed]
        ):
            why = "no other group has room for it"
        if why is not None:
            return f"instance {rows[index].name}: {why}"
    return None


def _has_room(now: Regrouping, group: int, number: float) -> bool:
    """Whether so many standard instances can be placed in a group."""
    return now.has_room(group, math.ceil(number))
