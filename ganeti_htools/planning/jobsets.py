"""Moves of a plan by name, their commands and cost, and jobsets (``hbal(1)``)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import Any, TypeVar

from ganeti_htools.engine.moving.named_moves import named_move
from ganeti_htools.engine.moving.traffic import bandwidths, copied_by, copied_by_unit, seconds
from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.work import command_of, opcodes_of
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.moves import RANK, Move, NamedMove, Operation, as_carried_out
from ganeti_htools.model.options import CopyingOptions
from ganeti_htools.model.state import State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move by rows, by name as ``step``, and by short names (without the domain that all names share).

    * ``was``, ``now``: nodes before and after, primary first.
    * ``summary``: operations, for example ``r:node2 f``.
    * ``opcodes``, ``commands``: carry the move out.
    * ``disk``, ``memory``: MiB to copy.
    * ``units``: MiB of disk by storage unit, where nodes report units.
    """

    move: Move
    step: NamedMove
    instance: str
    was: tuple[str, ...]
    now: tuple[str, ...]
    summary: str
    opcodes: tuple[Opcode, ...]
    commands: tuple[str, ...]
    disk: int
    memory: int
    units: Mapping[str, int]

    @property
    def nodes(self) -> set[str]:
        return {*self.was, *self.now}


class Names:
    """Short names of nodes and instances, and the places of instances while a plan is named move by move.

    ``places`` has the rows of each instance's nodes. With ``whole_instances`` instances keep their full
    names.
    """

    def __init__(self, state: State, whole_instances: bool = False) -> None:
        suffix = common_suffix(state.cluster)
        cut = "" if whole_instances else suffix
        self.nodes = [node.name.removesuffix(suffix) for node in state.cluster.nodes]
        self.instances = [instance.name.removesuffix(cut) for instance in state.cluster.instances]
        self._state = state
        self.places = [state.nodes_of(row) for row in range(len(state.pnode))]

    def move(self, move: Move) -> PlannedMove:
        """Name the next move of a plan. Moves come in the order of the plan."""
        state, name = self._state, self.instances[move.instance]
        row = state.cluster.instances[move.instance]
        was, self.places[move.instance] = self.places[move.instance], move.nodes
        new = [self.nodes[part.node] if part.operation.takes_node else "" for part in move.parts]
        step, operations = named_move(state, move, was), list(zip(move.operations, new, strict=True))
        disk, memory = copied_by(move.operations, row)
        return PlannedMove(
            move=move,
            step=step,
            instance=name,
            was=self._named(was),
            now=self._named(move.nodes),
            summary=" ".join(abbreviation(operation, node) for operation, node in operations),
            opcodes=opcodes_of(step, row.forthcoming),
            commands=tuple(command_of(operation, row, name, node) for operation, node in operations),
            disk=disk,
            memory=memory,
            units=copied_by_unit(move.operations, row, state.units),
        )

    def _named(self, nodes: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.nodes[node] for node in nodes)


def abbreviation(operation: Operation, new: str) -> str:
    """Abbreviate an operation; ``new`` is its new node, if any."""
    return f"{operation.value}:{new}" if operation.takes_node else operation.value


def cost_of(sets: Sequence[Sequence[PlannedMove]]) -> dict[str, Any]:
    """Add up what the moves of a balancing plan cost, as JSON."""
    moves = [move for jobs in sets for move in jobs]
    kinds = sorted(moves, key=lambda move: RANK[move.move.kind])
    names = Counter(as_carried_out(move.move.kind.plural, move.commands) for move in kinds)
    return cost(names, moves, len(sets))


def cost(kinds: Mapping[str, int], moves: Sequence[PlannedMove], sets: int) -> dict[str, Any]:
    """Add up what moves cost, as JSON. ``kinds`` counts the moves by kind, ``sets`` the jobsets."""
    units = sorted({unit for move in moves for unit in move.units})
    by_unit = {unit: sum(move.units.get(unit, 0) for move in moves) for unit in units}
    return {
        "moves": dict(kinds),
        "disk_mib": sum(move.disk for move in moves),
        "memory_mib": sum(move.memory for move in moves),
        "jobsets": sets,
        **({"disk_mib_by_unit": by_unit} if by_unit else {}),
    }


def jobsets(moves: Sequence[PlannedMove]) -> list[list[PlannedMove]]:
    """Sort moves into sets that can run at the same time, in order. Sets are filled from the last move on.

    Instances that move together have nodes in common, and are in one jobset all the same.
    """
    sets: list[list[PlannedMove]] = []
    busy: set[str] = set()
    for unit in reversed(units(moves, lambda move: move.step)):
        nodes = set[str]().union(*(move.nodes for move in unit))
        if not sets or nodes & busy:
            sets.insert(0, [])
            busy = set()
        sets[0][:0] = unit
        busy |= nodes
    return sets


def units(items: Iterable[T], step_of: Callable[[T], NamedMove | None]) -> list[list[T]]:
    """Group items, each with a step: those whose instances move together, and each other item by itself."""
    found, joined = list[list[T]](), False
    for item in items:
        if joined:
            found[-1].append(item)
        else:
            found.append([item])
        step = step_of(item)
        joined = step is not None and step.with_next
    return found


def copying_seconds(
    state: State, sets: Iterable[Sequence[PlannedMove]], copying: CopyingOptions, parallel: int = 0
) -> float:
    """Return the time that jobsets copy: as many moves at a time as ``parallel`` says, otherwise one.

    ``state`` is the one before the moves.
    """
    speeds, places, total = bandwidths(state, 0), dict[int, tuple[int, ...]](), 0.0
    for jobs in sets:
        ends = [0.0] * min(parallel or 1, len(jobs))
        for move in (planned.move for planned in jobs):
            row, place = state.cluster.instances[move.instance], places.get(move.instance)
            usual = copying.speed(row.template.value)
            time = seconds(row, speeds, place or state.nodes_of(move.instance), move.parts, usual)
            places[move.instance] = move.nodes
            heapreplace(ends, ends[0] + time)  # the first slot that is free takes the next move
        total += max(ends)
    return total


def jobs_of(sets: Sequence[Sequence[PlannedMove]]) -> list[list[Job]]:
    def job(move: PlannedMove) -> Job:
        title = f"{move.instance}: {':'.join(move.was)} => {':'.join(move.now)}"
        return Job(title, move.opcodes, move.commands, move.step)

    return [[job(move) for move in moves] for moves in sets]
