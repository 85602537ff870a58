"""Power down nodes of a group (``hsqueeze(1)``)."""

from collections.abc import Sequence
from dataclasses import replace

from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.better_sets import better_set
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_group import NOT_REDUNDANT, PowerGroup
from ganeti_htools.engine.squeezing.power_plan import ANY, PowerPlan, Progress, Wishes

ENOUGH = "as many nodes as may be are powered down"
ON_THE_WAY = "N+1 would not hold on the way"
UNTRIED = "was not tried: in a large group, only the nodes with the fewest instances are"

PATIENCE = 8  # candidates of a large group that are tried in vain in a row


def power_down(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """Power down as many nodes as possible with as little data moved as possible.

    The plan of a greedy search is replaced only by a better one. Either is continued until the greedy
    search finds no further node, so a second run finds nothing.
    """
    if not reserve.is_empty(group.target) and not reserve.redundant(group.state, group.scope):
        possible = group.within(offline_candidates(group.state, group.allowed))
        kept = dict.fromkeys(possible, NOT_REDUNDANT)
        return PowerPlan((), group.state, obstacles=kept)
    if group.large:
        return in_portions(group, progress, wishes)
    found = greedily(group, progress, wishes)
    if not found.nodes:
        return found
    better = better_set(group, found, wishes)
    return found if better is found else _to_rest(group, better, progress, wishes)


def greedily(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """Power down one node after the other, as in the design, until no other can join."""
    return _to_rest(group, PowerPlan((), group.state), progress, wishes)


def _to_rest(group: PowerGroup, plan: PowerPlan, progress: Progress, wishes: Wishes) -> PowerPlan:
    """Continue a plan until no further node can be powered down.

    Balancing starts again from the plan's end, and may find new steps. N+1 may hold on the way to a second
    node only once the first is empty.
    """
    while True:
        left = None if wishes.most is None else wishes.most - len(plan.nodes)
        more = _more(group.on_state(plan.state), progress, replace(wishes, most=left))
        if not more.nodes:
            return replace(plan, obstacles=more.obstacles)
        plan = _followed(group, plan, more) if plan.nodes else more


def _followed(group: PowerGroup, plan: PowerPlan, more: PowerPlan) -> PowerPlan:
    """Append a plan to another; as a single phase if that is executable."""
    at_once = group.plan_without((*more.nodes, *plan.nodes))
    made = group.executable(at_once) if group.obstacle(at_once.state) is None else None
    return made or replace(more, phases=(*plan.phases, *more.phases))


def _more(group: PowerGroup, progress: Progress, wishes: Wishes) -> PowerPlan:
    """Plan one phase: as many of the joining nodes as can really be powered down.

    If none can although some could join, other sets are tried.
    """
    nothing, *joined = _joining(group, progress, wishes)
    if not joined:
        return nothing
    made = next(filter(None, map(group.executable, reversed(joined))), None)
    made = made or better_set(group, nothing, wishes)
    lost = {node: ON_THE_WAY for node in joined[-1].nodes if node not in made.nodes}
    return replace(made, obstacles={**joined[-1].obstacles, **lost})


def _joining(group: PowerGroup, progress: Progress, wishes: Wishes) -> list[PowerPlan]:
    """Return plans for nothing and for each candidate that joins its predecessors.

    Preferred candidates come first, then those with the fewest instances. The last plan lists the obstacles
    of all others.
    """
    possible = _in_order(group, wishes)
    plans, kept = [PowerPlan((), group.state)], dict[int, str]()
    for tried, node in enumerate(possible):
        progress(tried, len(possible))
        nodes = (node, *plans[-1].nodes)
        if node in wishes.never:
            kept[node] = wishes.never[node]
        elif wishes.most is not None and len(plans) > wishes.most:
            kept[node] = ENOUGH
        elif why := _excluded(group, nodes):
            kept[node] = why
        else:
            plan = group.plan_without(nodes)
            if why := group.obstacle(plan.state):
                kept[node] = why
            else:
                plans.append(plan)
    return [*plans[:-1], replace(plans[-1], obstacles=kept)]


def _in_order(group: PowerGroup, wishes: Wishes) -> list[int]:
    """Return the candidates: preferred ones first, then those with the fewest instances."""
    possible = group.within(offline_candidates(group.state, group.allowed)[::-1])
    return sorted(possible, key=lambda row: row not in wishes.prefer)


def in_portions(group: PowerGroup, progress: Progress, wishes: Wishes = ANY) -> PowerPlan:
    """Power down nodes of a large group, portion after portion, each a phase.

    A portion begins where the one before ends, so the group is balanced anew for none of them. A portion has
    half the nodes that bounds allow, fewer if these cannot be powered down.
    """
    plan, most = PowerPlan((), group.state), len(group.scope)
    possible = len(_in_order(group, wishes))
    while True:
        progress(len(plan.nodes), possible)
        left = None if wishes.most is None else wishes.most - len(plan.nodes)
        more = _portion(group.on_state(plan.state), most, replace(wishes, most=left))
        if not more.nodes:
            return replace(plan, obstacles=more.obstacles)
        plan, most = replace(more, phases=(*plan.phases, *more.phases)), len(more.nodes)


def _portion(group: PowerGroup, most: int, wishes: Wishes) -> PowerPlan:
    """Plan one phase with at most so many nodes; the plan for nothing lists the obstacles."""
    nothing, order = PowerPlan((), group.state), _in_order(group, wishes)
    kept = {node: wishes.never[node] for node in order if node in wishes.never}
    order = [node for node in order if node not in kept]
    if wishes.most is not None and wishes.most < 1:
        return replace(nothing, obstacles={**kept, **dict.fromkeys(order, ENOUGH)})
    allowed = next((size for size in range(len(order), 0, -1) if not _excluded(group, order[:size])), 0)
    size = min(most, allowed // 2, len(order) if wishes.most is None else wishes.most)
    while size > 1:
        plan, _ = _tried(group, order[:size])
        if plan is not None:
            return plan
        size //= 2
    patience = PATIENCE
    for node in order:
        why = _excluded(group, [node])
        if why is None:
            plan, why = _tried(group, [node]) if patience else (None, UNTRIED)
            patience = max(0, patience - 1)
            if plan is not None:
                return plan
        kept[node] = why
    return replace(nothing, obstacles=kept)


def _excluded(group: PowerGroup, nodes: Sequence[int]) -> str | None:
    """Return the reason why bounds exclude that nodes are powered down; None if they do not."""
    return group.infeasible(nodes, True, group.target) or group.stranded(nodes)


def _tried(group: PowerGroup, nodes: Sequence[int]) -> tuple[PowerPlan | None, str]:
    """Return an executable plan without nodes, or None and the reason."""
    plan = group.plan_without(nodes)
    if why := group.obstacle(plan.state):
        return None, why
    return group.executable(plan), ON_THE_WAY
