"""Better plans than the greedy one: better final places, and a shorter way there (``hbal --optimise``).

Sets that stay together move as in the greedy plan. Its steps up to the last one of a set come first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from ganeti_htools.engine.balancing.balance import Step, rebalance, score_of
from ganeti_htools.engine.balancing.patience import SearchPatience
from ganeti_htools.engine.balancing.place_plans import FREE, NEGLIGIBLE, PlacePlans
from ganeti_htools.engine.balancing.replay import RatedPlan
from ganeti_htools.engine.balancing.visits import Visit
from ganeti_htools.engine.balancing.ways import volume_of
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State

CLOSE = 1e-6  # the scores of places and of a plan that reaches them


def optimise(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    movable: Bools | None,
    patience: SearchPatience,
) -> tuple[RatedPlan, RatedPlan]:
    """Compute the greedy plan and the best plan found, which may be the same.

    Both obey the options.
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
    low = NEGLIGIBLE * greedy.score / max(1, greedy.volume)
    prices = [10 * low, low, FREE]
    best = greedy

    def better(visits: Sequence[Visit]) -> Iterator[Visit]:
        """Yield the last visits, then fewer and fewer: close ones have the same obstacles on the way."""
        at = 0
        while at < len(visits) and visits[-1 - at].score + CLOSE < best.score:
            yield visits[-1 - at]
            at = 2 * at or 1

    for _, replay in places.plans(steps[len(first) :], prices, patience, better):
        plan = replay.shortened().plan()
        if plan:
            plan = replace(plan, steps=(*first, *plan.steps), volume=volume + plan.volume)
            best = min(best, plan, key=attrgetter("rank"))
    return greedy, best


def _volume(state: State, steps: Sequence[Step]) -> int:
    """Compute the data (MiB) that steps copy."""
    return sum(volume_of(state, step.instance, step.kind) for step in steps)


def _end(marks: Bools) -> int:
    """Return the place behind the last mark, 0 without marks."""
    return int(np.flatnonzero(marks).max(initial=-1)) + 1
