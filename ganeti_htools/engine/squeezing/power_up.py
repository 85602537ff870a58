"""Which standby nodes of a group are needed (``hsqueeze(1)``)."""

from collections.abc import Sequence
from dataclasses import replace

from ganeti_htools.engine.balancing.balance import Step, candidates
from ganeti_htools.engine.balancing.replay import MoveRows, plan_of
from ganeti_htools.engine.balancing.ways import goals_of
from ganeti_htools.engine.squeezing.candidates import online_candidates
from ganeti_htools.engine.squeezing.power_down import power_down
from ganeti_htools.engine.squeezing.power_group import TO_THE_END, PowerGroup, with_power
from ganeti_htools.engine.squeezing.power_plan import ANY, Action, Phase, PowerPlan, Progress, Wishes
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType


def power_up(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """As many of the candidates, in order, as it takes; all if that is not enough either.

    Those of them are left out that could be powered down again once the plan is made. What else could be is
    not part of it.
    """
    found = in_order(group, progress)
    freely = replace(wishes, never=wishes.never.difference(found.nodes), most=None)
    while found.enough:
        rest = power_down(group.on_state(found.state), lambda _a, _b: None, freely)
        needed = tuple(node for node in found.nodes if node not in rest.nodes)
        fewer = None if needed == found.nodes else _with_fewer(group, needed, found, rest)
        if fewer is None:
            break
        found = fewer
    return found


def in_order(group: PowerGroup, progress: Progress) -> PowerPlan:
    """As many of the candidates as it takes."""
    possible = group.within(online_candidates(group.state))
    for count in range(len(possible) + 1):
        progress(count, len(possible) + 1)
        nodes = tuple(possible[:count])
        last = count == len(possible)
        if group.infeasible(nodes, False, group.minimum) and not last:
            continue
        found = _planned(group, nodes, *group.balanced(nodes, False))
        if found.enough or last:
            return found
    raise AssertionError("the last round returns")


def _with_fewer(
    group: PowerGroup, nodes: tuple[int, ...], found: PowerPlan, rest: PowerPlan
) -> PowerPlan | None:
    """A plan that powers up only these nodes of one that was found, by what is left on them once the ``rest``
    has been powered down; None if none is enough.

    Where balancing does not get there without the other nodes, instances go directly to where they are then.
    """
    balanced = _planned(group, nodes, *group.balanced(nodes, False))
    if balanced.enough:
        return balanced
    directly = _directly(group, nodes, (*found.steps, *rest.steps), rest.state)
    return directly if directly and directly.enough else None


def _directly(
    group: PowerGroup, nodes: tuple[int, ...], steps: Sequence[Step], goal: State
) -> PowerPlan | None:
    """A plan that powers nodes up and moves instances to where they are on another state, to which ``steps``
    lead; None if there is no way.

    Instances without a mirror stay, since they only leave nodes that are powered down.
    """
    marked = with_power(group.state, nodes, False)
    mirrored = {
        row for row, each in enumerate(goal.cluster.instances) if each.template.mirror is not MirrorType.NONE
    }
    made = [
        MoveRows(step.instance, step.kind, step.node)
        for step in steps
        if step.instance in mirrored and (step.node == NOWHERE or not marked.columns.offline[step.node])
    ]
    goals = {row: place for row, place in goals_of(marked, goal).items() if row in mirrored}
    concerned = candidates(marked, group.scope, group.movable)
    way = plan_of(marked, group.scope, TO_THE_END, concerned, made, goals)
    return None if way is None else _planned(group, nodes, way.after, way.steps)


def _planned(group: PowerGroup, nodes: tuple[int, ...], state: State, steps: tuple[Step, ...]) -> PowerPlan:
    enough = group.keeps_free(state, group.minimum)
    return PowerPlan((Phase(Action.ONLINE, nodes, steps),), state, enough)
