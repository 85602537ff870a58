"""Causes of a node group's faults: instances whose moves relieve it, and obstacles to its repair.

Instances leave in the order of Ganeti's design "Synchronising htools to Ganeti 2.3": first from offline
nodes, then secondaries on nodes that fail N+1, then primaries on these nodes.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.groups.bottleneck import no_room
from ganeti_htools.engine.groups.diagnosis import diagnose
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.columns import NOWHERE, sorted_unique
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.state import State
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
    return f"instance {now.state.cluster.instances[index].name}: {refusal(now, index)}"


def refusal(now: Regrouping, index: int) -> str:
    """Return the reason why no group takes an instance."""
    groups = now.state.cluster.groups
    why = obstacle(now, index)
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


def obstacle(now: Regrouping, index: int) -> str | None:
    """Return the reason why an instance must not leave its group; None if it may."""
    if now.rules.groups.issuperset(now.homes(index)):
        return now.obstacle(index)
    return "its other node is in a group that is left out"
