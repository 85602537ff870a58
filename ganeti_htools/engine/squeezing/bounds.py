"""Bounds by sums: prove that a set of nodes cannot be powered down, or does not suffice."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from ganeti_htools.engine.rules.batches import balanced
from ganeti_htools.engine.rules.limits import Limit
from ganeti_htools.engine.rules.resources import CPU_RATIO, MEMORY, VIEWS
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import Bools, Columns, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State

# Amounts whose sums bound all nodes together: a limit, its figure, and the amount that an instance takes.
ADDED_UP: tuple[tuple[Limit, str, Callable[[RequestedInstance], int]], ...] = (
    (MEMORY, "unallocated", attrgetter("record_mem")),
    (MEMORY, VIEWS["unallocated"], attrgetter("mem")),
    (CPU_RATIO, "u_cpu", attrgetter("vcpus")),
)


@dataclass(frozen=True, slots=True)
class SqueezeBounds:
    """Free room and primaries' use of each node (by :data:`ADDED_UP` and node).

    ``stuck`` marks nodes with primaries that cannot leave, ``unbalanced`` those with primaries that balancing
    never moves. Primaries never leave the ``closed`` sets of nodes (sets by nodes).
    """

    state: State
    room: Ints
    taken: Ints
    stuck: Bools
    unbalanced: Bools
    closed: Bools

    @property
    def size(self) -> Floats:
        """The size of each node: its largest share of any total amount."""
        room = self.room + self.taken
        return np.asarray((room / np.maximum(room.sum(axis=1, keepdims=True), 1)).max(axis=0))

    def infeasible(self, online: Bools, lost: Bools, wanted: Instance) -> bool:
        """Whether no moves bring the primaries of lost nodes to online nodes and leave each ``wanted``
        free.

        Either an instance cannot leave, or the online nodes together lack memory or CPUs.
        """
        return bool((self.stuck & lost).any()) or self._overfull(online, lost, wanted)

    def stranded(self, online: Bools, lost: Bools, wanted: Instance) -> bool:
        """Whether balancing strands a primary of lost nodes, or leaves no ``wanted`` free on an online node.

        Either it moves none of some template, or the nodes to which primaries may migrate together lack
        memory or CPUs.
        """
        if (self.unbalanced & lost).any():
            return True
        return any(self._overfull(online & some, lost & some, wanted) for some in self.closed)

    def _overfull(self, online: Bools, lost: Bools, wanted: Instance) -> bool:
        """Whether online nodes lack memory or CPUs for primaries of lost nodes, and for each ``wanted``."""
        asked = self.state.requested_instance(wanted)
        needed = np.array([amount(asked) for _, _, amount in ADDED_UP]) * np.count_nonzero(online)
        return bool((self.room[:, online].sum(axis=1) < self.taken[:, lost].sum(axis=1) + needed).any())

    def breaks_redundancy(self, online: Bools, lost: Bools) -> bool:
        """Whether some online node cannot be lost, wherever instances are.

        All instances must be recovered, so the other nodes' free memory must cover the whole node: the free
        memory of all online nodes must be at least the capacity of the largest.
        """
        left = self.room[0, online].sum() - self.taken[0, lost].sum()
        return bool(left < (self.room[0] + self.taken[0])[online].max(initial=0))


def squeeze_bounds(state: State, scope: Bools, leaving: Bools) -> SqueezeBounds:
    """Compute the bounds of the nodes in scope. ``leaving`` marks instances that may leave their nodes."""
    here = np.flatnonzero(scope[state.pnode])
    nodes, hosts = len(scope), state.pnode[here]
    asked = [state.instance(row) for row in here.tolist()]
    taken = [
        np.bincount(hosts, [amount(each) for each in asked], nodes).astype(np.int64)
        for _, _, amount in ADDED_UP
    ]
    room = [_room(state.columns, limit, figure) for limit, figure, _ in ADDED_UP]
    internal, external, alone = balanced(state)
    stuck = np.bincount(hosts, ~leaving[here], nodes) > 0
    unbalanced = np.bincount(hosts, ~(internal | external | alone)[here], nodes) > 0
    closed = np.zeros((0, nodes), np.bool_) if (alone & leaving).any() else _closed(state)
    return SqueezeBounds(state, np.array(room), np.array(taken), stuck, unbalanced, closed)


def _closed(state: State) -> Bools:
    """Find the sets of nodes that instances cannot leave by migrations, for each node the smallest."""
    allowed = state.allowed_migrations
    if allowed is None:
        return np.zeros((0, len(state.group)), np.bool_)
    # Nodes that migrate to and from the same nodes count as one.
    alike = np.concatenate([allowed, allowed.T], axis=1)
    _, first, kind = np.unique(alike, axis=0, return_index=True, return_inverse=True)
    reach = allowed[np.ix_(first, first)] | np.eye(len(first), dtype=np.bool_)
    for _ in range(len(first).bit_length()):  # ways of one step, two, four and so on
        reach = reach @ reach
    return np.unique(reach, axis=0)[:, kind.ravel()]


def _room(columns: Columns, limit: Limit, figure: str) -> Ints:
    """Return the room of each node until a limit breaks, practically infinite where it does not apply."""
    room: Floats = -1.0 * limit.missing(getattr(columns, figure), columns, columns)
    if limit.applies is not None:
        room = np.where(limit.applies(columns), room, MAX_MIB)
    if limit.per is not None:  # the limit looks at a ratio, which may be rounded
        room = np.where(getattr(columns, limit.per) > 0, room + 1, MAX_MIB)
    return np.floor(room).astype(np.int64)
