"""Nodes that are emptied for maintenance (``hmaintain(1)``).

Primaries leave by migration or failover; with ``secondaries`` disks are copied as well. Ganeti moves nothing
to a drained node, so an instance whose other node is closed first gets another one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.allocation.evacuate import MovedInstance
from ganeti_htools.engine.allocation.leave import leave
from ganeti_htools.engine.allocation.move_parts import try_part
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.rules import placement_rules, settling
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import EvacMode, MirrorType

STAYING = "it must not be moved"


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
    rows, moved, staying, refused = concerned(state, leaving, secondaries), [], [], []
    for done, index in enumerate(rows):
        progress(done, len(rows))
        start(state, index, reporter)
        why = stays(state, index)
        if why is not None:
            reporter.failed(why)
            staying.append((index, why))
        elif not movable[index]:
            reporter.failed(STAYING)
            refused.append((index, STAYING))
        else:
            tried = state.copy()
            try:
                parts = _leave(tried, index, leaving, secondaries, options, reporter)
            except RequestFailed as failure:
                reporter.failed(str(failure))
                refused.append((index, str(failure)))
            else:
                state = tried
                moved.append(moved_to(state, index, parts))
    return Emptying(tuple(moved), closed(state, leaving), tuple(staying), tuple(refused))


def concerned(state: State, leaving: Bools, secondaries: bool) -> list[int]:
    """Return the instances (rows) that have to leave, those with most memory first."""
    found = leaving[state.pnode]
    if secondaries:
        found = found | (leaving[state.snode] & (state.snode != NOWHERE))
    rows = state.cluster.instances
    return sorted(np.flatnonzero(found).tolist(), key=lambda index: -rows[index].mem)


def stays(state: State, index: int) -> str | None:
    """Return why an instance neither migrates nor fails over, by its kind or its tags; None if it may."""
    template = state.cluster.instances[index].template
    if template.mirror is MirrorType.NONE:
        return f"{template.value} instances neither migrate nor fail over"
    if template.mirror is MirrorType.INTERNAL and state.snode[index] == NOWHERE:
        return "it has no secondary"
    return placement_rules.reason_to_stay(state, index)


def closed(state: State, nodes: Bools) -> State:
    """Return a copy of a state in which these nodes take no instances."""
    return replace(state, columns=state.columns._replace(offline=state.columns.offline | nodes))


def moved_to(state: State, index: int, parts: Sequence[MovePart]) -> MovedInstance:
    """Describe an instance that has moved, in the state afterwards."""
    nodes = _places(state, index)
    return MovedInstance(index, int(state.group[nodes[0]]), nodes, tuple(parts))


def _places(state: State, index: int) -> tuple[int, ...]:
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

    ``shut`` nodes take no instances. Each part is reported, the impossible one is not ended.
    """
    asked = state.instance(index)
    for part in parts:
        start(state, index, reporter)
        target = part.node if part.operation.takes_node else int(state.snode[index])
        if target == NOWHERE or shut[target]:
            name = "no secondary" if target == NOWHERE else state.cluster.nodes[target].name
            return f"{name} takes no instances"
        if target == (state.pnode[index]):
            return f"it is on {state.cluster.nodes[target].name} already"
        trial = try_part(state, asked, part, options)
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
        reporter.placed(_places(state, index))
    return None


def _leave(
    state: State,
    index: int,
    leaving: Bools,
    secondaries: bool,
    options: PlacementOptions,
    reporter: Reporter,
) -> list[MovePart]:
    """Move an instance off the nodes, in place; returns the parts. Raises RequestFailed."""
    asked, group = state.instance(index), int(state.group[state.pnode[index]])
    shut = leaving | state.columns.offline

    def go(mode: EvacMode) -> list[MovePart]:
        own = [int(state.pnode[index]), int(state.snode[index])]
        usable = (state.group == group) & ~shut
        usable[[node for node in own if node != NOWHERE]] = False
        start(state, index, reporter)
        parts = leave(state, asked, mode, group, np.flatnonzero(usable), options, reporter)
        reporter.placed(_places(state, index))
        return parts

    if not asked.mirrored:
        return go(EvacMode.PRIMARY)
    parts = list[MovePart]()
    if leaving[state.pnode[index]]:
        if shut[state.snode[index]]:
            if not secondaries:
                other = state.cluster.nodes[state.snode[index]].name
                raise RequestFailed(f"its secondary {other} takes no instances; --empty copies its disks")
            parts += go(EvacMode.SECONDARY)
        parts += go(EvacMode.PRIMARY)
    if secondaries and leaving[state.snode[index]]:
        parts += go(EvacMode.SECONDARY)
    return parts
