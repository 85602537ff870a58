"""One node group, and what becomes of it when sets of its nodes are powered down or up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from ganeti_htools.engine.balancing import shared_storage
from ganeti_htools.engine.balancing.balance import Balancing, Step, candidates, rebalance
from ganeti_htools.engine.balancing.replay import Replay
from ganeti_htools.engine.balancing.shared_instances import SharedInstances, regular, shared_instances
from ganeti_htools.engine.rules.resources import CPU_RATIO, MEMORY, VIEWS, Limit
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.power_plan import PowerPlan
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import Mirror

# Of what instances take no more than there is on all nodes together: limits, the figures that they are about,
# and what an instance takes.
ADDED_UP: tuple[tuple[Limit, str, Callable[[Asked], int]], ...] = (
    (MEMORY, "unallocated", attrgetter("record_mem")),
    (MEMORY, VIEWS["unallocated"], attrgetter("mem")),
    (CPU_RATIO, "u_cpu", attrgetter("vcpus")),
)

# To the end: every step that gains anything.
TO_THE_END = Balancing(min_gain=0.0, min_gain_limit=0.0, min_score=-np.inf)


@dataclass(frozen=True, slots=True)
class PowerGroup:
    """One group (``scope``) of a state, to try sets of nodes on, and the instances that may be moved.

    ``minimum`` and ``target`` are what has to be free on each node.
    """

    state: State
    scope: Bools
    movable: Bools
    shared: SharedInstances | None
    minimum: Instance
    target: Instance
    drbd: bool = False

    def of(self, nodes: Ints) -> list[int]:
        """Those of the nodes that are in the group."""
        found: list[int] = nodes[self.scope[nodes]].tolist()
        return found

    def then(self, state: State) -> "PowerGroup":
        """The group on another state."""
        return power_group(state, self.scope, self.movable, self.minimum, self.target, self.drbd)

    def balanced(self, nodes: Sequence[int], offline: bool) -> tuple[State, tuple[Step, ...]]:
        """With these nodes set offline or online, and all steps that balancing then makes."""
        marked = switched(self.state, nodes, offline)
        if marked.columns.offline[self.scope].all():
            return marked, ()
        if self.shared is not None and regular(marked, self.scope):
            state, steps = shared_storage.rebalance(marked, self.scope, self.shared)
        else:
            state, steps = rebalance(marked, self.scope, TO_THE_END, self.movable)
        return state, tuple(steps)

    def housed(self, state: State) -> bool:
        """Whether the group's instances are on online nodes on a state."""
        lost = state.columns.offline & self.scope
        return not (lost[state.pnode].any() or (self.drbd and self.mirrors_on(state, lost)))

    def mirrors_on(self, state: State, nodes: Bools) -> bool:
        """Whether nodes are secondaries of instances on a state."""
        return bool((nodes[state.snode] & (state.snode != NOWHERE) & ~state.forthcoming).any())

    def leaves(self, state: State, wanted: Instance) -> bool:
        """Whether the group's instances are on online nodes on a state, each with room for another."""
        return self.housed(state) and reserve.room_on_all(state, self.scope, [wanted] * len(state.policies))

    def hindrance(self, state: State) -> str | None:
        """Why what is left of the group on a state is not enough; None if it is."""
        if not self.housed(state):
            return "its instances find no place"
        if not self.leaves(state, self.target):
            return "others would not keep the target resources free"
        if reserve.nothing_kept(self.target):
            return None
        if np.count_nonzero(self.scope & ~state.columns.offline) < 2:
            return "a node would be left alone"
        return None if reserve.redundant(state, self.scope) else "the group would not hold N+1"

    def can_be_made(self, found: PowerPlan) -> bool:
        """Whether a plan can be made with all its nodes drained, and N+1 holds after each step."""
        anyway = reserve.nothing_kept(self.target)
        marked = switched(self.state, found.nodes, True)
        way = Replay(marked, self.scope, TO_THE_END, candidates(marked, self.scope, self.movable))
        return all(
            way.make(step.instance, step.kind, step.node)
            and (anyway or reserve.redundant(way.state, self.scope))
            for step in found.steps
        )

    def hopeless(self, nodes: Sequence[int], offline: bool, wanted: Instance) -> bool:
        """Whether no moves whatever make room and leave all instances on online nodes.

        Some instance may be stuck; else memory or CPUs of all online nodes together are too little.
        """
        state = switched(self.state, nodes, offline)
        columns, rows = state.columns, state.cluster.instances
        online, lost = self.scope & ~columns.offline, self.scope & columns.offline
        leaving = np.flatnonzero(lost[state.pnode])
        stuck = [not rows[row].auto_balance or rows[row].template.mirror is Mirror.NONE for row in leaving]
        if any(stuck) or not self.movable[leaving].all():
            return True
        asked, moved = state.ask(wanted), [state.instance(row) for row in leaving.tolist()]
        return any(
            _room(columns, limit, figure)[online].sum()
            < sum(map(amount, moved)) + amount(asked) * np.count_nonzero(online)
            for limit, figure, amount in ADDED_UP
        )


def power_group(
    state: State, scope: Bools, movable: Bools, minimum: Instance, target: Instance, drbd: bool = False
) -> PowerGroup:
    """The group in scope; instances in it that are ``movable`` may be moved."""
    here: Bools = movable & scope[state.pnode]
    return PowerGroup(state, scope, here, shared_instances(state, here), minimum, target, drbd)


def switched(state: State, nodes: Sequence[int], offline: bool) -> State:
    """A state of its own, with these nodes offline or online."""
    state = state.copy()
    state.columns.offline[list(nodes)] = offline
    rows = list(state.cluster.nodes)
    for node in nodes:
        rows[node] = replace(rows[node], offline=offline)
    state.cluster = replace(state.cluster, nodes=tuple(rows))
    return state


def _room(columns: Columns, limit: Limit, figure: str) -> Ints:
    """How much instances may take of each node until a limit breaks, far too much where it does not hold."""
    room: Floats = -1.0 * limit.missing(getattr(columns, figure), columns, columns)
    if limit.applies is not None:
        room = np.where(limit.applies(columns), room, MAX_MIB)
    if limit.per is not None:  # the limit looks at a ratio, which may be rounded
        room = np.where(getattr(columns, limit.per) > 0, room + 1, MAX_MIB)
    return np.floor(room).astype(np.int64)
