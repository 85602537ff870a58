"""Moves of several operations by name, their cost and their jobs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.engine.allocation.evacuate import MovedInstance
from ganeti_htools.engine.groups import recheck
from ganeti_htools.execution.jobs import Job, Jobsets, opcodes_of_group_move
from ganeti_htools.execution.review import Review
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import NamedMove, as_carried_out, title_of
from ganeti_htools.model.state import State
from ganeti_htools.planning.jobsets import Names, PlannedMove, cost, job_of, jobsets

GroupMove = PlannedMove[NamedMove]


def moves_of(state: State, moved: Iterable[MovedInstance]) -> list[GroupMove]:
    """Name moves, which start from ``state``."""
    names = Names(state)

    def planned(moved: MovedInstance) -> GroupMove:
        was = [node for node in names.places[moved.instance] if node != NOWHERE]
        parts = [(part.operation, part.node) for part in moved.parts]
        return names.planned(_named(state, moved, was), moved.instance, moved.nodes, parts)

    return list(map(planned, moved))


def _named(state: State, moved: MovedInstance, was: Sequence[int]) -> NamedMove:
    """Name a move in full."""
    operations = tuple(part.operation for part in moved.parts)
    parts = tuple(
        (part.operation, state.cluster.nodes[part.node].name if part.operation.takes_node else None)
        for part in moved.parts
    )
    name = state.cluster.instances[moved.instance].name
    nodes = tuple(state.names(was)), tuple(state.names(moved.nodes))
    return NamedMove(name, title_of(operations), parts, *nodes, moved.with_next)


def cost_of(moves: Sequence[GroupMove]) -> dict[str, Any]:
    """Add up what moves cost, as JSON."""
    titles = Counter(as_carried_out(move.step.title, move.commands) for move in moves)
    return cost(titles, moves, len(jobsets(moves)))


def jobs_of(state: State, moves: Sequence[GroupMove]) -> Jobsets:
    """Make the jobs of moves that start from a state."""
    forthcoming = {row.name for row in state.cluster.instances if row.forthcoming}

    def job(move: GroupMove) -> Job:
        return job_of(move, opcodes_of_group_move(move.step, move.step.instance in forthcoming), move.step)

    return [[job(move) for move in moves] for moves in jobsets(moves)]


def without_parts_made(state: State, rest: Jobsets) -> Review:
    """Review remaining moves that fit: drop the parts that have been made."""
    rows = {row.name: index for index, row in enumerate(state.cluster.instances)}
    ahead: list[str] = []

    def shortened(job: Job) -> Job:
        move = job.step
        left = (
            recheck.remaining_move(state, rows[move.instance], move) if isinstance(move, NamedMove) else None
        )
        if not isinstance(move, NamedMove) or left is None or left is move:
            return job
        ahead.append(move.instance)
        made = len(move.parts) - len(left.parts)
        parts = [
            place for place, opcode in enumerate(job.opcodes) if not opcode["OP_ID"].startswith("OP_TAGS")
        ]
        kept = [place for place in range(len(job.opcodes)) if place not in parts[:made]]
        return replace(
            job,
            opcodes=tuple(job.opcodes[place] for place in kept),
            commands=tuple(job.commands[place] for place in kept),
            step=left,
        )

    shorter = [[shortened(job) for job in jobs] for jobs in rest]
    if not ahead:
        return Review()
    left = [kept for jobs in shorter if (kept := [job for job in jobs if job.opcodes])]
    return Review(f"part of the move has already been made: {', '.join(ahead)}", left)
