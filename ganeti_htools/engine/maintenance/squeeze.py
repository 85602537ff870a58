"""Which nodes to power down, and which to power up again (``hsqueeze(1)``).

A set of nodes can be powered down if, once they count as offline, balancing brings every instance to
an online node and leaves room on each node for an instance of a given size; it suffices to power a
set of nodes up if then the same holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import zip_longest
from operator import attrgetter

import numpy as np

from ganeti_htools.engine.balancing import recheck, shared_storage
from ganeti_htools.engine.balancing.balance import Balancing, Step, candidates, rebalance
from ganeti_htools.engine.balancing.recheck import NamedStep
from ganeti_htools.engine.balancing.replay import Replay
from ganeti_htools.engine.balancing.shared_instances import SharedInstances, regular, shared_instances
from ganeti_htools.engine.redundancy.check import fragile_nodes
from ganeti_htools.engine.redundancy.global_n1 import unproved
from ganeti_htools.engine.redundancy.n1 import bad_nodes
from ganeti_htools.engine.redundancy.node_loss import recover
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.resources import CPU_RATIO, MEMORY, VIEWS, Limit
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints, sorted_unique
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.tags import standby
from ganeti_htools.model.types import DiskTemplate, Mirror

# Of what instances take no more than there is on all nodes together: limits, the figures that they are about,
# and what an instance takes.
ADDED_UP: tuple[tuple[Limit, str, Callable[[Asked], int]], ...] = (
    (MEMORY, "unallocated", attrgetter("record_mem")),
    (MEMORY, VIEWS["unallocated"], attrgetter("mem")),
    (CPU_RATIO, "u_cpu", attrgetter("vcpus")),
)

# To the end: every step that gains anything.
TO_THE_END = Balancing(min_gain=0.0, min_gain_limit=0.0, min_score=-np.inf)


class Action(Enum):
    """What is to be done with the nodes of a plan."""

    NOTHING = "nothing"
    OFFLINE = "offline"
    ONLINE = "online"


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """Rows of the nodes to power down or up, the moves that go with it, and the state afterwards.

    ``enough`` is False if the room asked for cannot be had with all nodes that may be powered up. ``kept``
    says of nodes that were tried why they are not powered down.
    """

    action: Action
    nodes: tuple[int, ...]
    steps: tuple[Step, ...]
    state: State
    enough: bool = True
    kept: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Nodes (rows) that are powered down before others, those that never are, and how many at most (None:
    any number). ``drbd``: also nodes with DRBD instances, or secondaries of them.
    """

    prefer: frozenset[int] = frozenset()
    never: frozenset[int] = frozenset()
    most: int | None = None
    drbd: bool = False


ANY = Wishes()


# What has to be free on each node of a group, by the group's row: an instance that is not placed.
Wanted = Sequence[Instance]

# Called with how many candidates have been tried, and how many there are.
Progress = Callable[[int, int], None]


def staying(state: State, drbd: bool = False) -> dict[int, str]:
    """Why nodes cannot be powered down at all, by their rows; ``drbd`` as in :class:`Wishes`."""
    settled = ~state.forthcoming
    templates = [row.template for row in state.cluster.instances]
    fixed = [each.local_storage and not (drbd and each is DiskTemplate.DRBD) for each in templates]
    local = settled & np.array(fixed, np.bool_)
    hosts = set(state.pnode[local].tolist())
    mirrors = set(state.snode[settled & (state.snode >= 0)].tolist())
    reasons: dict[int, str] = {}
    for row, node in enumerate(state.cluster.nodes):
        if node.master:
            reasons[row] = "is the master"
        elif state.columns.offline[row]:
            reasons[row] = "is offline or drained"
        elif row in hosts:
            reasons[row] = "has instances on its own storage"
        elif row in mirrors and not drbd:
            reasons[row] = "is secondary node of instances"
    return reasons


def offline_candidates(state: State, drbd: bool = False) -> Ints:
    """Nodes that may be powered down, those with most instances first.

    They are online, not the master, secondary of no instance and have only instances without local
    storage; with ``drbd`` they may have DRBD instances as primary or secondary.
    """
    kept = staying(state, drbd)
    rows = np.array([row for row in range(len(state.group)) if row not in kept], np.int64)
    hosted = np.bincount(state.pnode[~state.forthcoming], minlength=len(state.group))
    return rows[np.argsort(-hosted[rows], kind="stable")]


def online_candidates(state: State) -> Ints:
    """Nodes that may be powered up: offline, with a standby tag."""
    tagged = np.array([standby(node.tags) for node in state.cluster.nodes], np.bool_)
    return np.flatnonzero(state.columns.offline & tagged)


def room_on_all(state: State, scope: Bools, wanted: Wanted) -> bool:
    """Whether each single online node in scope could take what its group wants to be free.

    Nodes that are offline say nothing about the room of the others, and have no figures on a live cluster.
    """
    online = scope & ~state.columns.offline
    for group in sorted_unique(state.group[online]).tolist():
        _, codes = node_rules.add_primary(state.columns, state.ask(wanted[group]), 0, 0)
        if not (codes == FITS)[online & (state.group == group)].all():
            return False
    return True


def redundant(state: State, scope: Bools) -> bool:
    """Whether the group in scope holds N+1: its nodes keep what their mirrors need, and any can be lost.

    Unlike with ``hcheck(1)`` nodes that are offline take nothing. Those of them with instances can be lost,
    too. Where instances are bound to storage units, the only other node that has one must not go.
    """
    online = scope & ~state.columns.offline
    if bad_nodes(state, scope).any() or fragile_nodes(state, online).any():
        return False
    hosts = scope & (state.columns.primaries > 0)
    tried = np.flatnonzero(hosts if state.columns.shape.binds else hosts & ~online)
    return all(
        recovery.node != NOWHERE
        for node in unproved(state, tried, np.flatnonzero(online)).tolist()
        for recovery in recover(state.copy(), node, scope, ~state.columns.offline)
    )


def nothing_kept(wanted: Instance) -> bool:
    """Whether nothing at all is to be kept free, and so no N+1 either (``--target-resources=0``)."""
    return not (wanted.mem or wanted.vcpus or wanted.dsk)


def obstacle(
    state: State,
    action: Action,
    nodes: Sequence[str],
    steps: Sequence[NamedStep],
    wanted: Wanted | None,
    movable: Bools,
) -> str | None:
    """Why the rest of a plan cannot be carried out on a state; None if it can.

    ``nodes`` are those that are still to be powered down, or up; nodes that are powered down have to be
    empty by then. There has to be room for ``wanted`` on all nodes of their groups that remain, or on all
    nodes once others are powered up; if it is None, the plan does not promise any.
    """
    gone = [name for name in nodes if name not in state.nodes]
    if gone:
        return f"node {gone[0]} is gone"
    rows = [state.nodes[name] for name in nodes]
    down = action is Action.OFFLINE
    for name, row in zip(nodes, rows, strict=True):
        if down and state.cluster.nodes[row].master:
            return f"node {name} is the master"
        if down and state.columns.offline[row]:
            return f"node {name} is offline or drained"
        if not down and row not in online_candidates(state):
            return f"node {name} is not offline with a standby tag"
    for step in steps:
        touched = [state.nodes[name] for name in (*step.was, *step.now) if name in state.nodes]
        if len(set(state.group[touched].tolist())) > 1:
            return f"instance {step.instance} would leave its group"
    marked = switched(state, rows, down)
    everywhere = np.ones(len(state.group), np.bool_)
    problem = recheck.obstacle(marked, everywhere, steps, TO_THE_END, movable)
    if problem:
        return problem
    if not down:
        enough = wanted is None or room_on_all(marked, everywhere, wanted)
        return None if enough else "nodes would not have the minimal resources free"
    emptied = np.isin(marked.pnode, rows) | np.isin(marked.snode, rows)
    for left in np.flatnonzero(emptied & ~marked.forthcoming).tolist():
        return f"instance {state.cluster.instances[left].name} would be left on a node that is powered down"
    groups = np.isin(marked.group, marked.group[rows])
    if wanted is None:
        return None
    if not room_on_all(marked, groups, wanted):
        return "nodes would not keep the target resources free"
    for group in sorted_unique(marked.group[rows]).tolist():
        if not nothing_kept(wanted[group]) and not redundant(marked, marked.group == group):
            return f"group {marked.cluster.groups[group].name} would not hold N+1"
    return None


def plan(
    state: State,
    minimum: Wanted,
    target: Wanted,
    movable: Bools,
    progress: Progress = lambda _a, _b: None,
    wishes: Wishes = ANY,
) -> PowerPlan:
    """Power nodes up if not every node has room for ``minimum``, else down as far as ``target`` allows.

    Each node group is planned by itself: no instance leaves it. As long as groups need nodes, none is
    powered down, and none of a group that does not hold N+1. ``target`` is at least ``minimum``: what has
    been powered down once is not powered up again as long as instances stay as they are, and of a cluster
    that was powered down nothing more is.
    """
    scopes: list[Bools] = [state.group == row for row in np.unique(state.group)]
    lacking = [scope for scope in scopes if not room_on_all(state, scope, minimum)]
    parts = [PowerPlan(Action.NOTHING, (), (), state)]
    for scope in lacking or scopes:
        row = int(state.group[scope][0])
        group = _power_group(parts[-1].state, scope, movable, minimum[row], target[row], wishes.drbd)
        if lacking:
            parts.append(_power_up(group, progress))
            continue
        done = sum(len(part.nodes) for part in parts)
        left = None if wishes.most is None else max(0, wishes.most - done)
        parts.append(_power_down_to_rest(group, progress, replace(wishes, most=left)))
    nodes = tuple(node for part in parts for node in part.nodes)
    action = Action.ONLINE if lacking else Action.OFFLINE if nodes else Action.NOTHING
    enough = all(part.enough for part in parts)
    kept = {node: why for part in parts for node, why in part.kept.items() if node not in nodes}
    steps = _alternating([part.steps for part in parts])
    return PowerPlan(action, nodes, steps, parts[-1].state, enough, kept)


def _alternating(plans: Sequence[Sequence[Step]]) -> tuple[Step, ...]:
    """The steps of plans that do not concern each other, so that as many as possible can run at once."""
    return tuple(step for steps in zip_longest(*plans) for step in steps if step is not None)


@dataclass(frozen=True, slots=True)
class _PowerGroup:
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

    def then(self, state: State) -> "_PowerGroup":
        """The group on another state."""
        return _power_group(state, self.scope, self.movable, self.minimum, self.target, self.drbd)

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
        return self.housed(state) and room_on_all(state, self.scope, [wanted] * len(state.policies))

    def hindrance(self, state: State) -> str | None:
        """Why what is left of the group on a state is not enough; None if it is."""
        if not self.housed(state):
            return "its instances find no place"
        if not self.leaves(state, self.target):
            return "others would not keep the target resources free"
        if nothing_kept(self.target):
            return None
        if np.count_nonzero(self.scope & ~state.columns.offline) < 2:
            return "a node would be left alone"
        return None if redundant(state, self.scope) else "the group would not hold N+1"

    def can_be_made(self, found: PowerPlan) -> bool:
        """Whether a plan can be made with all its nodes drained, and N+1 holds after each step."""
        anyway = nothing_kept(self.target)
        marked = switched(self.state, found.nodes, True)
        way = Replay(marked, self.scope, TO_THE_END, candidates(marked, self.scope, self.movable))
        return all(
            way.make(step.instance, step.kind, step.node) and (anyway or redundant(way.state, self.scope))
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


def _power_group(
    state: State, scope: Bools, movable: Bools, minimum: Instance, target: Instance, drbd: bool = False
) -> _PowerGroup:
    here: Bools = movable & scope[state.pnode]
    return _PowerGroup(state, scope, here, shared_instances(state, here), minimum, target, drbd)


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


def _of(group: _PowerGroup, nodes: Ints) -> list[int]:
    found: list[int] = nodes[group.scope[nodes]].tolist()
    return found


def _power_down_to_rest(group: _PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """Power down, and what can be powered down once that is done, until nothing more can.

    Balancing starts anew from where the moves lead, and may find what it did not find before.
    """
    nothing = PowerPlan(Action.NOTHING, (), (), group.state)
    if not nothing_kept(group.target) and not redundant(group.state, group.scope):
        possible = _of(group, offline_candidates(group.state, group.drbd))
        return replace(nothing, kept=dict.fromkeys(possible, "the group does not hold N+1"))
    kept: dict[int, str] = {}
    plans = [nothing, *_power_down(group, progress, wishes, kept)]
    while found := plans[-1].nodes:
        left = None if wishes.most is None else wishes.most - len(found)
        more = _power_down(group.then(plans[-1].state), progress, replace(wishes, most=left), kept)
        if not more:
            break
        nodes = (*more[-1].nodes, *found)
        state, steps = group.balanced(nodes, True)  # at once, if that leads there with fewer moves
        if group.hindrance(state) is not None:
            state, steps = more[-1].state, (*plans[-1].steps, *more[-1].steps)
        plans.append(PowerPlan(Action.OFFLINE, nodes, steps, state))
    best = next((each for each in reversed(plans) if group.can_be_made(each)), nothing)
    lost = {node: "N+1 would not hold on the way" for node in plans[-1].nodes if node not in best.nodes}
    return replace(best, kept=kept | lost)


def _power_down(
    group: _PowerGroup, progress: Progress, wishes: Wishes, kept: dict[int, str]
) -> list[PowerPlan]:
    """Of the candidates, those that are preferred, then those with fewest instances first, each that can join
    those before it.

    The result is a plan for each that joined, with those before it; ``kept`` gets the reasons of the others.
    """
    possible = _of(group, offline_candidates(group.state, group.drbd)[::-1])
    plans: list[PowerPlan] = []
    for tried, node in enumerate(sorted(possible, key=lambda row: row not in wishes.prefer)):
        progress(tried, len(possible))
        nodes = (node, *(plans[-1].nodes if plans else ()))
        if node in wishes.never:
            kept[node] = "is not to be powered down"
        elif wishes.most is not None and len(plans) >= wishes.most:
            kept[node] = "as many nodes as may be are powered down"
        elif group.hopeless(nodes, True, group.target):
            kept[node] = "the others have no room for its instances and the target resources"
        else:
            state, steps = group.balanced(nodes, True)
            why = group.hindrance(state)
            if why is None:
                plans.append(PowerPlan(Action.OFFLINE, nodes, steps, state))
            else:
                kept[node] = why
    return plans


def _power_up(group: _PowerGroup, progress: Progress) -> PowerPlan:
    """As many of the candidates, in order, as it takes; all if that is not enough either.

    Those of them that could be powered down at once again are left out.
    """
    possible = _of(group, online_candidates(group.state))
    for count in range(len(possible) + 1):
        progress(count, len(possible) + 1)
        nodes = tuple(possible[:count])
        last = count == len(possible)
        if group.hopeless(nodes, False, group.minimum) and not last:
            continue
        state, steps = group.balanced(nodes, False)
        enough = group.leaves(state, group.minimum)
        if enough or last:
            found = PowerPlan(Action.ONLINE, nodes, steps, state, enough)
            return _without_idle(group, found) if enough else found
    raise AssertionError("the last round returns")


def _without_idle(group: _PowerGroup, found: PowerPlan) -> PowerPlan:
    """A plan that powers nodes up, without those that could be powered down again once it is made."""
    idle = _power_down_to_rest(group.then(found.state), lambda _a, _b: None).nodes
    nodes = tuple(node for node in found.nodes if node not in idle)
    if len(nodes) == len(found.nodes):
        return found
    state, steps = group.balanced(nodes, False)
    enough = group.leaves(state, group.minimum)
    return PowerPlan(Action.ONLINE, nodes, steps, state) if enough else found
