"""Jobs of a plan, and the opcodes of moves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, NamedTuple

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import NamedMove


class JobVerdict(NamedTuple):
    """Judgement of the results of a job that succeeded for Ganeti.

    ``error`` says why the job failed nevertheless, for ``nodes`` if it succeeded for the others. ``note`` is
    a remark for people.
    """

    error: str | None = None
    note: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a plan.

    * ``title``: for people.
    * ``commands``: the shell commands that do the same.
    * ``step``: the move that the job makes, None if it makes none.
    * ``nodes``: the nodes whose own state the job changes.
    * ``standing``: the state of these nodes after the job.
    * ``otherwise``: their state if the job fails and no earlier job has changed them.
    * ``undo``: the job that reverts this state if the run ends early.
    * ``judge``: judges the results of the opcodes.
    * ``retry``: returns the job to try after a failure with this error, None for none.
    * ``awaits``: nodes whose daemons have to answer before the job is submitted.
    * ``independent``: a failure concerns its instance only; later jobs are submitted nevertheless.
    * ``room``: the new instance, on its future nodes, for which the job's plan makes room.
    """

    title: str
    opcodes: tuple[Opcode, ...]
    commands: tuple[str, ...]
    step: NamedMove | None = None
    nodes: tuple[str, ...] = ()
    standing: str = ""
    otherwise: str = ""
    undo: "Job | None" = None
    judge: Callable[[Any], JobVerdict] | None = None
    retry: "Callable[[str], Job | None] | None" = None
    awaits: tuple[str, ...] = ()
    independent: bool = False
    room: Instance | None = None

    @property
    def left_behind(self) -> str | None:
        """The state in which the job may leave its instance if it fails; None if it stops none."""
        if self.step is None or not any(opcode["OP_ID"] == "OP_INSTANCE_MOVE" for opcode in self.opcodes):
            return None
        name = self.step.instance
        return f"the move stops {name}, which may be down now: gnt-instance startup {quote(name)}"


# The jobs of a set touch no node twice, except those of instances that move together. A set is submitted when
# the previous set has ended.
Jobsets = Sequence[Sequence[Job]]
