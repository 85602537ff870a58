"""Instances that return to their homes, or are balanced, when maintenance ends (``hmaintain(1)``)."""

from collections.abc import Iterable, Mapping

import numpy as np

from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.maintenance.emptying import STAYING, Emptying, fail, stays
from ganeti_htools.engine.maintenance.following import (
    Nodes,
    Ways,
    follow_any,
    moved_along,
    start,
    units,
    ways_to,
)
from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.engine.redundancy.recoverability import describe_lost, unrecoverable
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.state import State


def return_home(
    state: State,
    homes: Mapping[int, Nodes],
    movable: Bools,
    options: PlacementOptions,
    safe: bool = True,
    reporter: Reporter = SILENT,
) -> Emptying:
    """Bring instances (rows) home one after the other, those with most memory first; sets as a whole.

    With ``safe`` no move may take an instance's redundancy.
    """
    rows, moved, refused = state.cluster.instances, list[Move](), list[tuple[int, str]]()
    lost = lost_now(state) if safe else np.zeros(len(rows), np.bool_)
    for unit in units(state, sorted(homes, key=lambda index: -rows[index].mem)):
        ways = {index: found for index in unit if (found := ways_to(state, index, homes[index])) != [()]}
        tried, why, index, made = state.copy(), None, NOWHERE, Ways()
        for index, choices in ways.items():
            start(tried, index, reporter)
            why = stays(state, index)
            if why is not None:
                pass
            elif not movable[index]:
                why = STAYING
            elif not choices:
                why = "no moves lead home"
            else:
                parts = follow_any(tried, index, choices, state.columns.offline, options, reporter)
                if isinstance(parts, str):
                    why = parts
                else:
                    made[index] = parts
            if why is not None:
                break
        if why is None and placement_rules.apart(tried, state)[list(ways)].any():
            why = placement_rules.reason_to_stay(state, index)
            start(tried, index, reporter)
        now = _after_move(tried, lost, index) if ways and why is None and safe else lost
        if why is None and (new := np.flatnonzero(now & ~lost).tolist()):
            why = describe_lost(tried, new)
            start(tried, index, reporter)
        if why is not None:
            reasons = {index: why, **dict.fromkeys(ways, why)}
            refused += fail(tried, [index], reasons, reporter)
        else:
            state, lost = tried, now
            moved += moved_along(state, made)
    return Emptying(tuple(moved), state, (), tuple(refused))


def balance(state: State, rows: Iterable[int], movable: Bools, options: PlacementOptions) -> Emptying:
    """Balance the groups of nodes (rows), as ``hbal(1)`` does without options."""
    moved = list[Move]()
    for group in dict.fromkeys(state.group[list(rows)].tolist()):
        wanted = BalancingOptions(ignore_soft_errors=options.ignore_soft_errors)
        state, steps = rebalance(state, state.group == group, wanted, movable)
        moved += steps
    return Emptying(tuple(moved), state)


def _after_move(state: State, lost: Bools, index: int) -> Bools:
    """Return who would not come back after a move within a group; ``lost`` are those of the state before."""
    scope = state.group == state.group[state.pnode[index]]
    now: Bools = (lost & ~scope[state.pnode]) | unrecoverable(state, scope)
    return now


def lost_now(state: State) -> Bools:
    """Mark the instances that would not come back after the loss of their primary."""
    found = np.zeros(len(state.pnode), np.bool_)
    for group in groups(state):
        found |= unrecoverable(state, state.group == group)
    return found
