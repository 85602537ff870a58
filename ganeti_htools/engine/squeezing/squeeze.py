"""Choose nodes to power down, and nodes to power up again (``hsqueeze(1)``).

Nodes can be powered down if balancing, with these nodes offline, brings every instance to an online node
and leaves room on each node for a given instance. Powering nodes up suffices if the same holds afterwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from ganeti_htools.engine.rules.placement_rules import in_sets
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_down import power_down
from ganeti_htools.engine.squeezing.power_group import PowerGroup, power_group
from ganeti_htools.engine.squeezing.power_plan import (
    ANY,
    AllowedMoves,
    Phase,
    PowerPlan,
    Progress,
    ReserveByGroup,
    Wishes,
)
from ganeti_htools.engine.squeezing.power_up import power_up
from ganeti_htools.engine.squeezing.reserve import room_on_all
from ganeti_htools.model.columns import Bools, sorted_unique
from ganeti_htools.model.moves import Move
from ganeti_htools.model.state import State


def plan(
    state: State,
    minimum: ReserveByGroup,
    target: ReserveByGroup,
    movable: Bools,
    progress: Progress = lambda _a, _b: None,
    wishes: Wishes = ANY,
) -> PowerPlan:
    """Power nodes up if some node lacks room for ``minimum``, else down as far as ``target`` allows.

    Each node group is planned by itself. While a group needs nodes, none is powered down, except nodes that
    the new ones replace, and none of a group that fails N+1. ``target`` is at least ``minimum``. While
    instances stay where they are, a second plan is empty, unless ``wishes`` limit the number of nodes.
    Sets that stay together leave nodes that are powered down; powering up leaves them where they are.
    """
    scopes: list[Bools] = [state.group == row for row in np.unique(state.group)]

    def group(state: State, scope: Bools, movable: Bools = movable) -> PowerGroup:
        row = int(state.group[scope][0])
        return power_group(state, scope, movable, minimum[row], target[row], wishes.allowed)

    now, ups, downs = state, list[PowerPlan](), list[PowerPlan]()
    for scope in scopes:
        if not room_on_all(state, scope, minimum):
            ups.append(power_up(group(now, scope, movable & ~in_sets(state)), progress, wishes))
            now = ups[-1].state
    refused = {row: why for part in ups for row, why in part.refused.items()}
    if not all(part.enough for part in ups):
        return PowerPlan(_merged(ups), now, enough=False, refused=refused)
    for scope in scopes:
        done = sum(len(part.nodes) for part in downs)
        left = None if wishes.most is None else max(0, wishes.most - done)
        downs.append(power_down(group(now, scope), progress, replace(wishes, most=left)))
        now = downs[-1].state
    phases = _merged(downs)
    down = {node for phase in phases for node in phase.nodes}
    kept = {node: why for part in downs for node, why in part.obstacles.items() if node not in down}
    return PowerPlan((*_merged(ups), *phases), now, obstacles=kept, refused=refused)


def unsparable(
    state: State, target: ReserveByGroup, movable: Bools, allowed: AllowedMoves
) -> dict[int, str] | None:
    """Return why all candidates surely stay, by bounds; None if one may go, :func:`plan` finds out.

    Arguments as there.
    """
    kept, possible = dict[int, str](), offline_candidates(state, allowed)[::-1]
    for row in sorted_unique(state.group[possible]).tolist():
        group = power_group(state, state.group == row, movable, target[row], target[row], allowed)
        for node in group.within(possible):
            why = group.infeasible([node], True, target[row]) or group.stranded([node])
            if why is None:
                return None
            kept[node] = why
    return kept


def _merged(parts: Sequence[PowerPlan]) -> tuple[Phase, ...]:
    """Merge the phases of plans for groups; phases that may run at the same time become one."""
    return tuple(map(_together, zip_longest(*(part.phases for part in parts))))


def _together(phases: Sequence[Phase | None]) -> Phase:
    """Merge phases of groups. Their steps alternate, so that many can run at once."""
    parts = [phase for phase in phases if phase is not None]
    units = zip_longest(*(_units(part.steps) for part in parts), fillvalue=())
    return Phase(
        parts[0].action,
        tuple(node for part in parts for node in part.nodes),
        tuple(step for some in units for unit in some for step in unit),
        frozenset(node for part in parts for node in part.late),
    )


def _units(steps: Sequence[Move]) -> Iterator[tuple[Move, ...]]:
    """Yield the steps of each set that stays together, and each other step by itself."""
    first = 0
    for end, step in enumerate(steps, 1):
        if not step.with_next:
            yield tuple(steps[first:end])
            first = end
