"""What an action on several node groups comes to, and how far it may go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ganeti_htools.engine.allocation.evacuate import MovedInstance
from ganeti_htools.engine.balancing.traffic import copied_by
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.cluster import Instance

Progress = Callable[[str], None]  # called often, with how far the action is; may raise to give up


@dataclass(frozen=True, slots=True)
class RegroupingLimits:
    """How many instances may be moved, and how many MiB of disks and memory copied; below 0: any number."""

    moves: int = -1
    copy: int = -1

    def allow(self, rows: Sequence[Instance], moved: Sequence[MovedInstance]) -> bool:
        """Whether these moves keep to it. ``rows`` are all instances."""
        if 0 <= self.moves < len({each.instance for each in moved}):
            return False
        return self.copy < 0 or sum(cost(rows, each) for each in moved) <= self.copy


def cost(rows: Sequence[Instance], moved: MovedInstance) -> int:
    """What a move copies of disks and memory, MiB."""
    return sum(copied_by([part.operation for part in moved.parts], rows[moved.instance]))


@dataclass(frozen=True, slots=True)
class EmptiableGroup:
    """A group (row) that could be emptied by itself, in so many moves that copy so much (MiB)."""

    group: int
    moves: int
    copied: int


@dataclass(frozen=True, slots=True)
class RegroupingOutcome:
    """The cluster after an action. Groups are rows.

    ``done`` are the groups that were repaired or emptied, ``failed`` those that could not be, and why.
    ``possible`` are all groups that could be emptied, each without the others.
    """

    after: Regrouping
    done: tuple[int, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    possible: tuple[EmptiableGroup, ...] = ()
