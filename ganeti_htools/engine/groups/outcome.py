"""Outcomes and limits of actions on several node groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.moving.traffic import copied_by
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import Move

Progress = Callable[[str], None]  # called often with the progress; may raise to stop


@dataclass(frozen=True, slots=True)
class RegroupingLimits:
    """The most instances moved, and the most MiB of disks and memory copied; below 0: any number."""

    moves: int = -1
    copy: int = -1

    def allow(self, rows: Sequence[Instance], moved: Sequence[Move]) -> bool:
        """Whether the moves stay within the limits. ``rows`` are all instances."""
        if 0 <= self.moves < len({each.instance for each in moved}):
            return False
        return self.copy < 0 or sum(cost(rows, each) for each in moved) <= self.copy


def cost(rows: Sequence[Instance], moved: Move) -> int:
    """Return the MiB of disks and memory that a move copies."""
    return sum(copied_by(moved.operations, rows[moved.instance]))


@dataclass(frozen=True, slots=True)
class EmptiableGroup:
    """A group (row) that could be emptied by itself, with the number of moves and the MiB they copy."""

    group: int
    moves: int
    copied: int


@dataclass(frozen=True, slots=True)
class RegroupingOutcome:
    """The cluster after an action. Groups are rows.

    ``done`` are repaired or emptied groups, ``failed`` the others with the reason. ``possible`` are all
    groups that could be emptied, each by itself.
    """

    after: Regrouping
    done: tuple[int, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    possible: tuple[EmptiableGroup, ...] = ()
