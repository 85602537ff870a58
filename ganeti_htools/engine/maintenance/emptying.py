"""Nodes that are emptied for maintenance (``hmaintain(1)``).

Primaries leave by migration or failover; with ``secondaries`` disks are copied as well. Ganeti moves nothing
to a drained node, so an instance whose other node is closed first gets another one. Instances that stay
together (``htools:together``) go the same way, or stay.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from ganeti_htools.engine.allocation.leave import leave
from ganeti_htools.engine.allocation.move_parts import try_operation
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.maintenance.following import (
    Nodes,
    Ways,
    follow,
    follow_any,
    moved_along,
    start,
    units,
    ways_to,
)
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import Move, MovePart, Operation
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

    moved: tuple[Move, ...]
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
    departure = _Departure(leaving, secondaries, options, reporter)
    moved, staying, refused = list[Move](), list[tuple[int, str]](), list[tuple[int, str]]()
    for unit in units(state, rows):
        progress(len(moved) + len(staying) + len(refused), len(rows))
        start(state, unit[0], reporter)
        reasons = {index: why for index in unit if (why := stays(state, index)) is not None}
        if reasons:
            staying += fail(state, unit, reasons, reporter)
        elif not movable[unit].all():
            refused += fail(state, unit, dict.fromkeys(unit, STAYING), reporter)
        else:
            alone = not placement_rules.mates(state, unit[0])
            searches = (departure.alone, departure.exchanged) if alone else (departure.together,)
            failure = ""
            for search in searches:
                tried = state.copy()
                try:
                    ways = search(tried, unit)
                except RequestFailed as failed:
                    failure = failure or str(failed)
                else:
                    state = tried
                    moved += moved_along(state, ways)
                    break
            else:
                refused += fail(state, unit, dict.fromkeys(unit, failure), reporter)
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


@dataclass(frozen=True, slots=True)
class _Departure:
    """The nodes that instances leave, with or without ``secondaries``.

    Its moves are made in place, and raise RequestFailed.
    """

    leaving: Bools
    secondaries: bool
    options: PlacementOptions
    reporter: Reporter

    def alone(self, state: State, unit: Sequence[int]) -> Ways:
        """Move one instance off the nodes; returns its parts."""
        (index,) = unit
        asked, group = state.instance(index), int(state.group[state.pnode[index]])
        parts = list[MovePart]()
        for mode in self._modes(state, index):
            usable = (state.group == group) & ~self._shut(state)
            usable[list(state.nodes_of(index))] = False
            start(state, index, self.reporter)
            targets = np.flatnonzero(usable)
            parts += leave(state, asked, mode, group, targets, self.options, self.reporter)
            self.reporter.placed(state.nodes_of(index))
        return {index: parts}

    def exchanged(self, state: State, unit: Sequence[int]) -> Ways:
        """Give one instance another primary than its secondary; returns its parts.

        The new primary is the secondary for a while. The old secondary becomes it again where no other node
        can. Of equal places the last wins.
        """
        (index,), best, lowest = unit, list[MovePart](), math.inf
        asked, (primary, secondary) = state.instance(index), state.node_pair(index)
        group, shut = int(state.group[primary]), self._shut(state)
        exchanges = self.secondaries and self.leaving[primary] and secondary != NOWHERE
        usable = (state.group == group) & ~shut & exchanges
        others = np.flatnonzero(usable & (np.arange(len(usable)) != secondary))
        with suppress(RequestFailed):
            best = leave(state.copy(), asked, EvacMode.ALL, group, others, self.options)
        for node in others.tolist() if not best else ():
            tried, targets = state.copy(), np.flatnonzero(usable & (np.arange(len(usable)) != node))
            parts = [MovePart(Operation.REPLACE_SECONDARY, node), MovePart(Operation.FAILOVER)]
            if follow(tried, index, parts, shut, self.options) is None:
                with suppress(RequestFailed):
                    parts += leave(tried, asked, EvacMode.SECONDARY, group, targets, self.options)
                    if not (score := score_of(tried, state.group == group)) > lowest:
                        best, lowest = parts, score
        if not best:
            raise RequestFailed("no other node can be its primary")
        follow(state, index, best, shut, self.options, self.reporter)
        return {index: best}

    def together(self, state: State, unit: Sequence[int]) -> Ways:
        """Move members of a set to where the score is lowest then; returns the parts of each.

        Members without a mirror follow those with one. Of equal places the last wins.
        """
        mates, shut = placement_rules.mates(state, unit[0]), self._shut(state)
        scope = state.group == state.group[state.pnode[unit[0]]]
        best, lowest, why = Ways(), math.inf, "no other node takes instances"
        rows = _nodes_to_try(state, unit, mates, scope & ~shut, self.options)
        for ends in self._ends(state, unit[0], rows):
            for end in ends:
                tried, made, failure = state.copy(), Ways(), None
                for index in unit:
                    choices = ways_to(state, index, end) or [()]
                    if not self.secondaries:
                        choices = [parts for parts in choices if not any(map(_copies, parts))]
                    parts = follow_any(tried, index, choices, shut, self.options) if choices else _COPIES
                    if isinstance(parts, str):
                        failure = parts
                        break
                    made[index] = parts
                if failure is None and placement_rules.apart(tried, state)[unit].any():
                    failure = "others of them are elsewhere"
                if failure is not None:
                    why = failure
                elif (
                    not (score := score_of(tried, scope)) > lowest
                ):  # not a number while a node reports nothing
                    best, lowest = made, score
            if best:
                break
        else:
            names = ", ".join(state.cluster.instances[index].name for index in sorted({*unit, *mates}))
            raise RequestFailed(f"no place for all of {names}, which stay together: {why}")
        for index, way in best.items():
            follow(state, index, way, shut, self.options, self.reporter)
        return best

    def _shut(self, state: State) -> Bools:
        shut: Bools = self.leaving | state.columns.offline
        return shut

    def _modes(self, state: State, index: int) -> list[EvacMode]:
        """Return the roles in which an instance leaves nodes, in order."""
        primary, secondary = state.node_pair(index)
        if secondary == NOWHERE:
            return [EvacMode.PRIMARY]
        modes = list[EvacMode]()
        if self.leaving[primary]:
            if self._shut(state)[secondary]:
                if not self.secondaries:
                    other = state.cluster.nodes[secondary].name
                    raise RequestFailed(f"its secondary {other} takes no instances; --empty copies its disks")
                modes.append(EvacMode.SECONDARY)
            modes.append(EvacMode.PRIMARY)
            secondary = primary
        if self.secondaries and self.leaving[secondary]:
            modes.append(EvacMode.SECONDARY)
        return modes

    def _ends(self, state: State, index: int, rows: Sequence[int]) -> Iterator[Iterator[Nodes]]:
        """Yield possible last nodes of an instance, with new nodes of some rows: first with few copies."""
        primary, secondary = state.node_pair(index)
        operations = [_operation(state, index, mode) for mode in self._modes(state, index)]

        def end(nodes: Sequence[int]) -> Nodes:
            new, there = iter(nodes), (primary, secondary)
            for each in operations:
                there = each.nodes(*there, next(new) if each.takes_node else NOWHERE)
            return there

        yield map(end, permutations(rows, sum(each.takes_node for each in operations)))
        if self.secondaries and self.leaving[primary] and secondary != NOWHERE:
            old = [] if self._shut(state)[secondary] else [secondary]
            yield ((new, other) for new, other in permutations([*rows, *old], 2) if new != secondary)


def _copies(part: MovePart) -> bool:
    return part.operation.copies_disks


def _nodes_to_try(
    state: State, unit: Sequence[int], mates: Sequence[int], usable: Bools, options: PlacementOptions
) -> list[int]:
    """Return the nodes (rows) to try for a set, in order.

    These are first the nodes of members elsewhere, then those that take each member now, then those with most
    free memory.
    """
    free, near = state.columns.unallocated, [row for mate in mates for row in state.nodes_of(mate)]
    rows = np.flatnonzero(usable & ~np.isin(np.arange(len(usable)), state.nodes_of(unit[0])))
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
