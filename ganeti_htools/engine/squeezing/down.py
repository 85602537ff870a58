"""Which nodes of a group can be powered down (``hsqueeze(1)``)."""

from dataclasses import replace

from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_group import PowerGroup
from ganeti_htools.engine.squeezing.power_plan import ANY, Action, PowerPlan, Progress, Wishes


def power_down(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """Power down, and what can be powered down once that is done, until nothing more can.

    Balancing starts anew from where the moves lead, and may find what it did not find before.
    """
    nothing = PowerPlan(Action.NOTHING, (), (), group.state)
    if not reserve.nothing_kept(group.target) and not reserve.redundant(group.state, group.scope):
        possible = group.of(offline_candidates(group.state, group.allowed))
        return replace(nothing, kept=dict.fromkeys(possible, "the group does not hold N+1"))
    kept: dict[int, str] = {}
    plans = [nothing, *_greedily(group, progress, wishes, kept)]
    while found := plans[-1].nodes:
        left = None if wishes.most is None else wishes.most - len(found)
        more = _greedily(group.then(plans[-1].state), progress, replace(wishes, most=left), kept)
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


def _greedily(group: PowerGroup, progress: Progress, wishes: Wishes, kept: dict[int, str]) -> list[PowerPlan]:
    """Of the candidates, those that are preferred, then those with fewest instances first, each that can join
    those before it.

    The result is a plan for each that joined, with those before it; ``kept`` gets the reasons of the others.
    """
    possible = group.of(offline_candidates(group.state, group.allowed)[::-1])
    plans: list[PowerPlan] = []
    for tried, node in enumerate(sorted(possible, key=lambda row: row not in wishes.prefer)):
        progress(tried, len(possible))
        nodes = (node, *(plans[-1].nodes if plans else ()))
        if node in wishes.never:
            kept[node] = "is not to be powered down"
        elif wishes.most is not None and len(plans) >= wishes.most:
            kept[node] = "as many nodes as may be are powered down"
        elif why := group.hopeless(nodes, True, group.target):
            kept[node] = why
        else:
            state, steps = group.balanced(nodes, True)
            if why := group.hindrance(state):
                kept[node] = why
            else:
                plans.append(PowerPlan(Action.OFFLINE, nodes, steps, state))
    return plans
