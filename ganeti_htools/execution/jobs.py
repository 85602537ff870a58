"""The jobs of a plan, and the opcodes by which Ganeti makes a move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.moves import NamedMove, NamedStep


class JobVerdict(NamedTuple):
    """What the results of a job that ended well say: why it failed all the same (for which ``nodes``, if not
    for all that it changes), and what else.
    """

    error: str | None = None
    note: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a plan.

    ``title`` is for people, ``commands`` say the same as shell commands. ``step`` is the move that the job
    makes, None if it makes none.

    ``nodes`` are nodes that the job changes themselves, ``standing`` what they are then, ``otherwise`` what
    they are if it fails and no job before it has changed them, ``undo`` the job that takes this back should
    the plan end early while they are that. ``judge`` looks at the results of the opcodes; ``again`` gets the
    error of the job that failed and tells which one to try instead, if any. The daemons of the nodes in
    ``awaits`` have to answer before it is submitted.
    """

    title: str
    opcodes: tuple[Opcode, ...]
    commands: tuple[str, ...]
    step: NamedStep | NamedMove | None = None
    nodes: tuple[str, ...] = ()
    standing: str = ""
    otherwise: str = ""
    undo: "Job | None" = None
    judge: Callable[[Any], JobVerdict] | None = None
    again: "Callable[[str], Job | None] | None" = None
    awaits: tuple[str, ...] = ()


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
