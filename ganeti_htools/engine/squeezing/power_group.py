"""One node group, and its state after sets of its nodes are powered down or up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.balancing import shared_storage
from ganeti_htools.engine.balancing.balance import candidates, rebalance
from ganeti_htools.engine.balancing.replay import Replay
from ganeti_htools.engine.balancing.shared_instances import SharedInstances, regular, shared_instances
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.bounds import SqueezeBounds, squeeze_bounds
from ganeti_htools.engine.squeezing.candidates import lacks_master_candidates
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, Phase, PowerPlan
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

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

    def within(self, nodes: Ints) -> list[int]:
        """Return the nodes that are in the group."""
        found: list[int] = nodes[self.scope[nodes]].tolist()
        return found

    def on_state(self, state: State) -> "PowerGroup":
        """Return the group on another state."""
        return power_group(state, self.scope, self.movable, self.minimum, self.target, self.allowed)

    def balanced(self, nodes: Sequence[int], offline: bool) -> tuple[State, tuple[Move, ...]]:
        """Set nodes offline or online and balance; returns the state and all steps."""
        marked = with_power(self.state, nodes, offline)
        if marked.columns.offline[self.scope].all():
            return marked, ()
        if self.shared is not None and regular(marked, self.scope):
            state, steps = shared_storage.rebalance(marked, self.scope, self.shared)
        else:
            state, steps = rebalance(marked, self.scope, TO_THE_END, self.movable, rough=offline)
        return state, tuple(steps)

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
            return f"{NO_PLACE}: {first_names([state.cluster.instances[row].name for row in homeless])}"
        if not self.keeps_free(state, self.target):
            return TARGET
        if reserve.is_empty(self.target):
            return None
        if np.count_nonzero(self.scope & ~state.columns.offline) < 2:
            return ALONE
        return None if reserve.redundant(state, self.scope, self.state) else NOT_REDUNDANT

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
        return reserve.redundant(replace(state, columns=columns), self.scope, self.state)

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
    return PowerGroup(state, scope, here, shared, bounds, minimum, target, bool(large), allowed)


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
    """Return a copy of a state with these nodes offline or online."""
    state = state.copy()
    state.columns.offline[list(nodes)] = offline
    rows = list(state.cluster.nodes)
    for node in nodes:
        rows[node] = replace(rows[node], offline=offline)
    state.cluster = replace(state.cluster, nodes=tuple(rows))
    return state
