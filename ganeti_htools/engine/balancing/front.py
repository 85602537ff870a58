"""Plans between "no move" and the most even cluster, none of which is beaten in both score and copying.

The usual plan is the start of a search of final places (:mod:`.place_plans`). Plans lead to those places
that no others beat. The first steps of a plan are a plan too, so every plan found gives many.

``hbal --optimise`` takes the most even of them. Sets that stay together move as in the greedy plan. Its steps
up to the last one of a set come first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.balance import candidates, rebalance, score_of
from ganeti_htools.engine.balancing.place_plans import FREE, NEGLIGIBLE, PlacePlans, SearchPatience
from ganeti_htools.engine.balancing.replay import DIGITS, RatedPlan, Replay
from ganeti_htools.engine.balancing.visits import Visit
from ganeti_htools.engine.balancing.way_costs import TIB, weights_of
from ganeti_htools.engine.moving.traffic import bandwidths, copied, seconds
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model import tags
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State

SHARE = 0.15


class PricedPlan(NamedTuple):
    """The first steps of a plan, with the score then, the data they copy (MiB), and the time that takes (s).

    ``whole`` are all steps of the plan. ``weighted`` is the data with the factors of instances; ``charge``
    has the weights of the options too.
    """

    whole: Sequence[Move]
    length: int
    score: float
    disk: int = 0
    memory: int = 0
    weighted: float = 0.0
    charge: float = 0.0
    seconds: float = 0.0

    @property
    def copied(self) -> int:
        """The data that the steps copy."""
        return self.disk + self.memory

    @property
    def steps(self) -> Sequence[Move]:
        return self.whole[: self.length]

    @property
    def figures(self) -> tuple[float, float]:
        """The figures by which plans are compared: data to copy and score."""
        return self.weighted, round(self.score, DIGITS)

    def within(self, copying: CopyingOptions, options: BalancingOptions) -> bool:
        limits = (
            (self.copied, copying.max_copy),
            (self.length, copying.max_moves),
            (self.length, options.max_length),
            (self.seconds, copying.max_time),
        )
        return all(limit < 0 or figure <= limit for figure, limit in limits)


def default_price(state: State, scope: Bools) -> float:
    """Return the price (score for each TiB) at which the disks and memory of all instances of the nodes cost
    SHARE points, in three digits.
    """
    mib = sum(row.dsk + row.mem for row in compress(state.cluster.instances, scope[state.pnode]))
    return float(f"{SHARE * TIB / mib:.3g}") if mib else 0.0


def priced_plans(
    state: State, copying: CopyingOptions, score: float, steps: Iterable[Move]
) -> Iterator[PricedPlan]:
    """Yield "no move", which has the ``score``, and the plan up to each of the steps."""
    whole, places = tuple(steps), dict[int, tuple[int, ...]]()
    weights, speeds = weights_of(copying), bandwidths(state, 0)
    plan = PricedPlan(whole, 0, score)
    yield plan
    for step in whole:
        row, index = state.cluster.instances[step.instance], step.instance
        disk, memory = copied(step.kind, row)
        failovers = 0 if row.status.running else sum(not each.copies_disks for each in step.kind.operations)
        charge = weights.disk * disk + weights.memory * memory + weights.failover * failovers
        factor = tags.price_factor(row.tags)
        place = places.get(index) or state.nodes_of(index)
        places[index] = step.nodes
        plan = PricedPlan(
            whole,
            plan.length + 1,
            step.score,
            plan.disk + disk,
            plan.memory + memory,
            plan.weighted + factor * (disk + memory),
            plan.charge + factor * charge,
            plan.seconds + seconds(row, speeds, place, step.parts, copying.speed(row.template.value)),
        )
        yield plan


PLANS = 24  # final places to which plans are made
PRICES = 8  # prices of the search
# The highest price is the usual plan's gain for each MiB, once it has copied this part of all.
STEEP = 0.1


class Front(NamedTuple):
    """The usual plan, and plans that no plan found beats, the cheapest first.

    They are compared by score and by the data to copy, or by its price. The first is "no move", even if
    another one costs nothing. The usual plan may exceed limits of the options; the others keep to them.
    """

    usual: PricedPlan
    plans: Sequence[PricedPlan]


def front(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    copying: CopyingOptions,
    movable: Bools | None,
    patience: SearchPatience,
    usual_steps: Sequence[Move] | None = None,
) -> Front:
    """Compute the front. ``usual_steps`` are the usual plan, if it is known."""
    score = score_of(state, scope)

    def priced(steps: Sequence[Move]) -> Iterator[PricedPlan]:
        return priced_plans(state, copying, score, steps)

    if usual_steps is None:
        usual_steps = rebalance(state, scope, options, movable)[1]
    usual = list(priced(usual_steps))
    found = [plan for plan in usual if plan.within(copying, options)]
    prices = [1.0] if copying.priced else _prices(usual)
    places = PlacePlans(state, scope, options, copying, movable)
    promising = _cheapest if copying.priced else partial(_promising, usual[-1])
    for _, replay in places.plans(found[-1].steps, prices, patience, promising):
        found += (plan for plan in priced(replay.steps) if plan.within(copying, options))
    return Front(usual[-1], _unbeaten(found, attrgetter("charge" if copying.priced else "weighted")))


def choose(found: Front, copying: CopyingOptions, least: float | None = None) -> PricedPlan:
    """Choose a plan: by the price, by the score that it must reach, or the most even one.

    With ``least`` nobody has set the price: the plan gains at least so much more than it costs, and if the
    usual plan does so too, the plan is at least as even.
    """
    if least is not None:
        return _worthwhile(found, least)
    if copying.priced:
        return min(found.plans, key=lambda plan: (round(plan.score + plan.charge, DIGITS), plan.length))
    below = copying.cheapest_below
    if below is not None:
        return next((plan for plan in found.plans if plan.score <= below), found.plans[-1])
    return found.plans[-1]


def _worthwhile(found: Front, least: float) -> PricedPlan:
    def gain(plan: PricedPlan) -> float:
        return round(found.plans[0].score - plan.score - plan.charge, DIGITS)

    even = [plan for plan in found.plans if plan.figures[1] <= found.usual.figures[1]]
    plans = even if even and gain(found.usual) >= least else found.plans
    best = max(plans, key=lambda plan: (gain(plan), -plan.length))
    return best if gain(best) >= least else found.plans[0]


def spread(found: Front, number: int) -> list[PricedPlan]:
    """Select up to so many plans, evenly spread, without "no move"; see :func:`_evenly`."""
    figures = [plan.figures for plan in found.plans]
    chosen = sorted(_evenly(figures, found.usual.figures, number))
    return [found.plans[at] for at in chosen if found.plans[at].length]


def _unbeaten(plans: Iterable[PricedPlan], cost: Callable[[PricedPlan], float]) -> list[PricedPlan]:
    """Select the plans that no other beats in both cost and score, the cheapest first, and "no move"."""
    result = list[PricedPlan]()
    for plan in sorted(plans, key=lambda plan: (plan.length > 0, cost(plan), plan.figures[1], plan.length)):
        if not result or plan.figures[1] < result[-1].figures[1]:
            result.append(plan)
    return result


def _promising(usual: PricedPlan, visits: Sequence[Visit]) -> list[Visit]:
    """Select places for plans, evenly spread, the most important ones first."""
    figures = [(visit.costs.charge, visit.score) for visit in visits]
    return [visits[at] for at in _evenly(figures, (usual.charge, usual.score), PLANS)]


def _cheapest(visits: Sequence[Visit]) -> Iterator[Visit]:
    """Yield places by score and price, fewer and fewer: close ones have the same obstacles on the way."""
    ranked = sorted(visits, key=lambda visit: visit.score + visit.costs.charge)
    at = 0
    while at < len(ranked):
        yield ranked[at]
        at = 2 * at or 1


def _evenly(figures: Sequence[tuple[float, float]], usual: tuple[float, float], number: int) -> list[int]:
    """Choose among rising costs with falling scores: up to so many, evenly spread in both.

    The first, if there is room for them: the lowest score, the lowest score at the costs of the ``usual``
    plan, and the lowest costs at its score.
    """
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
    if len(figures) <= number:
        chosen += range(len(figures))
    return list(dict.fromkeys(chosen))[:number]


def _prices(usual: Sequence[PricedPlan]) -> list[float]:
    """Choose the prices of the search by the usual plan: geometric, the highest first."""
    end, gain = usual[-1], usual[0].score - usual[-1].score
    if not end.charge > 0:
        return [FREE]
    lowest = NEGLIGIBLE * max(end.score, STEEP * gain) / end.charge
    slopes = (
        (old.score - end.score) / (end.charge - old.charge)
        for old in usual
        if STEEP * end.charge <= old.charge < end.charge
    )
    ratio = (max(slopes, default=0.0) / lowest) ** (1 / (PRICES - 1))
    return [lowest * max(ratio, 2.0) ** power for power in reversed(range(PRICES))]


def optimise(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    copying: CopyingOptions,
    movable: Bools | None,
    patience: SearchPatience,
) -> tuple[RatedPlan, RatedPlan]:
    """Compute the greedy plan and the plan found that is chosen, which may be the same.

    Both obey the options.
    """
    steps = rebalance(state, scope, options, movable)[1]
    sets = placement_rules.in_sets(state)
    first, start, rest = steps[: _end(sets[[step.instance for step in steps]])], state, options
    if first:
        start = rebalance(state, scope, replace(options, max_length=len(first)), movable)[0]
        if options.max_length >= 0:
            rest = replace(options, max_length=options.max_length - len(first))
    free = ~sets if movable is None else movable & ~sets
    found = front(start, scope, rest, copying, free, patience, steps[len(first) :])

    def rated(steps: Sequence[Move]) -> RatedPlan:
        replay = Replay(state, scope, options, candidates(state, scope, movable))
        for step in steps:
            replay.remake(step)
        return replay.plan()

    chosen = choose(found, copying, options.min_gain if copying.priced else None)
    return rated(steps), rated((*first, *chosen.steps))


def _end(marks: Bools) -> int:
    """Return the place behind the last mark, 0 without marks."""
    return int(np.flatnonzero(marks).max(initial=-1)) + 1
