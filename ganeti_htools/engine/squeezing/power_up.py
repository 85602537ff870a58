"""Power up standby nodes that a group needs (``hsqueeze(1)``)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.replay import Replay, plan_of
from ganeti_htools.engine.balancing.ways import goals_of
from ganeti_htools.engine.redundancy.recoverability import describe_lost, unrecoverable
from ganeti_htools.engine.squeezing.candidates import online_candidates
from ganeti_htools.engine.squeezing.power_down import power_down
from ganeti_htools.engine.squeezing.power_group import TO_THE_END, PowerGroup, with_power
from ganeti_htools.engine.squeezing.power_plan import ANY, Action, Phase, PowerPlan, Wishes
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import Move
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType


def power_up(group: PowerGroup, wishes: Wishes = ANY) -> PowerPlan:
    """Power up as many candidates as needed, in order; all if even they do not suffice.

    Nodes that could be powered down again after the plan are left out. Other nodes that could be powered
    down are not part of the plan.
    """
    found = in_order(group)
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


def in_order(group: PowerGroup) -> PowerPlan:
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
