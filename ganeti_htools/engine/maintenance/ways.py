"""Moves of instances along given ways: part by part, and the members of a set one after the other."""

from collections.abc import Iterable, Sequence

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.allocation.evacuate import MovedInstance
from ganeti_htools.engine.allocation.move_parts import try_part
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.rules import placement_rules, settling
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State

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


def moved_along(state: State, ways: Ways) -> list[MovedInstance]:
    """Describe instances that have moved together, in the state afterwards."""
    last = next(reversed(ways), NOWHERE)
    return [moved_to(state, index, parts, index != last) for index, parts in ways.items()]


def moved_to(state: State, index: int, parts: Sequence[MovePart], with_next: bool = False) -> MovedInstance:
    """Describe an instance that has moved, in the state afterwards."""
    nodes = places(state, index)
    return MovedInstance(index, int(state.group[nodes[0]]), nodes, tuple(parts), with_next)


def places(state: State, index: int) -> tuple[int, ...]:
    """Return the nodes (rows) of an instance, primary first."""
    return tuple(int(row[index]) for row in (state.pnode, state.snode) if row[index] != NOWHERE)


def start(state: State, index: int, reporter: Reporter) -> None:
    """Report that an instance is going to leave or return."""
    reporter.starting(state, state.instance(index), state.group == state.group[state.pnode[index]])


def follow(
    state: State,
    index: int,
    parts: Sequence[MovePart],
    shut: Bools,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> str | None:
    """Move an instance along its way, in place. Returns why a part is impossible, or None.

    ``shut`` nodes take no instances. On the way an instance may be without those with which it stays
    together. Each part is reported, the impossible one is not ended.
    """
    asked, end = state.instance(index), (int(state.pnode[index]), int(state.snode[index]))
    for part in parts:
        end = part.operation.nodes(*end, part.node)
    if placement_rules.leaves_mates(state, index, *end):
        return "it would leave those with which it stays together"
    for part in parts:
        start(state, index, reporter)
        target = part.node if part.operation.takes_node else int(state.snode[index])
        if target == NOWHERE or shut[target]:
            name = "no secondary" if target == NOWHERE else state.cluster.nodes[target].name
            return f"{name} takes no instances"
        if target == (state.pnode[index]):
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
        reporter.placed(places(state, index))
    return None
