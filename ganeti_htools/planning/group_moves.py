"""Moves between node groups in names, what they cost, and their jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti_htools.engine.allocation.evacuate import Moved
from ganeti_htools.engine.groups.outcome import Outcome
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import NamedMove, title_of
from ganeti_htools.model.state import State
from ganeti_htools.planning.jobsets import Names, ToldMove, cost, job_of, jobsets

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Job, Jobsets

Move = ToldMove[NamedMove]


def moves_of(state: State, outcome: Outcome) -> list[Move]:
    """The moves in names. ``state`` is the one they start from."""
    names = Names(state)

    def told(moved: Moved) -> Move:
        was = [node for node in names.places[moved.instance] if node != NOWHERE]
        parts = [(part.operation, part.node) for part in moved.parts]
        return names.told(_named(state, moved, was), moved.instance, moved.nodes, parts)

    return list(map(told, outcome.after.moved))


def _named(state: State, moved: Moved, was: Sequence[int]) -> NamedMove:
    """A move in full names."""
    operations = tuple(part.operation for part in moved.parts)
    parts = tuple(
        (part.operation, state.cluster.nodes[part.node].name if part.operation.takes_node else None)
        for part in moved.parts
    )
    name = state.cluster.instances[moved.instance].name
    return NamedMove(
        name, title_of(operations), parts, tuple(state.names(was)), tuple(state.names(moved.nodes))
    )


def cost_of(moves: Sequence[Move]) -> dict[str, Any]:
    """What moves cost, as JSON."""
    titles = [move.step.title for move in moves]
    return cost({title: titles.count(title) for title in dict.fromkeys(titles)}, moves, len(jobsets(moves)))


def jobs(state: State, moves: Sequence[Move]) -> "Jobsets":
    """The jobs that carry out the moves of a plan for a state."""
    from ganeti_htools.execution.jobs import opcodes_on_way  # needed only where jobs are submitted

    coming = {row.name for row in state.cluster.instances if row.forthcoming}

    def job(move: Move) -> "Job":
        return job_of(move, opcodes_on_way(move.step, move.step.instance in coming), move.step)

    return [[job(move) for move in moves] for moves in jobsets(moves)]
