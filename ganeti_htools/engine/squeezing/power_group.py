"""One node group, and its state after sets of its nodes are powered down or up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from ganeti_htools.engine.balancing import shared_storage
from ganeti_htools.engine.balancing.balance import candidates, stepwise
from ganeti_htools.engine.balancing.replay import Replay
from ganeti_htools.engine.balancing.shared_instances import SharedInstances, regular, shared_instances
from ganeti_htools.engine.rules.batches import balanced
from ganeti_htools.engine.rules.limits import Limit
from ganeti_htools.engine.rules.resources import CPU_RATIO, MEMORY, VIEWS
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import lacks_master_candidates
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, Phase, PowerPlan, Progress, silent
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import MirrorType
from ganeti_htools.model.wording import counted

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


# Balance to the end: every step with a gain. Instances without a mirror only leave nodes.
TO_THE_END = BalancingOptions(min_gain=0.0, min_gain_limit=0.0, min_score=-np.inf, unmirrored=True)

# Nodes times movable instances: in larger groups the table of shared storage costs more than it saves.
LARGE = 60_000

LAST_CANDIDATES = "is one of the last master candidates"
NO_PLACE = "its instances find no place"
NO_ROOM = "the others have no room for its instances and the target resources"
TARGET = "others would not keep the target resources free"
ALONE = "a node would be left alone"
NOT_REDUNDANT = "the group would not hold N+1"


@dataclass(frozen=True, slots=True)
class PowerGroup:
    """One group (``scope``) of a state and its movable instances.

    ``minimum`` and ``target`` are instances that must fit on each node. A ``large`` group takes too long to
    be balanced anew for each node.
    """

    state: State
    scope: Bools
    movable: Bools
    shared: SharedInstances | None
    bounds: SqueezeBounds
    minimum: Instance
    target: Instance
    large: bool = False
    allowed: AllowedMoves = AllowedMoves.POOLS
    progress: Progress = silent

    def within(self, nodes: Ints) -> list[int]:
        """Return the nodes that are in the group."""
        found: list[int] = nodes[self.scope[nodes]].tolist()
        return found

    def on_state(self, state: State) -> "PowerGroup":
        return power_group(
            state, self.scope, self.movable, self.minimum, self.target, self.allowed, self.progress
        )

    def balanced(self, nodes: Sequence[int], offline: bool) -> tuple[State, tuple[Move, ...]]:
        """Set nodes offline or online and balance; returns the state and all steps."""
        marked = with_power(self.state, nodes, offline)
        if marked.columns.offline[self.scope].all():
            return marked, ()
        if self.shared is not None and regular(marked, self.scope):
            state, steps = shared_storage.rebalance_shared(marked, self.scope, self.shared)
            return state, tuple(steps)
        state, made, homeless = marked.copy(), list[Move](), self._homeless(marked)
        for step in stepwise(state, self.scope, TO_THE_END, self.movable, rough=offline):
            made.append(step)
            if self.large:
                moved = f"{homeless - self._homeless(state)} of {homeless} instances moved"
                self.progress(f"emptying {counted(len(nodes), 'node')}: {moved}")
        return state, tuple(made)

    def _homeless(self, state: State) -> int:
        """Count the instances of the group on nodes that are offline."""
        lost = state.columns.offline & self.scope
        return int(np.count_nonzero(lost[state.pnode] | secondaries_on(state, lost)))

    def plan_without(self, nodes: Sequence[int]) -> PowerPlan:
        """Return a plan that powers these nodes down at once, without any check."""
        state, steps = self.balanced(nodes, True)
        return PowerPlan((Phase(Action.OFFLINE, tuple(nodes), steps),), state)

    def housed(self, state: State) -> bool:
        """Whether all instances of the group are on online nodes."""
        lost = state.columns.offline & self.scope
        mirrors = self.allowed is not AllowedMoves.POOLS and secondaries_on(state, lost).any()
        return not (lost[state.pnode].any() or mirrors)

    def keeps_free(self, state: State, wanted: Instance) -> bool:
        """Whether all instances of the group are on online nodes, and each node has room for ``wanted``."""
        return self.housed(state) and reserve.room_on_all(state, self.scope, [wanted] * len(state.policies))

    def obstacle(self, state: State) -> str | None:
        """Return the reason why the remaining nodes do not suffice on a state, or None."""
        if lacks_master_candidates(self.state, ~state.columns.offline):
            return LAST_CANDIDATES
        if not self.housed(state):
            lost = state.columns.offline & self.scope
            homeless = np.flatnonzero(lost[state.pnode] | secondaries_on(state, lost)).tolist()
            return f"{NO_PLACE}: {first_names(state.instance_names(homeless))}"
        if not self.keeps_free(state, self.target):
            return TARGET
        if reserve.is_empty(self.target):
            return None
        if np.count_nonzero(self.scope & ~state.columns.offline) < 2:
            return ALONE
        return None if reserve.holds_n1(state, self.scope, self.state) else NOT_REDUNDANT

    def executable(self, plan: PowerPlan) -> PowerPlan | None:
        """Return a plan of one phase in the form that keeps N+1 at every step, or None.

        N+1 must hold whenever nodes are drained and after each step. Nodes are drained late only if needed.
        """
        (phase,) = plan.phases
        mirrored = frozenset(np.flatnonzero(nodes_with_mirrors(self.state)).tolist()).intersection(
            phase.nodes
        )
        for late in (frozenset[int](), mirrored) if mirrored else (mirrored,):
            steps = self._exact_steps(phase.nodes, late, phase.steps)
            if steps is not None:
                return replace(plan, phases=(replace(phase, late=late, steps=steps),))
        return None

    def _exact_steps(
        self, nodes: Sequence[int], late: frozenset[int], steps: Sequence[Move]
    ) -> tuple[Move, ...] | None:
        """Make the steps, with exact scores; None unless N+1 holds when nodes are drained and after each.

        A set that stays together counts as one step.
        """
        marked = with_power(self.state, nodes, True)
        way = Replay(marked, self.scope, TO_THE_END, candidates(marked, self.scope, self.movable))
        waiting = np.isin(np.arange(len(self.scope)), list(late))
        drained = self.state.columns.offline
        for step in (None, *steps):
            if step is not None:
                if not way.remake(step):
                    return None
                if step.with_next:
                    continue
                if not self._redundant(way.state, drained):
                    return None
            before, drained = drained, drained_nodes(way.state, waiting)
            if not (np.array_equal(before, drained) or self._redundant(way.state, drained)):
                return None
        return tuple(way.steps)

    def _redundant(self, state: State, offline: Bools) -> bool:
        """Whether a state holds N+1 with these nodes offline, if the group must hold it.

        A mirror on a drained node does not count.
        """
        if reserve.is_empty(self.target):
            return True
        columns = state.columns._replace(offline=offline)
        return reserve.holds_n1(replace(state, columns=columns), self.scope, self.state)

    def infeasible(self, nodes: Sequence[int], offline: bool, wanted: Instance) -> str | None:
        """Return the reason why no moves make room and keep all instances on online nodes; None if some
        may.

        With nodes set offline, also if no moves keep N+1.
        """
        off = self.state.columns.offline.copy()
        off[list(nodes)] = offline
        online, lost = self.scope & ~off, self.scope & off
        if lacks_master_candidates(self.state, ~off):
            return LAST_CANDIDATES
        if self.bounds.infeasible(online, lost, wanted):
            return NO_ROOM
        binds = self.state.binds  # unrecoverable instances need no room
        if not offline or reserve.is_empty(wanted) or binds or np.count_nonzero(online) < 2:
            return None
        return NOT_REDUNDANT if self.bounds.breaks_redundancy(online, lost) else None

    def stranded(self, nodes: Sequence[int]) -> str | None:
        """Return the reason why balancing finds no place for certain instances of these nodes; None if it
        may.
        """
        off = self.state.columns.offline.copy()
        off[list(nodes)] = True
        stranded = self.bounds.stranded(self.scope & ~off, self.scope & off, self.target)
        return NO_PLACE if stranded else None


def power_group(
    state: State,
    scope: Bools,
    movable: Bools,
    minimum: Instance,
    target: Instance,
    allowed: AllowedMoves = AllowedMoves.POOLS,
    progress: Progress = silent,
) -> PowerGroup:
    """Return the group in scope; ``movable`` instances move if ``allowed``.

    Instances without a mirror cannot be copied from nodes that are off.
    """
    rows = state.cluster.instances
    alone = np.array([row.template.mirror is MirrorType.NONE for row in rows], np.bool_)
    free = ~state.columns.offline[state.pnode] & ~state.forthcoming & (allowed is AllowedMoves.ALL)
    here: Bools = movable & scope[state.pnode] & (~alone | free)
    leaving = here & np.array([row.auto_balance for row in rows], np.bool_)
    large = np.count_nonzero(scope) * np.count_nonzero(here) > LARGE
    shared = None if large or (alone & here).any() else shared_instances(state, here)
    bounds = squeeze_bounds(state, scope, leaving)
    return PowerGroup(state, scope, here, shared, bounds, minimum, target, bool(large), allowed, progress)


def secondaries_on(state: State, nodes: Bools) -> Bools:
    """Mark the instances whose secondaries are on these nodes."""
    found: Bools = nodes[state.snode] & (state.snode != NOWHERE) & ~state.forthcoming
    return found


def nodes_with_mirrors(state: State) -> Bools:
    """Mark the nodes with mirrored instances, primary or secondary."""
    found = np.zeros(len(state.group), np.bool_)
    rows = (state.snode != NOWHERE) & ~state.forthcoming
    found[state.pnode[rows]] = found[state.snode[rows]] = True
    return found


def drained_nodes(state: State, late: Bools) -> Bools:
    """Return the offline nodes of a state, without the ``late`` ones that still have mirrored instances."""
    drained: Bools = state.columns.offline & ~(late & nodes_with_mirrors(state))
    return drained


def with_power(state: State, nodes: Sequence[int], offline: bool) -> State:
    state = state.copy()
    state.columns.offline[list(nodes)] = offline
    rows = list(state.cluster.nodes)
    for node in nodes:
        rows[node] = replace(rows[node], offline=offline)
    state.cluster = replace(state.cluster, nodes=tuple(rows))
    return state
