"""Repair unhealthy node groups, with the room of other groups if needed (``hregroup(1)``).

Causes of a group's faults are instances whose moves relieve it. They leave in the order of Ganeti's design
"Synchronising htools to Ganeti 2.3": first from offline nodes, then secondaries on nodes that fail N+1, then
primaries on these nodes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.allocation.exchange import exchange
from ganeti_htools.engine.groups.bottleneck import no_room
from ganeti_htools.engine.groups.diagnosis import diagnose
from ganeti_htools.engine.groups.outcome import Progress, RegroupingLimits, RegroupingOutcome, cost
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import routes_within
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.moving.traffic import copied_by
from ganeti_htools.model.columns import NOWHERE, sorted_unique
from ganeti_htools.model.moves import Move, MovePart, Operation
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType
from ganeti_htools.model.wording import shorten_names


def burden(now: Regrouping, group: int) -> tuple[int, int]:
    """Return how ill a group is: the number of instances on offline nodes, and the MiB its nodes lack for
    N+1.
    """
    found = diagnose(now.state, now.state.group == group)
    return len(found.stranded), sum(_lack(now.state, node) for node in found.failing)


def _lack(state: State, node: int) -> int:
    """Sum the MiB that a node lacks to take over from each of its peers; 0 if it holds N+1."""
    free, kept = int(state.columns.unallocated[node]), state.peers[:, node]
    return max(0, -free) + int(np.maximum(kept[kept > 0] - free, 0).sum())


class Cause(NamedTuple):
    """An instance (row) that may have to leave its node.

    ``lack`` is what the node would lack without it (MiB); ``secondary``: the node is its secondary.
    """

    row: int
    lack: int = 0
    secondary: bool = True


def causes(now: Regrouping, group: int, left_out: Collection[int] = ()) -> Iterator[list[Cause]]:
    """Yield sets of instances. The next instance to move is of the first set that has a possible move.

    ``left_out`` are instances on offline nodes that stay there.
    """
    state, found = now.state, now.diagnosis(group)
    if stranded := [row for row in found.stranded if row not in left_out]:
        # First instances without another group, which need room in their own; then the largest.
        rows = state.cluster.instances
        first = min(stranded, key=lambda row: (bool(now.targets(row)), -rows[row].mem))
        yield [Cause(first, secondary=not state.columns.offline[state.pnode[first]])]
    else:
        moved = {each.instance for each in now.moved}
        staying = [row for row in found.pressing if row not in moved and row not in left_out]
        for place, secondary in ((state.snode, True), (state.pnode, False)):
            pairs = [(int(place[row]), row) for row in staying if place[row] in found.failing]
            lacks = [(row, _lack_without(state, node, row, secondary)) for node, row in pairs]
            yield [Cause(row, lack, secondary) for row, lack in lacks if lack is not None]


def _lack_without(state: State, node: int, row: int, secondary: bool) -> int | None:
    """Return the MiB that a node would lack without an instance; None if the instance makes no difference.

    For a ``secondary`` the need of its primary's instances counts, otherwise that of any peer.
    """
    free, kept = int(state.columns.unallocated[node]), int(state.columns.r_mem[node])
    served = int(state.record_mem[row])
    if secondary:
        kept, served = int(state.peers[state.pnode[row], node]), state.instance(row).secondary_mem
    return max(0, kept - free - served) if served and kept > free else None


def in_the_way(now: Regrouping, group: int, left_out: Collection[int] = ()) -> str:
    """Return the reason why no further move helps an unhealthy group; ``left_out`` as in :func:`causes`."""
    state, found = now.state, now.diagnosis(group)
    rows = first_causes(now, group, left_out)
    verb = "fails" if len(found.failing) == 1 else "fail"
    nodes = (
        ""
        if set(found.stranded) - set(left_out)
        else f"{shorten_names(state.names(found.failing))} {verb} N+1; "
    )
    return nodes + (refused(now, rows[0]) if rows else "no instance can be moved that would help")


def first_causes(now: Regrouping, group: int, left_out: Collection[int] = ()) -> list[int]:
    """Return the instances that should move next, the one that relieves its node most first."""
    first = next(filter(None, causes(now, group, left_out)), [])
    return [each.row for each in sorted(first, key=lambda each: (each.lack, each.row))]


def refused(now: Regrouping, index: int) -> str:
    """Name an instance, and the reason why no group takes it."""
    return f"instance {now.state.cluster.instances[index].name}: {why_no_group(now, index)}"


def why_no_group(now: Regrouping, index: int) -> str:
    """Return the reason why no group takes an instance."""
    groups = now.state.cluster.groups
    why = tied_to_group(now, index)
    if why is not None:
        return why
    state, secondary = now.state, int(now.state.snode[index])
    if secondary != NOWHERE and state.columns.offline[state.pnode[index]]:
        fail = now.failure(index, [MovePart(Operation.FAILOVER)])
        if fail is not None:
            taker = state.cluster.nodes[secondary].name
            return f"its secondary {taker} cannot take it over ({fail.value})"
    full, ill, others = list(now.homes(index)), list[str](), list[str]()
    for group in sorted_unique(now.state.group).tolist():
        if group in now.homes(index) or group not in now.rules.groups:
            continue
        if (why := now.refusal(index, group)) is not None:
            others.append(why)
        elif now.diagnosis(group).good:
            full.append(group)
        else:
            ill.append(groups[group].name)
    reasons = [no_room(now, index, full)]
    reasons += [f"{shorten_names(ill)} not healthy"] if ill else []
    return "; ".join((*reasons, *dict.fromkeys(others)))


def tied_to_group(now: Regrouping, index: int) -> str | None:
    """Return the reason why an instance must not leave its group; None if it may."""
    if now.rules.groups.issuperset(now.homes(index)):
        return now.obstacle(index)
    return "its other node is in a group that is left out"


# Reaches tried in this order until the group is repaired; the first copies least.
INSIDE, OUTSIDE = "inside", "outside"
_REACHES = ((INSIDE,), (INSIDE, OUTSIDE), (OUTSIDE, INSIDE))

_LIMITED = "the limits do not allow so many moves"

# Places tried for an instance while each of them makes a group worse.
PATIENCE = 16

Allowed = Callable[[Regrouping], bool]
Report = Callable[[Regrouping], None]


def redistribute(
    state: State, rules: RegroupingRules, limits: RegroupingLimits, progress: Progress, partial: bool = False
) -> RegroupingOutcome:
    """Repair each unhealthy group completely or not at all, the worst first.

    With ``partial`` the others then get the moves that relieve them, within the limits.

    First, instances that an interrupted change of group left between two groups come to one of them. If one
    cannot, its group counts as failed, even if it is healthy. Failed groups are tried again after other
    moves, since those may free room.
    """
    before = Regrouping(state, rules)
    now, failed, moved = before, dict[int, str](), -1
    groups = [group for group in sorted_unique(state.group).tolist() if group in rules.groups]
    ill = [group for group in groups if not now.diagnosis(group).good or _between(now, group)]

    def allowed(after: Regrouping) -> bool:
        return limits.allow(state.cluster.instances, after.moved)

    def report(after: Regrouping) -> None:
        left = sum(not after.diagnosis(group).good for group in groups)
        progress(f"{left} of {len(ill)} groups left, {len(after.moved)} moves")

    while len(now.moved) > moved:
        moved = len(now.moved)
        now = _brought_together(now, groups, allowed)
        for group in sorted(groups, key=lambda each: now.diagnosis(each).rank, reverse=True):
            if now.diagnosis(group).good:
                continue
            found = _repair(now, group, allowed, report)
            if isinstance(found, str):
                failed[group] = found
            else:
                now = found
    for group in sorted(failed, key=lambda each: now.diagnosis(each).rank, reverse=True) if partial else ():
        now, failed[group] = _relieved_partly(now, group, allowed, report)
    apart = {group: _between(now, group) for group in groups}
    done = [
        group
        for group in ill
        if now.diagnosis(group).good and not (before.diagnosis(group).good and apart[group])
    ]
    failed = {group: failed[group] for group in ill if not now.diagnosis(group).good}
    failed = {
        group: f"between groups: {refused(now, rows[0])}" for group, rows in apart.items() if rows
    } | failed
    return RegroupingOutcome(now, tuple(done), tuple(failed.items()))


def _between(now: Regrouping, group: int) -> list[int]:
    """Return the movable instances with their primary in a group and their secondary in another."""
    return [row for row in now.diagnosis(group).between if tied_to_group(now, row) is None]


def _brought_together(now: Regrouping, groups: Sequence[int], allowed: Allowed) -> Regrouping:
    """Return the cluster with each instance between groups brought into one of them, if possible."""
    for group in groups:
        for row in _between(now, group):
            ways = (parts for reach in _REACHES[1] for parts in _ways(now, row, group, reach))
            for after in filter(None, (now.after_moving(row, parts) for parts in ways)):
                now = after if allowed(after) else now
                break
    return now


def _repair(now: Regrouping, group: int, allowed: Allowed, report: Report) -> Regrouping | str:
    """Return the cluster with a group repaired, or the obstacle."""
    why = ""
    for reaches in _REACHES:
        found = _relieved(now, group, reaches, report)
        if not isinstance(found, str):
            found = _pruned(now, group, found)
            return found if allowed(found) else _LIMITED
        why = found
    return why


def _relieved(now: Regrouping, group: int, reaches: Sequence[str], report: Report) -> Regrouping | str:
    """Return the cluster after moves that repair a group, or the obstacle."""
    while not now.diagnosis(group).good:
        report(now)
        after = next(_better(now, group, reaches), None)
        if after is None:
            return in_the_way(now, group)
        now = after
    return now


def _relieved_partly(now: Regrouping, group: int, allowed: Allowed, report: Report) -> tuple[Regrouping, str]:
    """Return the cluster after all moves that relieve a group, and what is in the way of its repair."""
    made = -1
    while len(now.moved) > made:
        made, stuck, reasons = len(now.moved), set[int](), dict[str, list[str]]()
        while not now.diagnosis(group).good:
            report(now)
            after = next(_better(now, group, _REACHES[1], stuck), None)
            if after is not None and allowed(after):
                now = after
                continue
            found = now.diagnosis(group)
            rows = [row for row in first_causes(now, group, stuck) if row in found.stranded]
            if after is not None:
                reasons.setdefault(_LIMITED, [])
            elif rows:
                name = now.state.cluster.instances[rows[0]].name
                reasons.setdefault(why_no_group(now, rows[0]), []).append(name)
            elif found.failing:
                reasons.setdefault(in_the_way(now, group, stuck), [])
            if not rows:
                break
            stuck.add(rows[0])
    return now, "; ".join(
        f"instance{'s' * (len(names) > 1)} {', '.join(names)}: {why}" if names else why
        for why, names in reasons.items()
    )


def _better(
    now: Regrouping, group: int, reaches: Sequence[str], left_out: Collection[int] = ()
) -> Iterator[Regrouping]:
    """Yield the cluster after each move that makes a group less ill and no group worse, the best first."""
    before = burden(now, group)
    for those in causes(now, group, left_out):
        for reach in reaches:
            for cause in sorted(those, key=lambda each: (each.lack, _price(now, each, reach), each.row)):
                useless, tries = set[tuple[Operation, ...]](), 0
                for parts in _ways(now, cause.row, group, reach):
                    operations = tuple(part.operation for part in parts)
                    after = now.copy()
                    if operations in useless or not after.move(cause.row, parts):
                        continue
                    if not burden(after, group) < before:
                        useless.add(operations)  # to any node
                    elif not after.degrades(now, now.homes(cause.row)):
                        yield after
                    elif (tries := tries + 1) == PATIENCE:
                        break


def _price(now: Regrouping, cause: Cause, reach: str) -> int:
    """Return the MiB that moving an instance copies."""
    row = now.state.cluster.instances[cause.row]
    match row.template.mirror:
        case MirrorType.INTERNAL if reach == OUTSIDE:
            operations = [part.operation for part in exchange(NOWHERE, NOWHERE)]
        case MirrorType.INTERNAL:
            operations = [Operation.REPLACE_SECONDARY if cause.secondary else Operation.FAILOVER]
        case MirrorType.EXTERNAL:
            operations = [Operation.FAILOVER_TO]
        case MirrorType.NONE:
            operations = [Operation.MOVE]
    return sum(copied_by(operations, row))


def _ways(now: Regrouping, index: int, group: int, reach: str) -> Iterator[Sequence[MovePart]]:
    """Yield the routes of an instance within its group or out of it, the best first.

    An instance between two groups goes to the other one first if this one is unhealthy.
    """
    homes = now.homes(index)
    if not now.rules.groups.issuperset(homes):
        return
    if reach == INSIDE:
        ill = not now.diagnosis(group).good
        for home in sorted(homes, key=lambda home: ill and home == group):
            if now.refusal(index, home) is None:
                yield from routes_within(now.state, now.rules, index, home)
    elif now.obstacle(index) is None:
        healthy = [
            target for target in now.targets(index) if now.diagnosis(target).good and target not in homes
        ]
        for place in now.places(index, healthy):
            yield place.parts


def _pruned(before: Regrouping, group: int, after: Regrouping) -> Regrouping:
    """Return the repair of a group without needless moves; the most expensive are left out first."""
    needed = set(before.diagnosis(group).stranded)
    rows = before.state.cluster.instances
    moves = after.moved[len(before.moved) :]
    for move in sorted(moves, key=lambda each: -cost(rows, each)):
        rest = [each for each in moves if each is not move]
        if move.instance not in needed and (less := _repaired_by(before, group, rest)):
            moves, after = rest, less
    return after


def _repaired_by(before: Regrouping, group: int, moves: Sequence[Move]) -> Regrouping | None:
    """Return the cluster after moves that repair a group and make none worse, or None."""
    after: Regrouping | None = before
    for each in moves:
        after = after and after.after_moving(each.instance, each.parts)
    return after if after and after.diagnosis(group).good else None
