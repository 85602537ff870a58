"""A plan as ``gnt-instance`` commands, in sets of moves that touch no node twice (``hbal(1)``, "jobset")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.engine.balancing.recheck import named
from ganeti_htools.engine.balancing.traffic import copied_by, copied_by_unit
from ganeti_htools.model.cluster import Instance, common_suffix
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import MoveKind, Operation
from ganeti_htools.model.state import State

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Job
    from ganeti_htools.luxi.opcodes import Opcode
    from ganeti_htools.model.moves import NamedMove, NamedStep

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ToldMove(Generic[S]):
    """A move in names, without the domain that all names share; ``step`` is the move itself.

    ``was`` and ``now`` are the nodes before and after, primary first; ``summary`` is like ``r:node2 f``,
    ``commands`` are arguments of gnt-instance. ``disk`` and ``memory`` are MiB to be copied; ``units`` tells
    for the disks how much by storage unit, where nodes tell theirs.
    """

    step: S
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


Move = ToldMove[Step]


class Names:
    """Short names of nodes and instances, and where the instances are after the moves that were told: the
    rows of their nodes, NOWHERE for a missing secondary.

    With ``whole_instances`` instances keep their whole names.
    """

    def __init__(self, state: State, whole_instances: bool = False) -> None:
        suffix = common_suffix(state.cluster)
        cut = "" if whole_instances else suffix
        self.nodes = [node.name.removesuffix(suffix) for node in state.cluster.nodes]
        self.instances = [instance.name.removesuffix(cut) for instance in state.cluster.instances]
        self._rows, self._units = state.cluster.instances, state.units
        self.places: list[tuple[int, ...]] = list(
            zip(state.pnode.tolist(), state.snode.tolist(), strict=True)
        )

    def move(self, step: Step) -> Move:
        """Tell the next step in names. Steps have to come in the order of the plan."""
        parts = [(operation, step.node) for operation in step.kind.operations]
        return self.told(step, step.instance, (step.pnode, step.snode), parts)

    def told(
        self, step: S, instance: int, now: tuple[int, ...], parts: Sequence[tuple[Operation, int]]
    ) -> ToldMove[S]:
        """Tell the next move of an instance, likewise: the rows of its nodes after it, and its operations,
        each with the row of the new node if it takes one.
        """
        row, name = self._rows[instance], self.instances[instance]
        was, self.places[instance] = self.places[instance], now
        operations = [operation for operation, _ in parts]
        new = [self.nodes[node] if operation.takes_node else "" for operation, node in parts]
        steps = " ".join(map(summary, operations, new))
        told = zip(operations, new, strict=True)
        commands = tuple(command(operation, row, name, node) for operation, node in told)
        disk, memory = copied_by(operations, row)
        units = copied_by_unit(operations, row, self._units)
        return ToldMove(step, name, self._named(was), self._named(now), steps, commands, disk, memory, units)

    def _named(self, nodes: tuple[int, ...]) -> tuple[str, ...]:
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


def cost_of(sets: Sequence[Sequence[Move]]) -> dict[str, Any]:
    """What the moves in jobsets cost, as JSON."""
    moves = [move for jobs in sets for move in jobs]
    kinds = [move.step.kind for move in moves]
    return cost({kind.plural: kinds.count(kind) for kind in MoveKind if kind in kinds}, moves, len(sets))


def cost(kinds: Mapping[str, int], moves: Sequence[ToldMove[Any]], sets: int) -> dict[str, Any]:
    """The same of any moves, by how many there are of each kind and in how many jobsets."""
    units = sorted({unit for move in moves for unit in move.units})
    by_unit = {unit: sum(move.units.get(unit, 0) for move in moves) for unit in units}
    return {
        "moves": kinds,
        "disk_mib": sum(move.disk for move in moves),
        "memory_mib": sum(move.memory for move in moves),
        "jobsets": sets,
        **({"disk_mib_by_unit": by_unit} if by_unit else {}),
    }


def jobsets(moves: Sequence[ToldMove[S]]) -> list[list[ToldMove[S]]]:
    """Sets of moves that can run at the same time, in order. They are filled from the last move on."""
    sets: list[list[ToldMove[S]]] = []
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
    from ganeti_htools.execution.jobs import opcodes_of  # needed only where jobs are submitted

    steps = named(state, [move.step for moves in sets for move in moves])

    def job(move: Move) -> "Job":
        step = next(steps)
        opcodes = opcodes_of(step, state.cluster.instances[move.step.instance].forthcoming)
        return job_of(move, opcodes, step)

    return [[job(move) for move in moves] for moves in sets]


def job_of(move: ToldMove[Any], opcodes: "tuple[Opcode, ...]", step: "NamedStep | NamedMove") -> "Job":
    """The job that makes a move, with its opcodes."""
    from ganeti_htools.execution.jobs import Job

    return Job(
        f"{move.instance}: {':'.join(move.was)} => {':'.join(move.now)}",
        opcodes,
        tuple(f"gnt-instance {command}" for command in move.commands),
        step,
    )
