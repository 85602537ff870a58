"""Plans between "no move" and the most even cluster, none of which is beaten in both score and copying.

The usual plan is the start of a search of final places (:mod:`.place_search`). Plans lead to those places
that no others beat. The first steps of a plan are a plan too, so every plan found gives many.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.balance import Step, allowed, candidates, rebalance, score_of
from ganeti_htools.engine.balancing.batches import Batch
from ganeti_htools.engine.balancing.place_search import wander
from ganeti_htools.engine.balancing.priced_plans import PricedPlan, priced_plans, weights_of
from ganeti_htools.engine.balancing.relocate import try_move
from ganeti_htools.engine.balancing.replay import DIGITS, Replay
from ganeti_htools.engine.balancing.scoring import SearchSpace, exact
from ganeti_htools.engine.balancing.traffic import bandwidths
from ganeti_htools.engine.balancing.visits import Visit, Visits
from ganeti_htools.engine.balancing.way_costs import Costs, Homes
from ganeti_htools.engine.balancing.ways import NodePair, exchanged_goals, first_moves, goals_of
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State

PLANS = 24  # final places to which plans are made
PRICES = 8  # prices of the search
# Copying as much as the usual plan costs this part of the usual plan's score at the lowest price.
NEGLIGIBLE = 0.02
# The highest price is the usual plan's gain for each MiB, once it has copied this part of all.
STEEP = 0.1


class Front(NamedTuple):
    """The usual plan, and plans that no plan found beats, the one that copies least first.

    The first is "no move". The usual plan may exceed limits of the options; the others keep to them.
    """

    usual: PricedPlan
    plans: Sequence[PricedPlan]


def front(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    copying: CopyingOptions,
    movable: Bools | None,
    going: Callable[[float], bool],
) -> Front:
    """Compute the front. ``going`` gets the present score of the search and decides whether it goes on.

    Equal answers lead to equal plans.
    """
    score = score_of(state, scope)

    def priced(steps: Sequence[Step]) -> Iterator[PricedPlan]:
        return priced_plans(state, copying, score, steps)

    usual = list(priced(rebalance(state, scope, options, movable)[1]))
    found = [plan for plan in usual if plan.within(copying, options)]
    begun = found[-1].steps
    concerned = candidates(state, scope, movable)
    if options.evacuation:
        offline = state.columns.offline
        concerned &= offline[state.pnode] | ((state.snode != NOWHERE) & offline[state.snode])
    # Instances that may leave offline nodes may go to any other node.
    anywhere = replace(options, evacuation=False)
    home = Replay(state, scope, anywhere, concerned)
    homes, limits = Homes(state, weights_of(copying), _reachable(home)), _limits(state, copying, options)

    def start() -> tuple[Visits, Sequence[Batch]]:
        """Begin a search where the longest plan within the limits ends."""
        replay = Replay(state, scope, anywhere, concerned)
        for step in begun:
            replay.make(step.instance, step.kind, step.node)
        space = SearchSpace.of(replay.facts, scope, options.ignore_soft_errors)
        return Visits(space, homes, limits), replay.batches

    visits = wander(start, [1.0] if copying.priced else _prices(usual), going)
    rank = _ranking(home, homes)
    for visit in _promising(visits, usual[-1]):
        goals = exchanged_goals(state, home.batches, goals_of(state, visit))
        replay = Replay(state, scope, options, concerned)
        steps = _lead(replay, sorted(goals, key=lambda index: (rank(index, goals[index]), index)), goals)
        found += (plan for plan in priced(steps) if plan.within(copying, options))
    return Front(usual[-1], _unbeaten(found))


def choose(found: Front, copying: CopyingOptions) -> PricedPlan:
    """Choose a plan: by the price, by the score that it must reach, or the most even one."""
    if copying.priced:
        return min(found.plans, key=lambda plan: (round(plan.score + plan.charge, DIGITS), plan.length))
    below = copying.cheapest_below
    if below is not None:
        return next((plan for plan in found.plans if plan.score <= below), found.plans[-1])
    return found.plans[-1]


def spread(found: Front, number: int) -> list[PricedPlan]:
    """Select up to so many plans, evenly spread, without "no move"; see :func:`_evenly`."""
    figures = [plan.figures for plan in found.plans]
    return [found.plans[at] for at in _evenly(figures, found.usual.figures, number) if found.plans[at].length]


def _unbeaten(plans: Iterable[PricedPlan]) -> list[PricedPlan]:
    """Select the plans that no other beats in both figures, the one that copies least first."""
    result = list[PricedPlan]()
    for plan in sorted(plans, key=lambda plan: (*plan.figures, plan.length)):
        if not result or plan.figures[1] < result[-1].figures[1]:
            result.append(plan)
    return result


def _promising(visits: Sequence[Visit], usual: PricedPlan) -> list[Visit]:
    """Select places for plans, evenly spread."""
    figures = [(visit.costs.charge, visit.score) for visit in visits]
    return [visits[at] for at in _evenly(figures, (usual.charge, usual.score), PLANS)]


def _evenly(figures: Sequence[tuple[float, float]], usual: tuple[float, float], number: int) -> list[int]:
    """Choose among rising costs with falling scores: up to so many, evenly spread in both.

    If there is room for them: the lowest score, the lowest score at the costs of the ``usual`` plan, and the
    lowest costs at its score.
    """
    if len(figures) <= number:
        return list(range(len(figures)))
    (cheapest, worst), (dearest, best) = figures[0], figures[-1]
    length = [
        (cost - cheapest) / ((dearest - cheapest) or 1) + (worst - score) / ((worst - best) or 1)
        for cost, score in figures
    ]
    chosen = [len(figures) - 1]
    chosen += [at for at, (cost, _) in enumerate(figures) if cost <= usual[0]][-1:]
    chosen += [at for at, (_, score) in enumerate(figures) if score <= usual[1]][:1]
    goals = [2 * part / number for part in range(number, 0, -1)]
    chosen += [min(range(len(figures)), key=lambda at: abs(length[at] - goal)) for goal in goals]
    return sorted(list(dict.fromkeys(chosen))[:number])


def _prices(usual: Sequence[PricedPlan]) -> list[float]:
    """Choose the prices of the search by the usual plan: geometric, the highest first."""
    end, gain = usual[-1], usual[0].score - usual[-1].score
    if not end.charge > 0:
        return [sys.float_info.min]
    lowest = NEGLIGIBLE * max(end.score, STEEP * gain) / end.charge
    slopes = (
        (old.score - end.score) / (end.charge - old.charge)
        for old in usual
        if STEEP * end.charge <= old.charge < end.charge
    )
    ratio = (max(slopes, default=0.0) / lowest) ** (1 / (PRICES - 1))
    return [lowest * max(ratio, 2.0) ** power for power in reversed(range(PRICES))]


def _reachable(home: Replay) -> Bools:
    """Find the places that the options allow (instances by roles of primary and secondary at home)."""
    found = np.zeros((len(home.state.pnode), 3, 3), np.bool_)
    found[:, 0, 1] = True
    for batch in home.batches:
        mirrored, state = batch.asked.mirrored, home.state
        place = 0, 1 if mirrored else NOWHERE  # any two nodes stand for the home's, two more for others
        for primary, secondary in itertools.product(range(3), range(3)):
            goal = primary, (secondary, secondary, 3)[secondary] if mirrored else NOWHERE
            moves = first_moves(state, place, goal) if goal != place else []
            may = [allowed(home.facts, batch, kind, home.options) for kind, _ in moves]
            found[batch.rows, primary, secondary] = np.any(may, axis=0) if may else True
    return found


def _ranking(home: Replay, homes: Homes) -> Callable[[int, NodePair], tuple[bool, float]]:
    """Make the order of ways: by the gain of the first move alone for what the way copies, the best first."""
    space = SearchSpace.of(home.facts, home.scope, home.options.ignore_soft_errors)
    baseline, score = space.baseline(), score_of(home.state, home.scope)

    @cache
    def rank(index: int, goal: NodePair) -> tuple[bool, float]:
        kind, node = first_moves(home.state, home.place(index), goal)[0]
        trial = try_move(home.facts, *home.member[index], kind, node, home.options.ignore_soft_errors)
        gain = score - float(exact(space, baseline, trial)[0][0])
        costs = homes.costs(*(np.array([each]) for each in (index, *goal)))
        cost = max(float(costs.charge[0]), sys.float_info.min)
        return not gain > 0, -(gain / cost if gain > 0 else gain)

    return rank


def _lead(replay: Replay, order: list[int], goals: Mapping[int, NodePair]) -> Sequence[Step]:
    """Make a plan to places. Instances that cannot go there directly sidestep once, or stay."""
    stuck, tried = replay.lead_all(order, goals), set[int]()
    while waiting := [index for index in stuck if index not in tried]:
        tried.add(waiting[0])
        if replay.sidestep(waiting[0], goals[waiting[0]]):
            stuck = replay.lead_all(stuck, goals)
    return replay.steps


def _limits(state: State, copying: CopyingOptions, options: BalancingOptions) -> Costs:
    """Return the limits of a search of places. Time is limited by what the fastest network copies."""
    by_time = copying.max_time * float(bandwidths(state, copying.bandwidth).max()) / 8
    copies = [limit for limit in (copying.max_copy, by_time) if limit >= 0]
    moves = [limit for limit in (copying.max_moves, options.max_length) if limit >= 0]
    return Costs(min(copies, default=math.inf), math.inf, min(moves, default=math.inf))
