"""Groups emptied into others (``hregroup(1)``, compress).

Candidates use less than the other groups have free. They are tried by what they have free: memory first, then
disk, then CPUs (Ganeti's design "Synchronising htools to Ganeti 2.3").
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np

from ganeti_htools.engine.groups import room
from ganeti_htools.engine.groups.outcome import (
    EmptiableGroup,
    Progress,
    RegroupingLimits,
    RegroupingOutcome,
    cost,
)
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import copied_on_leaving
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.groups.wording import some
from ganeti_htools.model.columns import NOWHERE, Floats, Ints, sorted_unique
from ganeti_htools.model.state import State

Tell = Callable[[int, int], None]  # called with how many instances of how many have a place

# Of groups that have at least this part of what the best one has free, the one that copies least comes first.
SIMILAR = 0.9

# So often the instances of a group are tried anew, those that found no place before all others.
PATIENCE = 4


def compress(
    state: State,
    rules: RegroupingRules,
    limits: RegroupingLimits,
    empty: Sequence[int],
    number: int,
    reserve: float,
    progress: Progress,
) -> RegroupingOutcome:
    """Empty the groups (rows) in ``empty``, else as many as ``number`` of those that can be.

    Without ``empty`` all groups that could be emptied, each by itself, are told. In each group that takes
    instances ``reserve`` standard instances can still be made.
    """
    start, spare, closed = Regrouping(state, rules), math.ceil(reserve), _vacant(state)
    now, done = start, list[int]()
    failed, possible = list[tuple[int, str]](), list[EmptiableGroup]()
    order = [group for group in empty if len(_rows(state, group))]
    if not empty:
        order, failed = candidates(start)
    for at, group in enumerate(order):
        tell = partial(_tell, progress, f"{at} of {len(order)} groups tried")
        tried = _emptied(start, group, empty or closed, spare, limits, tell)
        if isinstance(tried, str):
            failed.append((group, tried))
            continue
        if not empty:
            volume = sum(cost(state.cluster.instances, each) for each in tried.moved)
            possible.append(EmptiableGroup(group, len(tried.moved), volume))
        if empty or len(done) < number:
            after: Regrouping | str = tried
            if done:  # those that are emptied already must not fill this one, so they are emptied anew
                shut = {*done, group, *(empty or closed)}
                after = _all_emptied(start, [*done, group], shut, spare, limits, tell)
            if isinstance(after, Regrouping):
                now, done = after, [*done, group]
            elif empty:
                failed.append((group, after))
    return RegroupingOutcome(now, tuple(done), tuple(failed), tuple(possible))


def _tell(progress: Progress, before: str, moved: int, number: int) -> None:
    progress(f"{before}, {moved} of {number} instances have a place")


def _all_emptied(
    start: Regrouping,
    groups: Sequence[int],
    closed: Collection[int],
    spare: int,
    limits: RegroupingLimits,
    tell: Tell,
) -> Regrouping | str:
    """The cluster with some groups emptied one after the other, into none of those that are closed."""
    now = start
    for group in groups:
        after = _emptied(now, group, closed, spare, limits, tell)
        if isinstance(after, str):
            return after
        now = after
    return now


def candidates(now: Regrouping) -> tuple[list[int], list[tuple[int, str]]]:
    """The groups that may be emptied, in order; and others that have instances, with the reason why not.

    Their instances use no more memory, disk and CPUs than the groups that they can go to have free. The most
    free memory comes first, then disk, then CPUs; of similar groups the one that copies least.
    """
    state = now.state
    free, vacant = room.free(state), _vacant(state)
    taken, data, others = room.used(state, room.amounts(state)), dict[int, int](), list[tuple[int, str]]()
    for group in sorted(now.rules.groups):
        rows = _rows(state, group)
        if not len(rows):
            continue
        left = free[:, [each for each in now.group_targets.neighbours(group) if each not in vacant]]
        if not left.size:
            others.append((group, "there is no other group with instances that it can give its own to"))
        elif (why := room.lacking(state, taken[:, group], left.sum(axis=1))) is not None:
            others.append((group, why))
        else:
            data[group] = sum(copied_on_leaving(now.state, index) for index in rows.tolist())
    rest, found = sorted(data, key=lambda group: (*(-free[:, group]), group)), list[int]()
    while rest:
        enough = SIMILAR * free[:, rest[0]]
        similar = [group for group in rest if (free[:, group] >= enough).all()]
        found.append(min(similar, key=lambda group: data[group]))
        rest.remove(found[-1])
    return found, others


def _rows(state: State, group: int) -> Ints:
    """The instances (rows) with a node in a group."""
    here = state.group[state.pnode] == group
    here |= (state.snode != NOWHERE) & (state.group[state.snode] == group)
    return np.flatnonzero(here)


def _vacant(state: State) -> set[int]:
    """Groups (rows) without instances: to fill one in order to empty another gains nothing."""
    full = {*state.group[state.pnode].tolist(), *state.group[state.snode[state.snode != NOWHERE]].tolist()}
    return set(sorted_unique(state.group).tolist()) - full


def _emptied(
    now: Regrouping, group: int, closed: Collection[int], spare: int, limits: RegroupingLimits, tell: Tell
) -> Regrouping | str:
    """The cluster with a group emptied into those that are not closed; why it cannot be, if it cannot."""
    state, rows = now.state, _rows(now.state, group).tolist()
    names = [row.name for row in state.cluster.instances]
    if 0 <= limits.moves < len(now.moved) + len(rows):
        return f"it takes {len(rows)} moves"
    for index in rows:
        if (why := now.obstacle(index)) is not None:
            return f"instance {names[index]}: {why}"
    volume = sum(cost(state.cluster.instances, each) for each in now.moved)
    # What is between two groups may copy less.
    volume += sum(copied_on_leaving(state, index) for index in rows if len(now.homes(index)) == 1)
    if 0 <= limits.copy < volume:
        return f"it copies {volume} MiB"
    ready = {
        other
        for other in now.rules.groups - {group, *closed}
        if now.diagnosis(other).good and now.has_room(other, spare)
    }
    targets = {index: [each for each in now.targets(index) if each in ready] for index in rows}
    first = [index for index in rows if not targets[index]]
    for _ in range(0 if first else PATIENCE):
        stuck, after = _moved(now, _in_order(now, targets, first), targets, spare, tell)
        if stuck is None:
            allowed = limits.allow(state.cluster.instances, after.moved)
            return after if allowed else "it copies more than the limits allow"
        if first[:1] == [stuck]:
            break
        first = [stuck, *(each for each in first if each != stuck)]
    return f"instance {names[first[0]]}: {_nowhere(now, first[0], group, closed, ready)}"


def _nowhere(now: Regrouping, index: int, group: int, closed: Collection[int], ready: Collection[int]) -> str:
    """Why an instance finds no place in the other groups."""
    names: dict[str, list[str]] = {}
    refusals = []
    for other in sorted(now.rules.groups - {group}):
        if (refused := now.refusal(index, other)) is not None:
            refusals.append(refused)
            continue
        if other in closed:
            why = "empty, or to be emptied:"
        elif other in ready:
            why = "no room in"
        else:
            why = "no room for the reserve in" if now.diagnosis(other).good else "not healthy:"
        names.setdefault(why, []).append(now.state.cluster.groups[other].name)
    reasons = [f"{why} {some(groups)}" for why, groups in names.items()]
    return "; ".join((*reasons, *dict.fromkeys(refusals))) or "there is no other group"


def _in_order(now: Regrouping, targets: Mapping[int, Sequence[int]], first: Sequence[int]) -> list[int]:
    """Instances in the order in which they are moved: those that few groups can take, the largest of them."""
    needs, free = room.amounts(now.state), room.free(now.state)

    def key(index: int) -> tuple[float, ...]:
        there = targets[index]
        return len(there), -room.share(needs[:, index], free[:, there].sum(axis=1, keepdims=True))[0], index

    return [*first, *sorted(targets.keys() - set(first), key=key)]


def _moved(
    now: Regrouping, order: Sequence[int], targets: Mapping[int, Sequence[int]], spare: int, tell: Tell
) -> tuple[int | None, Regrouping]:
    """Move instances one by one, each to the group where it takes the smallest part of what is free.

    The first one that finds no place, None if all do; and the cluster then.
    """
    needs, free, vacant = room.amounts(now.state), room.free(now.state), _vacant(now.state)
    after = now
    for moved, index in enumerate(order):
        tell(moved, len(order))
        shares = room.share(needs[:, index], free)

        def rank(group: int, shares: Floats = shares) -> tuple[float, ...]:
            return now.last_resort(group), group in vacant, shares[group], -group

        for group in sorted(targets[index], key=rank):
            way, tried = after.route_to(index, group), after.copy()
            if way is None or not tried.move(index, way):
                continue
            if not tried.diagnosis(group).worse_than(after.diagnosis(group)) and tried.has_room(group, spare):
                after, free[:, group] = tried, free[:, group] - needs[:, index]
                break
        else:
            return index, after
    return None, after
