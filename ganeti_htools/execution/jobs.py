"""The jobs of a plan, and the opcodes by which Ganeti makes a move."""

from collections.abc import Sequence
from dataclasses import dataclass

from ganeti_htools.engine.allocation.move_parts import NamedMove
from ganeti_htools.engine.balancing.recheck import NamedStep
from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a plan.

    ``title`` is for people, ``commands`` say the same as shell commands. ``step`` is the move that the job
    makes, None if it makes none.
    """

    title: str
    opcodes: tuple[Opcode, ...]
    commands: tuple[str, ...]
    step: NamedStep | NamedMove | None = None


# The jobs of a set touch no node twice; a set is submitted when the one before has ended.
Jobsets = Sequence[Sequence[Job]]


def opcodes_of(step: NamedStep, forthcoming: bool) -> tuple[Opcode, ...]:
    """The opcodes of a step, as Ganeti's htools submit them (``Cluster.Utils.iMoveToJob``).

    A ``forthcoming`` instance is failed over, any other one is migrated.
    """
    return tuple(
        opcodes.moving(operation, step.instance, step.node or "", forthcoming)
        for operation in step.kind.operations
    )


def opcodes_on_way(move: NamedMove, forthcoming: bool) -> tuple[Opcode, ...]:
    """The opcodes of a move between node groups, as Ganeti gets them from an iallocator."""
    return tuple(
        opcodes.moving(operation, move.instance, node or "", forthcoming) for operation, node in move.parts
    )
