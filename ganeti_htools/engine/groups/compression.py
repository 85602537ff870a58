"""Empty node groups into others (``hregroup(1)``, compress).

Candidates use less than the other groups have free. Groups with the most free memory come first, then disk,
then CPUs (Ganeti's design "Synchronising htools to Ganeti 2.3").

Amounts are rows: memory (MiB), each storage unit (MiB), virtual CPUs.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np

from ganeti_htools.engine.groups.bottleneck import no_room
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
from ganeti_htools.model.columns import NOWHERE, Floats, Ints, by_unit, sorted_unique
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import shorten_names, size

ReportPlaces = Callable[[int, int], None]  # called with the number of instances with a place, and of all

# Groups with at least this share of the best one's free amounts are similar; the one that copies least wins.
SIMILAR = 0.9

# Attempts to empty a group; each starts with the instances that had no place before.
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
    """Empty the groups (rows) in ``empty``; without any, at most ``number`` of the candidates.

    Without ``empty`` the outcome also lists every group that could be emptied by itself. Each group that
    takes instances keeps room for ``reserve`` standard instances.
    """
    start, spare, closed = Regrouping(state, rules), math.ceil(reserve), _vacant(state)
    now, done = start, list[int]()
    failed, possible = list[tuple[int, str]](), list[EmptiableGroup]()
    order = [group for group in empty if len(_rows(state, group))]
    if not empty:
        order, failed = emptiable_groups(start)
    for at, group in enumerate(order):
        report = partial(_report, progress, f"{at} of {len(order)} groups tried")
        tried = _emptied(start, group, empty or closed, spare, limits, report)
        if isinstance(tried, str):
            failed.append((group, tried))
            continue
        if not empty:
            volume = sum(cost(state.cluster.instances, each) for each in tried.moved)
            possible.append(EmptiableGroup(group, len(tried.moved), volume))
        if empty or len(done) < number:
            after: Regrouping | str = tried
            if done:  # empty the earlier ones again without filling this group
                shut = {*done, group, *(empty or closed)}
                after = _all_emptied(start, [*done, group], shut, spare, limits, report)
            if isinstance(after, Regrouping):
                now, done = after, [*done, group]
            elif empty:
                failed.append((group, after))
    return RegroupingOutcome(now, tuple(done), tuple(failed), tuple(possible))


def _report(progress: Progress, before: str, moved: int, number: int) -> None:
    progress(f"{before}, {moved} of {number} instances have a place")


def _all_emptied(
    start: Regrouping,
    groups: Sequence[int],
    closed: Collection[int],
    spare: int,
    limits: RegroupingLimits,
    report: ReportPlaces,
) -> Regrouping | str:
    """Return the cluster with groups emptied one after the other, none into a closed group; or the
    obstacle.
    """
    now = start
    for group in groups:
        after = _emptied(now, group, closed, spare, limits, report)
        if isinstance(after, str):
            return after
        now = after
    return now


def emptiable_groups(now: Regrouping) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the groups that may be emptied, in order, and the reason against each other group with
    instances.

    A candidate's instances use no more memory, disk and CPUs than its possible targets have free. The most
    free memory comes first, then disk, then CPUs; of similar groups the one that copies least.
    """
    state = now.state
    free, vacant = free_amounts(state), _vacant(state)
    taken, data, others = used_amounts(state, amounts(state)), dict[int, int](), list[tuple[int, str]]()
    for group in sorted(now.rules.groups):
        rows = _rows(state, group)
        if not len(rows):
            continue
        left = free[:, [each for each in now.group_targets.neighbours(group) if each not in vacant]]
        if not left.size:
            others.append((group, "there is no other group with instances that it can give its own to"))
        elif (why := too_small(state, taken[:, group], left.sum(axis=1))) is not None:
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
    """Return the instances (rows) with a node in a group."""
    here = state.group[state.pnode] == group
    here |= (state.snode != NOWHERE) & (state.group[state.snode] == group)
    return np.flatnonzero(here)


def _vacant(state: State) -> set[int]:
    """Return the groups (rows) without instances. Filling one to empty another gains nothing."""
    full = {*state.group[state.pnode].tolist(), *state.group[state.snode[state.snode != NOWHERE]].tolist()}
    return set(sorted_unique(state.group).tolist()) - full


def _emptied(
    now: Regrouping,
    group: int,
    closed: Collection[int],
    spare: int,
    limits: RegroupingLimits,
    report: ReportPlaces,
) -> Regrouping | str:
    """Return the cluster with a group emptied into groups that are not closed, or the obstacle."""
    state, rows = now.state, _rows(now.state, group).tolist()
    names = [row.name for row in state.cluster.instances]
    if 0 <= limits.moves < len(now.moved) + len(rows):
        return f"it takes {len(rows)} moves"
    for index in rows:
        if (why := now.obstacle(index)) is not None:
            return f"instance {names[index]}: {why}"
    volume = sum(cost(state.cluster.instances, each) for each in now.moved)
    # An instance between two groups may copy less.
    volume += sum(copied_on_leaving(state, index) for index in rows if len(now.homes(index)) == 1)
    if 0 <= limits.copy < volume:
        return f"it copies {size(volume)}"
    ready = {
        other
        for other in now.rules.groups - {group, *closed}
        if now.diagnosis(other).good and now.has_room(other, spare)
    }
    targets = {index: [each for each in now.targets(index) if each in ready] for index in rows}
    first, after = [index for index in rows if not targets[index]], now
    for _ in range(0 if first else PATIENCE):
        stuck, after = _moved(now, _in_order(now, targets, first), targets, spare, report)
        if stuck is None:
            allowed = limits.allow(state.cluster.instances, after.moved)
            return after if allowed else "it copies more than the limits allow"
        if first[:1] == [stuck]:
            break
        first = [stuck, *(each for each in first if each != stuck)]
    why = _nowhere(after, first[0], group, closed, ready, spare)
    others = [names[each.instance] for each in after.moved[len(now.moved) :]]
    behind = f"; tried after moving {shorten_names(others)}" if others else ""
    return f"instance {names[first[0]]}: {why}{behind}"


def _nowhere(
    now: Regrouping, index: int, group: int, closed: Collection[int], ready: Collection[int], spare: int
) -> str:
    """Return the reason why no other group takes an instance."""
    names: dict[str, list[str]] = {}
    refusals, full = [], []
    for other in sorted(now.rules.groups - {group}):
        if (refused := now.refusal(index, other)) is not None:
            refusals.append(refused)
            continue
        if other in ready and not _lacks_reserve(now, index, other, spare):
            full.append(other)
            continue
        if other in closed:
            why = "empty, or to be emptied:"
        else:
            why = "no room for the reserve in" if now.diagnosis(other).good else "not healthy:"
        names.setdefault(why, []).append(now.state.cluster.groups[other].name)
    reasons = [no_room(now, index, full)] if full else []
    reasons += [f"{why} {shorten_names(groups)}" for why, groups in names.items()]
    return "; ".join((*reasons, *dict.fromkeys(refusals))) or "there is no other group"


def _lacks_reserve(now: Regrouping, index: int, group: int, spare: int) -> bool:
    """Whether an instance has a place in a group, which has no room for the reserve then."""
    way, tried = now.route_to(index, group), now.copy()
    return way is not None and tried.move(index, way) and not tried.has_room(group, spare)


def _in_order(now: Regrouping, targets: Mapping[int, Sequence[int]], first: Sequence[int]) -> list[int]:
    """Return instances in the order of their moves: those with the fewest targets first, then the largest."""
    needs, free = amounts(now.state), free_amounts(now.state)

    def key(index: int) -> tuple[float, ...]:
        there = targets[index]
        return (
            len(there),
            -largest_share(needs[:, index], free[:, there].sum(axis=1, keepdims=True))[0],
            index,
        )

    return [*first, *sorted(targets.keys() - set(first), key=key)]


def _moved(
    now: Regrouping,
    order: Sequence[int],
    targets: Mapping[int, Sequence[int]],
    spare: int,
    report: ReportPlaces,
) -> tuple[int | None, Regrouping]:
    """Move instances one by one, each to the group where it takes the smallest share of the free room.

    Returns the first instance without a place (None if all have one), and the cluster.
    """
    needs, free, vacant = amounts(now.state), free_amounts(now.state), _vacant(now.state)
    after, last = now, {group: (now.last_resort(group), group in vacant) for group in now.rules.groups}
    for moved, index in enumerate(order):
        report(moved, len(order))
        shares = largest_share(needs[:, index], free).tolist()

        def rank(group: int, shares: Sequence[float] = shares) -> tuple[float, ...]:
            return *last[group], shares[group], -group

        for group in sorted(targets[index], key=rank):
            way, tried = after.route_to(index, group), after.copy()
            if way is None or not tried.move(index, way):
                continue
            if not tried.degrades(after, after.homes(index)) and tried.has_room(group, spare):
                after, free[:, group] = tried, free[:, group] - needs[:, index]
                break
        else:
            return index, after
    return None, after


def amounts(state: State) -> Ints:
    """Return each instance's use of all its nodes together (amounts by instances)."""
    values = state.figures.values
    nodes = np.where(state.snode == NOWHERE, 1, 2)
    return np.array([values["record_mem"], *(state.disk.T * nodes), values["vcpus"]])


def used_amounts(state: State, needs: Ints) -> Ints:
    """Sum the needs of the instances of each group (amounts by groups)."""
    found = np.zeros((len(needs), len(state.cluster.groups)), np.int64)
    np.add.at(found.T, state.group[state.pnode], needs.T)
    return found


def free_amounts(state: State) -> Floats:
    """Sum the free amounts of each group's online nodes (amounts by groups); unlimited CPUs are infinite."""
    columns, found = state.columns, []
    cpus = np.where(columns.vcpu_ratio >= 0, columns.t_cpu * columns.vcpu_ratio - columns.u_cpu, np.inf)
    for figure in (columns.unallocated, *by_unit(columns, "f_dsk"), cpus):
        left = np.where(columns.offline, 0, np.maximum(figure, 0))
        sums = np.zeros(len(state.cluster.groups))
        np.add.at(sums, state.group, left)
        found.append(sums)
    return np.array(found)


def largest_share(need: Ints, left: Floats) -> Floats:
    """Return the largest share of a free amount that a need takes, by group; infinite if nothing is free."""
    wanted = need > 0
    shares = np.full((np.count_nonzero(wanted) + 1, left.shape[1]), np.inf)
    np.divide(need[wanted, np.newaxis], left[wanted], out=shares[1:], where=left[wanted] > 0)
    shares[0] = 0
    return np.asarray(shares.max(axis=0))


def too_small(state: State, need: Ints, left: Floats) -> str | None:
    """Return the first amount that is too small, in words; None if every amount suffices."""
    disks = [f"on {unit}" if state.units.reported else "of disk" for unit in state.units.local]
    for what, wanted, there in zip(("of memory", *disks, "virtual CPUs"), need, left, strict=True):
        if wanted > there:
            amounts = (wanted, f"{there:.0f}") if what == "virtual CPUs" else (size(wanted), size(there))
            return (
                f"it uses {amounts[0]} {what}; the groups that can take its instances have {amounts[1]} free"
            )
    return None
