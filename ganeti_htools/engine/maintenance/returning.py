"""Instances that return to their homes, or are balanced, when maintenance ends (``hmaintain(1)``)."""

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np

from ganeti_htools.engine.allocation.evacuate import MovedInstance
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.maintenance.emptying import STAYING, Emptying, fail, stays
from ganeti_htools.engine.maintenance.ways import follow, moved_along, start, units
from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.engine.redundancy.recoverability import describe_lost, unrecoverable
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

_MOST_PARTS = 3  # from any two nodes to any two others
Nodes = tuple[int, int]  # rows of primary and secondary, NOWHERE without one


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
    rows, moved, refused = state.cluster.instances, list[MovedInstance](), list[tuple[int, str]]()
    lost = lost_now(state) if safe else np.zeros(len(rows), np.bool_)
    for unit in units(state, sorted(homes, key=lambda index: -rows[index].mem)):
        ways = {index: way for index in unit if (way := way_home(state, index, homes[index])) != ()}
        tried, why, index = state.copy(), None, NOWHERE
        for index, parts in ways.items():
            start(tried, index, reporter)
            why = stays(state, index)
            if why is not None:
                pass
            elif not movable[index]:
                why = STAYING
            elif parts is None:
                why = "no moves lead home"
            else:
                why = follow(tried, index, parts, state.columns.offline, options, reporter)
            if why is not None:
                break
        now = _after_move(tried, lost, index) if ways and why is None and safe else lost
        if why is None and (new := np.flatnonzero(now & ~lost).tolist()):
            why = describe_lost(tried, new)
            start(tried, index, reporter)
        if why is not None:
            reasons = {index: why, **dict.fromkeys(ways, why)}
            refused += fail(tried, [index], reasons, reporter)
        else:
            state, lost = tried, now
            moved += moved_along(state, {index: parts or () for index, parts in ways.items()})
    return Emptying(tuple(moved), state, (), tuple(refused))


def balance(state: State, rows: Iterable[int], movable: Bools, options: PlacementOptions) -> Emptying:
    """Balance the groups of nodes (rows), as ``hbal(1)`` does without options."""
    moved = list[MovedInstance]()
    for group in dict.fromkeys(state.group[list(rows)].tolist()):
        wanted = BalancingOptions(ignore_soft_errors=options.ignore_soft_errors)
        state, steps = rebalance(state, state.group == group, wanted, movable)
        for step in steps:
            parts = (
                MovePart(each, step.node if each.takes_node else NOWHERE) for each in step.kind.operations
            )
            nodes = tuple(node for node in (step.pnode, step.snode) if node != NOWHERE)
            moved.append(MovedInstance(step.instance, group, nodes, tuple(parts), step.with_next))
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


def way_home(state: State, index: int, home: Nodes) -> tuple[MovePart, ...] | None:
    """Return the way with the fewest copies, then the fewest operations; None if there is none."""
    here = int(state.pnode[index]), int(state.snode[index])
    primary, secondary = home
    mirror = state.cluster.instances[index].template.mirror
    if mirror is not MirrorType.INTERNAL:
        if here[0] == primary:
            return ()
        return (MovePart(Operation.FAILOVER_TO, primary),) if mirror is MirrorType.EXTERNAL else None
    choices = [MovePart(Operation.FAILOVER), MovePart(Operation.REPLACE_SECONDARY, primary)]
    if secondary != NOWHERE:
        choices.append(MovePart(Operation.REPLACE_SECONDARY, secondary))
    ways = (way for count in range(_MOST_PARTS + 1) for way in product(choices, repeat=count))
    leading = (way for way in ways if _leads(here, way, home))
    return min(leading, key=_effort, default=None)


def _leads(here: Nodes, way: tuple[MovePart, ...], home: Nodes) -> bool:
    for part in way:
        if part.operation is Operation.REPLACE_SECONDARY and part.node in here:
            return False
        here = part.operation.nodes(*here, part.node)
    return here[0] == home[0] and home[1] in (NOWHERE, here[1])


def _effort(way: tuple[MovePart, ...]) -> tuple[int, int]:
    return sum(part.operation.copies_disks for part in way), len(way)
