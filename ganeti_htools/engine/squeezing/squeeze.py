"""Choose nodes to power down, and nodes to power up again (``hsqueeze(1)``).

Nodes can be powered down if balancing, with these nodes offline, brings every instance to an online node
and leaves room on each node for a given instance. Powering nodes up suffices if the same holds afterwards.

A plan is rechecked on a cluster that may have changed.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.replay import Replay, plan_of
from ganeti_htools.engine.balancing.ways import goals_of
from ganeti_htools.engine.redundancy.recoverability import describe_lost, unrecoverable
from ganeti_htools.engine.rules.placement_rules import in_sets
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import (
    lacks_master_candidates,
    offline_candidates,
    online_candidates,
)
from ganeti_htools.engine.squeezing.power_down import power_down
from ganeti_htools.engine.squeezing.power_group import (
    TO_THE_END,
    PowerGroup,
    drained_nodes,
    power_group,
    with_power,
)
from ganeti_htools.engine.squeezing.power_plan import (
    ANY,
    Action,
    AllowedMoves,
    Phase,
    PowerPlan,
    Progress,
    ReserveByGroup,
    Wishes,
    silent,
)
from ganeti_htools.engine.squeezing.reserve import room_on_all
from ganeti_htools.model.columns import NOWHERE, Bools, sorted_unique
from ganeti_htools.model.moves import Move, NamedMove
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType


def plan(
    state: State,
    minimum: ReserveByGroup,
    target: ReserveByGroup,
    movable: Bools,
    progress: Progress = silent,
    wishes: Wishes = ANY,
) -> PowerPlan:
    """Power nodes up if some node lacks room for ``minimum``, else down as far as ``target`` allows.

    Each node group is planned by itself. While a group needs nodes, none is powered down, except nodes that
    the new ones replace, and none of a group that fails N+1. ``target`` is at least ``minimum``. While
    instances stay where they are, a second plan is empty, unless ``wishes`` limit the number of nodes.
    Sets that stay together leave nodes that are powered down; powering up leaves them where they are.
    """
    rows = sorted_unique(state.group).tolist()
    scopes: list[Bools] = [state.group == row for row in rows if row not in wishes.unchanged]

    def group(state: State, scope: Bools, movable: Bools = movable) -> PowerGroup:
        row = int(state.group[scope][0])
        return power_group(state, scope, movable, minimum[row], target[row], wishes.allowed, progress)

    now, ups, downs = state, list[PowerPlan](), list[PowerPlan]()
    for scope in scopes:
        if not room_on_all(state, scope, minimum):
            ups.append(power_up(group(now, scope, movable & ~in_sets(state)), wishes))
            now = ups[-1].state
    refused = {row: why for part in ups for row, why in part.refused.items()}
    if not all(part.enough for part in ups):
        return PowerPlan(_merged(ups), now, enough=False, refused=refused)
    for scope in scopes:
        done = sum(len(part.nodes) for part in downs)
        left = None if wishes.most is None else max(0, wishes.most - done)
        downs.append(power_down(group(now, scope), replace(wishes, most=left)))
        now = downs[-1].state
    phases = _merged(downs)
    down = {node for phase in phases for node in phase.nodes}
    kept = {node: why for part in downs for node, why in part.obstacles.items() if node not in down}
    return PowerPlan((*_merged(ups), *phases), now, obstacles=kept, refused=refused)


def unsparable(
    state: State, target: ReserveByGroup, movable: Bools, allowed: AllowedMoves
) -> dict[int, str] | None:
    """Return why all candidates surely stay, by bounds; None if one may go, :func:`plan` finds out.

    Arguments as there.
    """
    kept, possible = dict[int, str](), offline_candidates(state, allowed)[::-1]
    for row in sorted_unique(state.group[possible]).tolist():
        group = power_group(state, state.group == row, movable, target[row], target[row], allowed)
        for node in group.within(possible):
            why = group.infeasible([node], True, target[row]) or group.stranded([node])
            if why is None:
                return None
            kept[node] = why
    return kept


def _merged(parts: Sequence[PowerPlan]) -> tuple[Phase, ...]:
    """Merge the phases of plans for groups; phases that may run at the same time become one."""
    return tuple(map(_together, zip_longest(*(part.phases for part in parts))))


def _together(phases: Sequence[Phase | None]) -> Phase:
    """Merge phases of groups. Their steps alternate, so that many can run at once."""
    parts = [phase for phase in phases if phase is not None]
    units = zip_longest(*(_units(part.steps) for part in parts), fillvalue=())
    return Phase(
        parts[0].action,
        tuple(node for part in parts for node in part.nodes),
        tuple(step for some in units for unit in some for step in unit),
        frozenset(node for part in parts for node in part.late),
    )


def _units(steps: Sequence[Move]) -> Iterator[tuple[Move, ...]]:
    """Yield the steps of each set that stays together, and each other step by itself."""
    first = 0
    for end, step in enumerate(steps, 1):
        if not step.with_next:
            yield tuple(steps[first:end])
            first = end


@dataclass(frozen=True, slots=True)
class NamedPhase:
    """The rest of a phase: nodes still to be powered down or up, and steps, by name; see :class:`.Phase`."""

    action: Action
    nodes: Sequence[str]
    steps: Sequence[NamedMove]
    late: Collection[str] = ()


def recheck_phases(
    state: State,
    phases: Sequence[NamedPhase],
    promised: ReserveByGroup | None,
    target: ReserveByGroup,
    movable: Bools,
    soon: int,
) -> str | None:
    """Return the reason why the rest of a plan cannot be carried out on a state, or None.

    Nodes to be powered down must be empty by then, and each remaining node of their groups must have room
    for ``target``. In the end each node must have room for ``promised``, if given. None of the ``soon`` first
    steps may take an instance's redundancy, nor may a whole phase.
    """
    gone = [name for phase in phases for name in phase.nodes if name not in state.nodes]
    if gone:
        return f"node {gone[0]} is gone"
    everywhere = state.everywhere
    for phase in phases:
        rows, down = [state.nodes[name] for name in phase.nodes], phase.action is Action.OFFLINE
        marked = with_power(state, rows, down)
        late = np.isin(np.arange(len(everywhere)), [state.nodes[name] for name in phase.late])
        problem = (
            _not_switched(state, rows, down)
            or _leaving(state, phase.steps)
            or recheck.obstacle(
                marked,
                everywhere,
                phase.steps,
                TO_THE_END,
                movable,
                _Losses(marked, phase.steps, late, target, soon),
            )
            or (_too_few(state, marked, rows, target) if down else None)
        )
        if problem:
            return problem
        state, soon = marked, max(0, soon - len(phase.steps))
    enough = promised is None or reserve.room_on_all(state, everywhere, promised)
    return None if enough else "nodes would not have the minimal resources free"


class _Losses:
    """The redundancy of the instances of each group, after each of the ``soon`` first steps of a phase. The
    steps of a set that stays together count as one.

    After the other steps it is only compared in the end: each of them is among the first ones of a later
    review. ``late`` nodes take instances as long as they have mirrored ones.
    """

    def __init__(
        self, state: State, steps: Sequence[NamedMove], late: Bools, target: ReserveByGroup, soon: int
    ) -> None:
        self._state, self._late, self._target = state, late, target
        self._left, self._soon = (sum(not step.with_next for step in some) for some in (steps, steps[:soon]))
        touched = {name for step in steps for name in step.was} & state.nodes.keys()
        groups = {int(state.group[state.nodes[name]]) for name in touched}
        self._lost = {group: self._unrecoverable(group) for group in groups}

    def __call__(self, row: int) -> str | None:
        """Describe who has lost redundancy up to a step of the instance (row); None if nobody has."""
        self._left, self._soon = self._left - 1, self._soon - 1
        if self._soon < 0 < self._left:
            return None
        group = int(self._state.group[self._state.pnode[row]])
        for each in [group] if self._soon >= 0 else list(self._lost):
            before = self._lost[each]
            now = self._lost[each] = self._unrecoverable(each)
            rows = np.flatnonzero(now & ~before).tolist()
            if rows:
                return describe_lost(self._state, rows)
        return None

    def _unrecoverable(self, group: int) -> Bools:
        if reserve.is_empty(self._target[group]):
            return np.zeros(len(self._state.pnode), np.bool_)
        drained = drained_nodes(self._state, self._late)
        columns = self._state.columns._replace(offline=drained)
        return unrecoverable(replace(self._state, columns=columns), self._state.group == group)


def _not_switched(state: State, rows: Sequence[int], down: bool) -> str | None:
    """Return the reason why nodes cannot be powered down, or up."""
    for row in rows:
        node = state.cluster.nodes[row]
        if down and node.master:
            return f"node {node.name} is the master"
        if down and state.columns.offline[row]:
            return f"node {node.name} is offline or drained"
        if not down and row not in online_candidates(state):
            return f"node {node.name} is not offline with a standby tag"
    return None


def _leaving(state: State, steps: Sequence[NamedMove]) -> str | None:
    """Return a step that leads out of its group, in words."""
    for step in steps:
        touched = [state.nodes[name] for name in (*step.was, *step.now) if name in state.nodes]
        if len(set(state.group[touched].tolist())) > 1:
            return f"instance {step.instance} would leave its group"
    return None


def _too_few(before: State, state: State, rows: Sequence[int], target: ReserveByGroup) -> str | None:
    """Return the reason against powering nodes down: instances left on them, or too little on the others."""
    emptied = np.isin(state.pnode, rows) | np.isin(state.snode, rows)
    for left in np.flatnonzero(emptied & ~state.forthcoming).tolist():
        return f"instance {state.cluster.instances[left].name} would be left on a node that is powered down"
    if lacks_master_candidates(before, ~state.columns.offline):
        return "too few nodes would be left that can be master candidates"
    if not reserve.room_on_all(state, np.isin(state.group, state.group[rows]), target):
        return "nodes would not keep the target resources free"
    for group in sorted_unique(state.group[rows]).tolist():
        if not (reserve.is_empty(target[group]) or reserve.holds_n1(state, state.group == group, before)):
            return f"group {state.cluster.groups[group].name} would not hold N+1"
    return None


def power_up(group: PowerGroup, wishes: Wishes = ANY) -> PowerPlan:
    """Power up as many candidates as needed, in order; all if even they do not suffice.

    Nodes that could be powered down again after the plan are left out. Other nodes that could be powered
    down are not part of the plan.
    """
    found = power_up_in_order(group)
    never = {node: why for node, why in wishes.never.items() if node not in found.nodes}
    freely = replace(wishes, never=never, most=None)
    while found.enough:
        rest = power_down(group.on_state(found.state), freely)
        needed = tuple(node for node in found.nodes if node not in rest.nodes)
        fewer = None if needed == found.nodes else _with_fewer(group, needed, found, rest)
        if fewer is None:
            break
        found = fewer
    return found


def power_up_in_order(group: PowerGroup) -> PowerPlan:
    """Power up as many of the candidates as needed, in order."""
    possible = group.within(online_candidates(group.state))
    for count in range(len(possible) + 1):
        group.progress(f"{count} of {len(possible) + 1} numbers of nodes tried")
        nodes = tuple(possible[:count])
        last = count == len(possible)
        if group.infeasible(nodes, False, group.minimum) and not last:
            continue
        found = _planned(group, nodes, *group.balanced(nodes, False))
        if found.enough or last:
            found = _keeping_redundancy(group, found)
        if found.enough or last:
            return found
    raise AssertionError("the last round returns")


def _with_fewer(
    group: PowerGroup, nodes: tuple[int, ...], found: PowerPlan, rest: PowerPlan
) -> PowerPlan | None:
    """Return a plan with only these nodes of a plan that was found, or None if they do not suffice.

    ``nodes`` are those still in use after ``rest`` is powered down. If balancing fails without the other
    nodes, instances go directly to their places after ``rest``.
    """
    balanced = _planned(group, nodes, *group.balanced(nodes, False))
    for plan in (balanced, _directly(group, nodes, (*found.steps, *rest.steps), rest.state)):
        if plan and plan.enough and (safe := _keeping_redundancy(group, plan)).enough:
            return safe
    return None


def _directly(
    group: PowerGroup, nodes: tuple[int, ...], steps: Sequence[Move], goal: State
) -> PowerPlan | None:
    """Return a plan that powers nodes up and moves instances straight to their nodes in ``goal``, or None.

    ``steps`` lead to ``goal``. Instances without a mirror stay, since they only leave nodes that are
    powered down.
    """
    marked = with_power(group.state, nodes, False)
    mirrored = {
        row for row, each in enumerate(goal.cluster.instances) if each.template.mirror is not MirrorType.NONE
    }
    made = [
        step
        for step in steps
        if step.instance in mirrored and (step.node == NOWHERE or not marked.columns.offline[step.node])
    ]
    goals = {row: place for row, place in goals_of(marked, goal).items() if row in mirrored}
    concerned = candidates(marked, group.scope, group.movable)
    way = plan_of(marked, group.scope, TO_THE_END, concerned, made, goals)
    return None if way is None else _planned(group, nodes, way.after, way.steps)


def _planned(group: PowerGroup, nodes: tuple[int, ...], state: State, steps: tuple[Move, ...]) -> PowerPlan:
    enough = group.keeps_free(state, group.minimum)
    return PowerPlan((Phase(Action.ONLINE, nodes, steps),), state, enough)


def _keeping_redundancy(group: PowerGroup, plan: PowerPlan) -> PowerPlan:
    """Leave out the moves that take an instance's redundancy, and later moves of the same instances."""
    (phase,) = plan.phases
    marked = with_power(group.state, phase.nodes, False)
    concerned = candidates(marked, group.scope, group.movable)
    way, lost = Replay(marked, group.scope, TO_THE_END, concerned), unrecoverable(marked, group.scope)
    made, refused = list[Move](), dict[int, str]()
    for step in phase.steps:
        last = way.state.copy()
        if step.instance in refused:
            continue
        if not way.remake(step):
            refused[step.instance] = "it would follow a move that is left out"
            continue
        now = unrecoverable(way.state, group.scope)
        if rows := np.flatnonzero(now & ~lost).tolist():
            refused[step.instance] = describe_lost(way.state, rows)
            way = Replay(last, group.scope, TO_THE_END, concerned)
        else:
            made.append(way.steps[-1])
            lost = now
    if not refused:
        return plan
    enough = group.keeps_free(way.state, group.minimum)
    phases = (replace(phase, steps=tuple(made)),)
    return replace(plan, phases=phases, state=way.state, enough=enough, refused=refused)
