"""Better plans than the greedy one: better final places, and a shorter way there (``hbal --optimise``).

Sets that stay together move as in the greedy plan. Its steps up to the last one of a set come first.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.balancing.balance import Step, rebalance, score_of
from ganeti_htools.engine.balancing.place_plans import FREE, NEGLIGIBLE, PlacePlans
from ganeti_htools.engine.balancing.replay import RatedPlan
from ganeti_htools.engine.balancing.ways import volume_of
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State

PLANS = 8  # places to which plans are made, the most even first, until one is better than the greedy plan


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
    greedy = RatedPlan(tuple(steps), score_of(found, scope), _volume(state, steps), found.copy())
    sets = placement_rules.in_sets(state)
    first, start = steps[: _end(sets[[step.instance for step in steps]])], state
    if first:
        start = rebalance(state, scope, replace(options, max_length=len(first)), movable)[0]
        if options.max_length >= 0:
            options = replace(options, max_length=options.max_length - len(first))
    free = ~sets if movable is None else movable & ~sets
    places, volume = PlacePlans(start, scope, options, CopyingOptions(), free), _volume(state, first)
    prices = [NEGLIGIBLE * greedy.score / max(1, greedy.volume), FREE]
    for visit in places.search(steps[len(first) :], prices, going)[: -PLANS - 1 : -1]:
        plan = places.replay(visit).plan()
        if plan:
            plan = replace(plan, steps=(*first, *plan.steps), volume=volume + plan.volume)
            if plan.rank < greedy.rank:
                return greedy, plan
    return greedy, greedy


def _volume(state: State, steps: Sequence[Step]) -> int:
    """Compute the data (MiB) that steps copy."""
    return sum(volume_of(state, step.instance, step.kind) for step in steps)


def _end(marks: Bools) -> int:
    """Return the place behind the last mark, 0 without marks."""
    return int(np.flatnonzero(marks).max(initial=-1)) + 1
