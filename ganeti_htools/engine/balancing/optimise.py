"""Better plans than the greedy one: better final places, and a shorter way there (``hbal --optimise``).

Sets that stay together move as in the greedy plan. Its steps up to the last one of a set come first.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.balancing.balance import candidates, rebalance
from ganeti_htools.engine.balancing.front import choose, front
from ganeti_htools.engine.balancing.patience import SearchPatience
from ganeti_htools.engine.balancing.replay import RatedPlan, Replay
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State


def optimise(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    copying: CopyingOptions,
    movable: Bools | None,
    patience: SearchPatience,
) -> tuple[RatedPlan, RatedPlan]:
    """Compute the greedy plan and the plan found that is chosen, which may be the same.

    Both parse_or_exit the options.
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
