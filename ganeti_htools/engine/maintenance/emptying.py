"""Nodes that are emptied for maintenance (``hmaintain(1)``).

Primaries leave by migration or failover; with ``secondaries`` disks are copied as well. Ganeti moves nothing
to a drained node, so an instance whose other node is closed first gets another one. Instances that stay
together (``htools:together``) go the same way, or stay.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from ganeti_htools.engine.allocation.evacuate import MovedInstance
from ganeti_htools.engine.allocation.leave import leave
from ganeti_htools.engine.allocation.move_parts import try_operation
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.maintenance.ways import (
    Ways,
    follow,
    moved_along,
    places,
    start,
    units,
    way_to,
)
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import EvacMode, MirrorType

STAYING = "it must not be moved"
_COPIES = "they have several secondaries; --empty copies disks"
_TRIED = 16  # nodes, of which one or two are tried for a whole set


@dataclass(frozen=True, slots=True)
class Emptying:
    """Moves of instances that leave nodes or return to them, and the state afterwards.

    * ``staying``: instances (rows) that cannot move by their kind or tags, with the reasons.
    * ``refused``: instances that could move but must not or find no place, with the reasons.
    """

    moved: tuple[MovedInstance, ...]
    state: State
    staying: tuple[tuple[int, str], ...] = ()
    refused: tuple[tuple[int, str], ...] = ()


def empty_nodes(
    state: State,
    leaving: Bools,
    secondaries: bool,
    movable: Bools,
    options: PlacementOptions,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    reporter: Reporter = SILENT,
) -> Emptying:
    """Move instances off nodes, those with most memory first, each to the best place then."""
    rows = concerned(state, leaving, secondaries)
    moved, staying, refused = list[MovedInstance](), list[tuple[int, str]](), list[tuple[int, str]]()
    for unit in units(state, rows):
        progress(len(moved) + len(staying) + len(refused), len(rows))
        start(state, unit[0], reporter)
        reasons = {index: why for index in unit if (why := stays(state, index)) is not None}
        if reasons:
            staying += fail(state, unit, reasons, reporter)
        elif not movable[unit].all():
            refused += fail(state, unit, dict.fromkeys(unit, STAYING), reporter)
        else:
            tried = state.copy()
            leave_nodes = _leave_together if placement_rules.mates(state, unit[0]) else _leave
            try:
                ways = leave_nodes(tried, unit, leaving, secondaries, options, reporter)
            except RequestFailed as failure:
                refused += fail(state, unit, dict.fromkeys(unit, str(failure)), reporter)
            else:
                state = tried
                moved += moved_along(state, ways)
    return Emptying(tuple(moved), closed(state, leaving), tuple(staying), tuple(refused))


def concerned(state: State, leaving: Bools, secondaries: bool) -> list[int]:
    """Return the instances (rows) that have to leave, those with most memory first."""
    found = leaving[state.pnode]
    if secondaries:
        found = found | (leaving[state.snode] & (state.snode != NOWHERE))
    rows = state.cluster.instances
    return sorted(np.flatnonzero(found).tolist(), key=lambda index: -rows[index].mem)


def fail(
    state: State, unit: Sequence[int], reasons: Mapping[int, str], reporter: Reporter
) -> list[tuple[int, str]]:
    """Report why instances do not move. That the first one was to move has been reported."""
    for index, why in reasons.items():
        if index != unit[0]:
            start(state, index, reporter)
        reporter.failed(why)
    return [*reasons.items()]


def stays(state: State, index: int) -> str | None:
    """Return why an instance neither migrates nor fails over, by its kind or its tags; None if it may.

    It stays if another one stays with which it has to be together.
    """
    why = _stays_alone(state, index)
    if why is None and any(_stays_alone(state, mate) for mate in placement_rules.mates(state, index)):
        return placement_rules.reason_to_stay(state, index)
    return why


def _stays_alone(state: State, index: int) -> str | None:
    template = state.cluster.instances[index].template
    if template.mirror is MirrorType.NONE:
        return f"{template.value} instances neither migrate nor fail over"
    if template.mirror is MirrorType.INTERNAL and state.snode[index] == NOWHERE:
        return "it has no secondary"
    return placement_rules.reason_to_stay(state, index, sets=True)


def closed(state: State, nodes: Bools) -> State:
    """Return a copy of a state in which these nodes take no instances."""
    return replace(state, columns=state.columns._replace(offline=state.columns.offline | nodes))


def _leave(
    state: State,
    unit: Sequence[int],
    leaving: Bools,
    secondaries: bool,
    options: PlacementOptions,
    reporter: Reporter,
) -> Ways:
    """Move one instance off the nodes, in place; returns its parts. Raises RequestFailed."""
    (index,) = unit
    asked, group = state.instance(index), int(state.group[state.pnode[index]])
    shut, parts = leaving | state.columns.offline, list[MovePart]()
    for mode in _modes(state, index, leaving, secondaries):
        own = [int(state.pnode[index]), int(state.snode[index])]
        usable = (state.group == group) & ~shut
        usable[[node for node in own if node != NOWHERE]] = False
        start(state, index, reporter)
        parts += leave(state, asked, mode, group, np.flatnonzero(usable), options, reporter)
        reporter.placed(places(state, index))
    return {index: parts}


def _modes(state: State, index: int, leaving: Bools, secondaries: bool) -> list[EvacMode]:
    """Return the roles in which an instance leaves nodes, in order. Raises RequestFailed."""
    primary, secondary = int(state.pnode[index]), int(state.snode[index])
    if secondary == NOWHERE:
        return [EvacMode.PRIMARY]
    modes = list[EvacMode]()
    if leaving[primary]:
        if (leaving | state.columns.offline)[secondary]:
            if not secondaries:
                other = state.cluster.nodes[secondary].name
                raise RequestFailed(f"its secondary {other} takes no instances; --empty copies its disks")
            modes.append(EvacMode.SECONDARY)
        modes.append(EvacMode.PRIMARY)
        secondary = primary
    if secondaries and leaving[secondary]:
        modes.append(EvacMode.SECONDARY)
    return modes


def _leave_together(
    state: State,
    unit: Sequence[int],
    leaving: Bools,
    secondaries: bool,
    options: PlacementOptions,
    reporter: Reporter,
) -> Ways:
    """Move members of a set, in place, to where the score is lowest then; returns the parts of each.

    Members without a mirror follow those with one. Of equal places the last wins. Raises RequestFailed if
    there is no place for all.
    """
    mates, shut = placement_rules.mates(state, unit[0]), leaving | state.columns.offline
    operations = [_operation(state, unit[0], mode) for mode in _modes(state, unit[0], leaving, secondaries)]
    scope = state.group == state.group[state.pnode[unit[0]]]
    best, lowest, why = Ways(), math.inf, "no other node takes instances"
    rows = _nodes_to_try(state, unit, mates, scope & ~shut, options)
    for nodes in permutations(rows, sum(each.takes_node for each in operations)):
        new, end = iter(nodes), (int(state.pnode[unit[0]]), int(state.snode[unit[0]]))
        for each in operations:
            end = each.nodes(*end, next(new) if each.takes_node else NOWHERE)
        ways: Ways = {index: way_to(state, index, end) or () for index in unit}
        tried = state.copy()
        copies = any(part.operation.copies_disks for parts in ways.values() for part in parts)
        failures = (follow(tried, index, parts, shut, options) for index, parts in ways.items())
        failure = _COPIES if copies and not secondaries else next(filter(None, failures), None)
        if failure is None and placement_rules.apart(tried, state)[unit].any():
            failure = "others of them are elsewhere"
        if failure is not None:
            why = failure
        elif not (score := score_of(tried, scope)) > lowest:  # not a number while a node reports nothing
            best, lowest = ways, score
    if not best:
        names = ", ".join(state.cluster.instances[index].name for index in sorted({*unit, *mates}))
        raise RequestFailed(f"no place for all of {names}, which stay together: {why}")
    for index, parts in best.items():
        follow(state, index, parts, shut, options, reporter)
    return best


def _nodes_to_try(
    state: State, unit: Sequence[int], mates: Sequence[int], usable: Bools, options: PlacementOptions
) -> list[int]:
    """Return the nodes (rows) to try for a set, in order.

    These are first the nodes of members elsewhere, then those that take each member now, then those with most
    free memory.
    """
    free, near = state.columns.unallocated, [row for mate in mates for row in places(state, mate)]
    rows = np.flatnonzero(usable & ~np.isin(np.arange(len(usable)), places(state, unit[0])))
    fits = np.ones(len(rows), np.bool_)
    for index in unit:
        operation = _operation(state, index, EvacMode.SECONDARY)
        fits &= try_operation(state, state.instance(index), operation, rows, options).codes == FITS
    order = np.lexsort((-free[rows], ~fits, ~np.isin(rows, near)))
    return sorted(rows[order[:_TRIED]].tolist())


def _operation(state: State, index: int, mode: EvacMode) -> Operation:
    if state.snode[index] == NOWHERE:
        return Operation.FAILOVER_TO
    return Operation.FAILOVER if mode is EvacMode.PRIMARY else Operation.REPLACE_SECONDARY
