"""Ganeti's job queue, watched from afar: whether work has ended since the last look.

Luxid reads a file for each job that it is asked about, so a look only asks about those that had not ended
at the last one, and about newer ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ganeti_htools.luxi.queries import JobStatus, Row

FIELDS = ("id", "status")

_UNFINISHED = frozenset(status.value for status in JobStatus if not status.final)


@dataclass(frozen=True, slots=True)
class Queue:
    """The newest job that was seen, and those that had not ended."""

    newest: int = 0
    unfinished: frozenset[int] = frozenset()


def asks_for(queue: Queue | None) -> list[Any] | None:
    """The filter for the next look; without one all jobs are looked at."""
    if queue is None:
        return None
    return ["|", [">", "id", queue.newest], *(["=", "id", job] for job in sorted(queue.unfinished))]


def seen(queue: Queue | None, jobs: Iterable[Row]) -> tuple[Queue, bool]:
    """The queue after a look that gave these jobs, and whether it has run empty since the one before.

    Jobs that are not there any more have ended (one that has just gone has no status), and so have those
    that came and went between two looks.
    """
    newest, unfinished = queue.newest if queue else 0, set()
    for job in jobs:
        newest = max(newest, job.values["id"])
        if job.values.get("status") in _UNFINISHED:
            unfinished.add(job.values["id"])
    now = Queue(newest, frozenset(unfinished))
    worked = queue is not None and (newest > queue.newest or bool(queue.unfinished))
    return now, worked and not unfinished
