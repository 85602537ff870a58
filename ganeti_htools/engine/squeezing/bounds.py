"""Sets of nodes that cannot be powered down, or do not suffice, whatever moves are made: shown by sums."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from ganeti_htools.engine.rules.limits import Limit
from ganeti_htools.engine.rules.resources import CPU_RATIO, MEMORY, VIEWS
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import Bools, Columns, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State

# Of what instances take no more than there is on all nodes together: limits, the figures that they are about,
# and what an instance takes.
ADDED_UP: tuple[tuple[Limit, str, Callable[[RequestedInstance], int]], ...] = (
    (MEMORY, "unallocated", attrgetter("record_mem")),
    (MEMORY, VIEWS["unallocated"], attrgetter("mem")),
    (CPU_RATIO, "u_cpu", attrgetter("vcpus")),
)


@dataclass(frozen=True, slots=True)
class SqueezeBounds:
    """What instances may still take of each node, and what its own primaries take (by :data:`ADDED_UP` and
    node); which nodes have primaries that cannot leave.
    """

    state: State
    room: Ints
    taken: Ints
    stuck: Bools

    @property
    def size(self) -> Floats:
        """How much each node has room for at all: its part of what all have, the largest of them."""
        room = self.room + self.taken
        return np.asarray((room / np.maximum(room.sum(axis=1, keepdims=True), 1)).max(axis=0))

    def infeasible(self, online: Bools, lost: Bools, wanted: Instance) -> bool:
        """Whether no moves whatever bring the primaries of lost nodes to those that are online and leave room
        for what is wanted on each of these.

        Some instance may be stuck; else memory or CPUs of all online nodes together are too little.
        """
        if (self.stuck & lost).any():
            return True
        asked = self.state.requested_instance(wanted)
        needed = np.array([amount(asked) for _, _, amount in ADDED_UP]) * np.count_nonzero(online)
        return bool((self.room[:, online].sum(axis=1) < self.taken[:, lost].sum(axis=1) + needed).any())

    def breaks_redundancy(self, online: Bools, lost: Bools) -> bool:
        """Whether some online node could not be lost, wherever instances are; they all have to come back.

        What is free on the others has to be what it has, so what is free on all of them as much as it has
        room for at all.
        """
        left = self.room[0, online].sum() - self.taken[0, lost].sum()
        return bool(left < (self.room[0] + self.taken[0])[online].max(initial=0))


def squeeze_bounds(state: State, scope: Bools, leaving: Bools) -> SqueezeBounds:
    """The sums of the nodes in scope, whose instances may leave them or not."""
    here = np.flatnonzero(scope[state.pnode])
    nodes, hosts = len(scope), state.pnode[here]
    asked = [state.instance(row) for row in here.tolist()]
    taken = [
        np.bincount(hosts, [amount(each) for each in asked], nodes).astype(np.int64)
        for _, _, amount in ADDED_UP
    ]
    room = [_room(state.columns, limit, figure) for limit, figure, _ in ADDED_UP]
    stuck = np.bincount(hosts, ~leaving[here], nodes) > 0
    return SqueezeBounds(state, np.array(room), np.array(taken), stuck)


def _room(columns: Columns, limit: Limit, figure: str) -> Ints:
    """How much instances may take of each node until a limit breaks, far too much where it does not hold."""
    room: Floats = -1.0 * limit.missing(getattr(columns, figure), columns, columns)
    if limit.applies is not None:
        room = np.where(limit.applies(columns), room, MAX_MIB)
    if limit.per is not None:  # the limit looks at a ratio, which may be rounded
        room = np.where(getattr(columns, limit.per) > 0, room + 1, MAX_MIB)
    return np.floor(room).astype(np.int64)
