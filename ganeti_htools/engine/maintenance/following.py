"""Moves of instances along given ways: part by part, and the members of a set one after the other."""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.allocation.move_parts import try_part
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.rules import placement_rules, settling
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import Move, MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

_MOST_PARTS = 3  # from any two nodes to any two others
Nodes = tuple[int, int]  # rows of primary and secondary, NOWHERE without one
Ways = dict[int, Sequence[MovePart]]  # by instance (row), in order


def units(state: State, rows: Iterable[int]) -> list[list[int]]:
    """Group instances (rows): those that stay together, mirrored ones first, and each other one by itself."""
    left, found = dict.fromkeys(rows), list[list[int]]()
    while left:
        mates = placement_rules.mates(state, first := next(iter(left)))
        members = [row for row in left if row == first or row in mates]
        found.append(sorted(members, key=lambda row: bool(state.snode[row] == NOWHERE)))
        for row in members:
            del left[row]
    return found


def moved_along(state: State, ways: Ways) -> list[Move]:
    """Describe instances that have moved together, in the state afterwards."""
    last = next(reversed(ways), NOWHERE)
    return [
        Move(index, tuple(parts), state.nodes_of(index), with_next=index != last)
        for index, parts in ways.items()
    ]


def start(state: State, index: int, reporter: Reporter) -> None:
    """Report that an instance is going to leave or return."""
    reporter.starting(state, state.instance(index), state.group == state.group[state.pnode[index]])


def ways_to(state: State, index: int, end: Nodes) -> list[tuple[MovePart, ...]]:
    """Return the ways of an instance (row) to its nodes in the end; an empty one if it is there already.

    Those with the fewest copies come first, then those with the fewest operations.
    """
    here = state.node_pair(index)
    primary, secondary = end
    mirror = state.cluster.instances[index].template.mirror
    if mirror is not MirrorType.INTERNAL:
        if here[0] == primary:
            return [()]
        return [(MovePart(Operation.FAILOVER_TO, primary),)] if mirror is MirrorType.EXTERNAL else []
    if _leads(here, (), end):
        return [()]
    choices = [MovePart(Operation.FAILOVER), MovePart(Operation.REPLACE_SECONDARY, primary)]
    if secondary != NOWHERE:
        choices.append(MovePart(Operation.REPLACE_SECONDARY, secondary))
    ways = (way for count in range(_MOST_PARTS + 1) for way in product(choices, repeat=count))
    return sorted((way for way in ways if _leads(here, way, end)), key=_effort)


def _leads(here: Nodes, way: tuple[MovePart, ...], end: Nodes) -> bool:
    for part in way:
        if part.operation is Operation.REPLACE_SECONDARY and part.node in here:
            return False
        here = part.operation.nodes(*here, part.node)
    return here[0] == end[0] and end[1] in (NOWHERE, here[1])


def _effort(way: tuple[MovePart, ...]) -> tuple[int, int]:
    return sum(part.operation.copies_disks for part in way), len(way)


def follow_any(
    state: State,
    index: int,
    ways: Sequence[tuple[MovePart, ...]],
    shut: Bools,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> tuple[MovePart, ...] | str:
    """Move an instance along the first possible way, in place. Returns it, or why the first is impossible.

    The arguments are those of :func:`follow`.
    """
    trials = ways if len(ways) > 1 else ()
    possible = (parts for parts in trials if follow(state.copy(), index, parts, shut, options) is None)
    parts = next(possible, ways[0])
    return follow(state, index, parts, shut, options, reporter) or parts


def follow(
    state: State,
    index: int,
    parts: Sequence[MovePart],
    shut: Bools,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> str | None:
    """Move an instance along its way, in place. Returns why a part is impossible, or None.

    ``shut`` nodes take no instances. Each part is reported, the impossible one is not ended. The instance may
    leave those with which it stays together: :func:`.placement_rules.apart` judges the end of all.
    """
    asked = state.instance(index)
    for part in parts:
        start(state, index, reporter)
        target = part.node if part.operation.takes_node else int(state.snode[index])
        if target == NOWHERE or shut[target]:
            name = "no secondary" if target == NOWHERE else state.cluster.nodes[target].name
            return f"{name} takes no instances"
        if target == state.pnode[index]:
            return f"it is on {state.cluster.nodes[target].name} already"
        trial = try_part(placement_rules.without_sets(state), asked, part, options)
        reporter.judged(np.array([target]), trial)
        code = int(trial.codes.ravel()[0])
        if code != FITS:
            why = f"it does not fit on {state.cluster.nodes[target].name} ({FAIL[code].value})"
            figures = None
            if reporter is not SILENT:
                role = SECONDARY if part.operation is Operation.REPLACE_SECONDARY else PRIMARY
                figures = shortage.explain_move(state, trial, np.array([target]), role, options)
            return f"{why}; {figures}" if figures else why
        settling.settle(state, trial)
        reporter.placed(state.nodes_of(index))
    return None
