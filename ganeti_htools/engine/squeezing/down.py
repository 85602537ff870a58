"""Which nodes of a group can be powered down (``hsqueeze(1)``)."""

from collections.abc import Sequence
from dataclasses import replace

from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.better_sets import better_sets, rank
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_group import NOT_REDUNDANT, PowerGroup
from ganeti_htools.engine.squeezing.power_plan import ANY, Action, PowerPlan, Progress, Wishes


def power_down(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """Power down as many nodes as possible with as little data moved as possible.

    What a greedy search finds is replaced only by what is better. Where that finds nothing, nothing else is
    looked for, so a cluster where this has been done is at rest.
    """
    possible = group.of(offline_candidates(group.state, group.allowed))
    if not reserve.nothing_kept(group.target) and not reserve.redundant(group.state, group.scope):
        kept = dict.fromkeys(possible, NOT_REDUNDANT)
        return PowerPlan(Action.NOTHING, (), (), group.state, kept=kept)
    found = greedily(group, progress, wishes)
    others = better_sets(group, found[-1], possible, wishes) if found[-1].nodes else []
    for other in others:
        plan = _made(group, _to_rest(group, [other], progress, wishes))
        if rank(group.state, plan) < rank(group.state, found[-1]):
            return plan
    return _made(group, found)


def greedily(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> list[PowerPlan]:
    """Plans to power down one node after the other, as the design does it, until no other can join."""
    return _to_rest(group, _joining(group, progress, wishes), progress, wishes)


def _made(group: PowerGroup, plans: Sequence[PowerPlan]) -> PowerPlan:
    """The last of some plans that can be made."""
    nothing = PowerPlan(Action.NOTHING, (), (), group.state)
    best = next((plan for plan in reversed(plans) if group.can_be_made(plan)), nothing)
    lost = {node: "N+1 would not hold on the way" for node in plans[-1].nodes if node not in best.nodes}
    return replace(best, kept={**plans[-1].kept, **lost})


def _to_rest(
    group: PowerGroup, plans: list[PowerPlan], progress: Progress, wishes: Wishes
) -> list[PowerPlan]:
    """Some plans, and what can be powered down once the last of them is made, until nothing more can.

    Balancing starts anew from where the moves lead, and may find what it did not find before.
    """
    while found := plans[-1].nodes:
        left = None if wishes.most is None else wishes.most - len(found)
        more = _joining(group.then(plans[-1].state), progress, replace(wishes, most=left))
        kept = more[-1].kept
        if not more[-1].nodes:
            return [*plans[:-1], replace(plans[-1], kept=kept)]
        nodes = (*more[-1].nodes, *found)
        state, steps = group.balanced(nodes, True)  # at once, if that leads there with fewer moves
        if group.hindrance(state) is not None:
            state, steps = more[-1].state, (*plans[-1].steps, *more[-1].steps)
        plans = [*plans, PowerPlan(Action.OFFLINE, nodes, steps, state, kept=kept)]
    return plans


def _joining(group: PowerGroup, progress: Progress, wishes: Wishes) -> list[PowerPlan]:
    """Of the candidates, those that are preferred, then those with fewest instances first, each that can join
    those before it.

    The result is a plan for nothing and one for each that joined, with those before it. The last tells why
    the others are kept.
    """
    possible = group.of(offline_candidates(group.state, group.allowed)[::-1])
    plans, kept = [PowerPlan(Action.NOTHING, (), (), group.state)], dict[int, str]()
    for tried, node in enumerate(sorted(possible, key=lambda row: row not in wishes.prefer)):
        progress(tried, len(possible))
        nodes = (node, *plans[-1].nodes)
        if node in wishes.never:
            kept[node] = "is not to be powered down"
        elif wishes.most is not None and len(plans) > wishes.most:
            kept[node] = "as many nodes as may be are powered down"
        elif why := group.hopeless(nodes, True, group.target):
            kept[node] = why
        else:
            state, steps = group.balanced(nodes, True)
            if why := group.hindrance(state):
                kept[node] = why
            else:
                plans.append(PowerPlan(Action.OFFLINE, nodes, steps, state))
    return [*plans[:-1], replace(plans[-1], kept=kept)]
