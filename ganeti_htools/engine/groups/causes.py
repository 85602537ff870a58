"""What makes a node group ill, and which of its instances are the cause.

The order in which instances go is that of Ganeti's design "Synchronising htools to Ganeti 2.3": those on
offline nodes, those with their secondary on a node that fails N+1, those with their primary there.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.groups.diagnosis import diagnose
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.state import State


def burden(now: Regrouping, group: int) -> tuple[int, int]:
    """How ill a group is: instances on offline nodes, and MiB that its nodes lack for N+1."""
    found = diagnose(now.state, now.state.group == group)
    return len(found.stranded), sum(_lack(now.state, node) for node in found.failing)


def _lack(state: State, node: int) -> int:
    """The MiB that a node lacks to take over from each of its peers, added up; 0 if it does not fail N+1."""
    free, kept = int(state.columns.unallocated[node]), state.peers[:, node]
    return max(0, -free) + int(np.maximum(kept[kept > 0] - free, 0).sum())


class Cause(NamedTuple):
    """An instance (row) that may have to go: what a node would lack without it (MiB), and whether it is its
    secondary.
    """

    row: int
    lack: int = 0
    secondary: bool = True


def causes(now: Regrouping, group: int) -> Iterator[list[Cause]]:
    """Sets of instances: one of the first set is to go next, or if none of that can, one of the next."""
    state, found = now.state, now.diagnosis(group)
    if found.stranded:
        # What has no other group to go to needs the room of its own; what is large is hard to place.
        rows = state.cluster.instances
        first = min(found.stranded, key=lambda row: (bool(now.targets(row)), -rows[row].mem))
        yield [Cause(first, secondary=not state.columns.offline[state.pnode[first]])]
    else:
        moved = {each.instance for each in now.moved}
        staying = [row for row in found.pressing if row not in moved]
        for place, secondary in ((state.snode, True), (state.pnode, False)):
            pairs = [(int(place[row]), row) for row in staying if place[row] in found.failing]
            lacks = [(row, _lack_without(state, node, row, secondary)) for node, row in pairs]
            yield [Cause(row, lack, secondary) for row, lack in lacks if lack is not None]


def _lack_without(state: State, node: int, row: int, secondary: bool) -> int | None:
    """The MiB that a node would lack without an instance; None if it would lack as much as with it.

    For a ``secondary`` this is about what the instances of its primary need here, else about any peer's.
    """
    free, kept = int(state.columns.unallocated[node]), int(state.columns.r_mem[node])
    served = int(state.record_mem[row])
    if secondary:
        kept, served = int(state.peers[state.pnode[row], node]), state.instance(row).secondary_mem
    return max(0, kept - free - served) if served and kept > free else None
