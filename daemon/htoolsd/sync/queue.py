"""Ganeti's job queue, watched from afar: whether work has ended since the last look, and what is left to do.

Luxid reads a file for each job that it is asked about, so a look only asks about those that had not ended
at the last one, and about newer ones; and what a job is to do is asked for once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.queries import Row

FIELDS = ("id", "status")
WORK_FIELDS = ("id", "ops")

Opcode = Mapping[str, Any]

_UNFINISHED = frozenset(status.value for status in JobStatus if not status.final)


@dataclass(frozen=True, slots=True)
class Queue:
    """The newest job that was seen, and those that had not ended."""

    newest: int = 0
    unfinished: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Work:
    """The opcodes of the jobs that had not ended when they were ``asked`` for (trio's clock)."""

    asked: float
    opcodes: Mapping[int, Sequence[Opcode]]


def asks_for(queue: Queue | None) -> list[Any] | None:
    """The filter for the next look; without one all jobs are looked at."""
    if queue is None:
        return None
    return ["|", [">", "id", queue.newest], *_each(queue.unfinished)]


def asks_for_work(queue: Queue, known: Work | None) -> list[Any] | None:
    """The filter for jobs of which it is not known what they are to do; None if there are none."""
    unknown = queue.unfinished - (known.opcodes.keys() if known else set())
    return ["|", *_each(unknown)] if unknown else None


def _each(jobs: Iterable[int]) -> list[Any]:
    return [["=", "id", job] for job in sorted(jobs)]


def work(queue: Queue, known: Work | None, jobs: Iterable[Row], asked: float) -> Work:
    """What is left to do, with what more jobs told of themselves. One that tells nothing is gone."""
    opcodes = dict(known.opcodes) if known else {}
    for job in jobs:
        told = job.values.get("ops")
        if isinstance(told, list):
            opcodes[job.values["id"]] = [each for each in told if isinstance(each, dict)]
    return Work(asked, {job: opcodes[job] for job in queue.unfinished & opcodes.keys()})


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
