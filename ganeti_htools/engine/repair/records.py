"""Repairs of instances as their tags record them (``harep(1)``, Ganeti's design "instance auto-repair").

A repair has a record from the submission of its jobs on: ``pending:TYPE:ID:TIME:JOBS``. Afterwards it is
``result:TYPE:ID:TIME:OUTCOME:JOBS``. Times are whole seconds since the epoch; jobs are joined by ``+``.
"""

import re
from dataclasses import dataclass, replace
from enum import Enum

from ganeti_htools.model.tags import AUTOREPAIR

_PENDING, _RESULT = f"{AUTOREPAIR}pending:", f"{AUTOREPAIR}result:"
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)


class RepairType(Enum):
    """Kind of a repair. Who allows one also allows those before it."""

    FIX_STORAGE = "fix-storage"
    MIGRATE = "migrate"
    FAILOVER = "failover"
    REINSTALL = "reinstall"

    @property
    def risk(self) -> int:
        """Rank among the kinds; the most destructive one has the highest."""
        return list(RepairType).index(self)


class Outcome(Enum):
    """Outcome of a repair. ``NOT_ALLOWED``: it did not begin. Later members outrank earlier ones."""

    NOT_ALLOWED = "enoperm"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of an instance. Without ``outcome`` it is pending. ``read`` is the tag that was read."""

    type: RepairType
    id: str
    time: int
    jobs: tuple[int, ...] = ()
    outcome: Outcome | None = None
    read: str = ""

    def ended(self, outcome: Outcome, time: int) -> "Repair":
        return replace(self, outcome=outcome, time=time, read="")

    @property
    def tag(self) -> str:
        """The tag that records the repair."""
        if self.read:
            return self.read  # other notations of the same numbers are valid, too
        outcome = [] if self.outcome is None else [self.outcome.value]
        words = [self.type.value, self.id, str(self.time), *outcome, "+".join(map(str, self.jobs))]
        return (_RESULT if outcome else _PENDING) + ":".join(words)


def parse(tag: str) -> Repair | None:
    """Return the repair that a tag records. None for other tags, malformed ones included."""
    try:
        if tag.startswith(_PENDING):
            kind, name, time, jobs = tag.removeprefix(_PENDING).split(":")
            outcome = None
        elif tag.startswith(_RESULT):
            kind, name, time, result, jobs = tag.removeprefix(_RESULT).split(":")
            outcome = Outcome(result)
        else:
            return None
        return Repair(RepairType(kind), name, whole_number(time), _jobs(jobs), outcome, tag)
    except ValueError:
        return None


def whole_number(text: str) -> int:
    """Return the whole number in a tag. Raises ValueError."""
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)


def _jobs(text: str) -> tuple[int, ...]:
    numbers = tuple(map(whole_number, text.split("+"))) if text else ()
    if min(numbers, default=0) < 0:
        raise ValueError
    return numbers
