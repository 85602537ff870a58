"""Counts and times of comparisons."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ganeti_htools.witness.verdict import ALARMING, WITHOUT_ANSWER

ENOUGH = 100  # decisions to compare before one may trust the record


@dataclass(slots=True)
class Tally:
    """Counts since a time (seconds of the epoch): decisions by type and verdict.

    ``unexplained`` counts those that are alarming and have no known reason. ``ours``, ``theirs`` are the
    latest times of both, in seconds.
    """

    program: str = ""
    since: float | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    unexplained: int = 0
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def add(self, kind: str, verdict: str, explained: str | None, times: tuple[float, float | None]) -> None:
        """Count a decision; its times are those of ours and of the other program."""
        of_type = self.counts.setdefault(kind, {})
        of_type[verdict] = of_type.get(verdict, 0) + 1
        self.unexplained += is_alarming(verdict, explained)
        if times[1] is not None:
            self.ours = [*deque([*self.ours, times[0]], 1000)]
            self.theirs = [*deque([*self.theirs, times[1]], 1000)]

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the times, and whether they suffice to switch."""
        compared = sum(
            number
            for each in self.counts.values()
            for verdict, number in each.items()
            if verdict not in WITHOUT_ANSWER
        )
        return {
            "since": self.since,
            "counts": self.counts,
            "compared": compared,
            "enough": ENOUGH,
            "unexplained": self.unexplained,
            "ready": compared >= ENOUGH and not self.unexplained,
            "seconds": {"ours": _times(self.ours), "theirs": _times(self.theirs)},
        }


def is_alarming(verdict: str, explained: str | None) -> bool:
    """Whether somebody should look at a difference before ours answers alone."""
    return verdict in ALARMING and explained is None


def _times(seconds: list[float]) -> dict[str, float] | None:
    return {"median": round(median(seconds), 3), "slowest": round(max(seconds), 3)} if seconds else None
