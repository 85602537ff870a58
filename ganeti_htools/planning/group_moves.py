"""Moves of several operations: their cost, and the rest of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.engine.moving.named_moves import remaining_move
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.review import Review
from ganeti_htools.model.moves import as_carried_out
from ganeti_htools.model.state import State
from ganeti_htools.planning.jobsets import PlannedMove, cost, jobsets


def cost_of(moves: Sequence[PlannedMove]) -> dict[str, Any]:
    """Add up what moves cost, as JSON."""
    titles = Counter(as_carried_out(move.step.title, move.commands) for move in moves)
    return cost(titles, moves, len(jobsets(moves)))


def without_parts_made(state: State, rest: Jobsets) -> Review:
    """Review remaining moves that fit: drop the parts that have been made."""
    rows = state.rows_by_name()
    ahead: list[str] = []

    def shortened(job: Job) -> Job:
        move = job.step
        left = move and remaining_move(state, rows[move.instance], move)
        if move is None or left is None or left is move:
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
