"""Better plans than the greedy one: better final places, and a shorter way there (``hbal --optimise``)."""

from collections.abc import Callable

from ganeti_htools.engine.balancing.balance import candidates, rebalance, score_of
from ganeti_htools.engine.balancing.better_places import improvements
from ganeti_htools.engine.balancing.replay import MoveRows, RatedPlan, plan_of
from ganeti_htools.engine.balancing.ways import NodePair, goals_of, volume_of
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State


def optimise(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    movable: Bools | None,
    going: Callable[[float], bool],
) -> tuple[RatedPlan, RatedPlan]:
    """Compute the greedy plan and the best plan found, which may be the same.

    Both obey the options. ``going`` gets the best score so far and decides whether to look for one more move;
    equal answers lead to equal plans.
    """
    found, steps = rebalance(state, scope, options, movable)
    volume = sum(volume_of(state, step.instance, step.kind) for step in steps)
    greedy = RatedPlan(tuple(steps), score_of(found, scope), volume, found.copy())
    concerned = candidates(state, scope, movable)
    if options.evacuation:
        offline = state.columns.offline
        concerned &= offline[state.pnode] | ((state.snode != NOWHERE) & offline[state.snode])
    made = [MoveRows(step.instance, step.kind, step.node) for step in steps]
    history: list[tuple[list[MoveRows], dict[int, NodePair]]] = [(list(made), goals_of(state, found))]
    for more in improvements(state, found, scope, options, concerned, going):
        made += more
        history.append((list(made), goals_of(state, found)))
    for done, goals in reversed(history):
        plan = plan_of(state, scope, options, concerned, done, goals)
        if plan and plan.rank < greedy.rank:
            return greedy, plan
    return greedy, greedy
