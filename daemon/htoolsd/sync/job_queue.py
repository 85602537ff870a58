"""Ganeti's job queue: whether jobs have ended since the last poll, and the opcodes of unfinished jobs.

Luxid reads a file for each job that a query names. A poll therefore asks only for the jobs that were
unfinished at the last one, and for newer ones; and the opcodes of a job are asked for once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.queries import QueryRow

STATUS_FIELDS = ("id", "status", "summary")
OPCODE_FIELDS = ("id", "ops")

Opcode = Mapping[str, Any]

_LISTED = 20  # unfinished jobs; a queue may have thousands
_ORDER = [
    status.value for status in (JobStatus.RUNNING, JobStatus.CANCELING, JobStatus.WAITING, JobStatus.QUEUED)
]
_UNFINISHED = frozenset(status.value for status in JobStatus if not status.final)


@dataclass(frozen=True, slots=True)
class JobQueue:
    """The newest job at the last poll, and the unfinished ones; the first of them in words, as JSON."""

    newest: int = 0
    unfinished: frozenset[int] = frozenset()
    listed: Sequence[Mapping[str, Any]] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The opcodes of the jobs that were unfinished when they were ``asked`` for (trio's clock)."""

    asked: float
    opcodes: Mapping[int, Sequence[Opcode]]


def status_filter(queue: JobQueue | None) -> list[Any] | None:
    """Return the filter of the next poll; None asks for all jobs."""
    if queue is None:
        return None
    return ["|", [">", "id", queue.newest], *_each(queue.unfinished)]


def opcode_filter(queue: JobQueue, known: PendingWork | None) -> list[Any] | None:
    """Return the filter for unfinished jobs whose opcodes are unknown; None if there are none."""
    unknown = queue.unfinished - (known.opcodes.keys() if known else set())
    return ["|", *_each(unknown)] if unknown else None


def _each(jobs: Iterable[int]) -> list[Any]:
    return [["=", "id", job] for job in sorted(jobs)]


def pending_work(
    queue: JobQueue, known: PendingWork | None, jobs: Iterable[QueryRow], asked: float
) -> PendingWork:
    """Return the known opcodes of unfinished jobs and those in the rows.

    A row without opcodes has left the queue.
    """
    opcodes = dict(known.opcodes) if known else {}
    for job in jobs:
        found = job.values.get("ops")
        if isinstance(found, list):
            opcodes[job.values["id"]] = [each for each in found if isinstance(each, dict)]
    return PendingWork(asked, {job: opcodes[job] for job in queue.unfinished & opcodes.keys()})


def _in_words(row: Mapping[str, Any]) -> dict[str, Any]:
    summary = row.get("summary")
    words = ", ".join(map(str, summary)) if isinstance(summary, list) else ""
    return {"id": row["id"], "status": row["status"], "summary": words}


def ended_subjects(queue: JobQueue | None, jobs: Iterable[QueryRow]) -> set[str]:
    """Return the names of the objects of jobs that have ended since the last poll."""
    ended = (job.values for job in jobs if queue is not None and job.values.get("status") not in _UNFINISHED)
    return {
        text.rpartition("(")[2].removesuffix(")")
        for row in ended
        for text in row.get("summary") or ()
        if isinstance(text, str) and text.endswith(")")
    }


def after_poll(queue: JobQueue | None, jobs: Iterable[QueryRow]) -> tuple[JobQueue, bool]:
    """Return the queue after a poll with these rows, and whether it has become empty since the last poll.

    Jobs that have left the queue have ended (a job that is just leaving has no status). So have jobs that
    came and went between two polls.
    """
    rows = [job.values for job in jobs]
    newest = max([queue.newest if queue else 0, *(row["id"] for row in rows)])
    found = [row for row in rows if row.get("status") in _UNFINISHED]
    unfinished = frozenset(row["id"] for row in found)
    found.sort(key=lambda row: (_ORDER.index(row["status"]), row["id"]))
    now = JobQueue(newest, unfinished, [_in_words(row) for row in found[:_LISTED]])
    worked = queue is not None and (newest > queue.newest or bool(queue.unfinished))
    return now, worked and not unfinished
