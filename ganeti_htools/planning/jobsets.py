"""A plan as ``gnt-instance`` commands, in sets of moves that touch no node twice (``hbal(1)``, "jobset")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.engine.balancing.recheck import named
from ganeti_htools.engine.balancing.traffic import copied, copied_by_unit
from ganeti_htools.engine.rules.move_kinds import MoveKind, Operation
from ganeti_htools.model.cluster import Instance, common_suffix
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.state import State

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Job


@dataclass(frozen=True, slots=True)
class Move:
    """A step in names: without the domain that all names share.

    ``was`` and ``now`` are the nodes before and after, primary first; ``summary`` is like ``r:node2 f``,
    ``commands`` are arguments of gnt-instance. ``disk`` and ``memory`` are MiB to be copied; ``units`` tells
    for the disks how much by storage unit, where nodes tell theirs.
    """

    step: Step
    instance: str
    was: tuple[str, ...]
    now: tuple[str, ...]
    summary: str
    commands: tuple[str, ...]
    disk: int
    memory: int
    units: Mapping[str, int]

    @property
    def nodes(self) -> set[str]:
        """All nodes it touches."""
        return {*self.was, *self.now}


class Names:
    """Short names of nodes and instances, and where the instances are after the steps that were told.

    With ``whole_instances`` instances keep their whole names.
    """

    def __init__(self, state: State, whole_instances: bool = False) -> None:
        suffix = common_suffix(state.cluster)
        cut = "" if whole_instances else suffix
        self.nodes = [node.name.removesuffix(suffix) for node in state.cluster.nodes]
        self.instances = [instance.name.removesuffix(cut) for instance in state.cluster.instances]
        self._rows, self._units = state.cluster.instances, state.units
        self._places = list(zip(state.pnode.tolist(), state.snode.tolist(), strict=True))

    def move(self, step: Step) -> Move:
        """Tell the next step in names. Steps have to come in the order of the plan."""
        row, name = self._rows[step.instance], self.instances[step.instance]
        was, now = self._places[step.instance], (step.pnode, step.snode)
        self._places[step.instance] = now
        new = self.nodes[step.node] if step.kind.takes_node else ""
        operations = step.kind.operations
        steps = " ".join(summary(operation, new) for operation in operations)
        commands = tuple(command(operation, row, name, new) for operation in operations)
        disk, memory = copied(step.kind, row)
        units = copied_by_unit(operations, row, self._units)
        return Move(step, name, self._named(was), self._named(now), steps, commands, disk, memory, units)

    def _named(self, nodes: tuple[int, int]) -> tuple[str, ...]:
        return tuple(self.nodes[node] for node in nodes if node != NOWHERE)


def summary(operation: Operation, new: str) -> str:
    """An operation in a list of steps; ``new`` is its new node, if any."""
    return f"{operation.value}:{new}" if operation.takes_node else operation.value


def command(operation: Operation, row: Instance, name: str, new: str) -> str:
    """Arguments of gnt-instance for an operation on an instance; ``new`` is its new node, if any."""
    if operation is Operation.REPLACE_SECONDARY:
        return f"replace-disks -n {new} {name}"
    if operation is Operation.MOVE:
        return f"move -f -n {new} {name}"
    verb = "migrate" if row.status.running else "failover"
    return f"{verb} -f -n {new} {name}" if operation.takes_node else f"{verb} -f {name}"


def cost_of(moves: Sequence[Move], sets: Sequence[Sequence[Move]]) -> dict[str, Any]:
    """What moves cost, as JSON."""
    kinds = [move.step.kind for move in moves]
    units = sorted({unit for move in moves for unit in move.units})
    by_unit = {unit: sum(move.units.get(unit, 0) for move in moves) for unit in units}
    return {
        "moves": {kind.plural: kinds.count(kind) for kind in MoveKind if kind in kinds},
        "disk_mib": sum(move.disk for move in moves),
        "memory_mib": sum(move.memory for move in moves),
        "jobsets": len(sets),
        **({"disk_mib_by_unit": by_unit} if by_unit else {}),
    }


class Touching(Protocol):
    """What is put in jobsets."""

    @property
    def nodes(self) -> set[str]:
        """All nodes it touches."""


T = TypeVar("T", bound=Touching)


def jobsets(moves: Sequence[T]) -> list[list[T]]:
    """Sets of moves that can run at the same time, in order. They are filled from the last move on."""
    sets: list[list[T]] = []
    busy: set[str] = set()
    for move in reversed(moves):
        if not sets or move.nodes & busy:
            sets.insert(0, [])
            busy = set()
        sets[0].insert(0, move)
        busy |= move.nodes
    return sets


def jobs_of(state: State, sets: Sequence[Sequence[Move]]) -> "list[list[Job]]":
    """The jobs of moves that start from a state, in the same sets."""
    from ganeti_htools.execution.jobs import Job, opcodes_of  # needed only where jobs are submitted

    steps = named(state, [move.step for moves in sets for move in moves])

    def job(move: Move) -> Job:
        step = next(steps)
        return Job(
            f"{move.instance}: {':'.join(move.was)} => {':'.join(move.now)}",
            opcodes_of(step, state.cluster.instances[move.step.instance].forthcoming),
            tuple(f"gnt-instance {command}" for command in move.commands),
            step,
        )

    return [[job(move) for move in moves] for moves in sets]
