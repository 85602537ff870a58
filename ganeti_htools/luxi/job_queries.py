"""Requests to luxid about jobs, with typed answers, as in :mod:`.queries`."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from ganeti_htools.luxi.checked import call, exactly, list_of, shape_errors
from ganeti_htools.luxi.client import PATIENCE, LuxiClient
from ganeti_htools.luxi.queries import query

Value = TypeVar("Value")

LONGEST_WAIT = 89  # seconds that luxid waits for a job to change at most


class JobStatus(Enum):
    """State of a job."""

    QUEUED = "queued"
    WAITING = "waiting"
    CANCELING = "canceling"
    RUNNING = "running"
    CANCELED = "canceled"
    SUCCESS = "success"
    ERROR = "error"

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self in (JobStatus.CANCELED, JobStatus.SUCCESS, JobStatus.ERROR)


async def each_job(
    client: LuxiClient,
    ids: Sequence[int],
    fields: Sequence[str],
    read: Callable[..., Value],
    patience: float = PATIENCE,
) -> list[Value]:
    """Return what ``read`` makes of the ``fields`` of each job; without ids, of each job in the queue.

    ``read`` may raise TypeError, ValueError and LookupError for fields of an unexpected shape.
    """

    def rows(answer: Any) -> list[Value]:
        return [read(*list_of(row, len(fields))) for row in list_of(answer, len(ids) or None)]

    return await call(client, "QueryJobs", [list(ids) or None, fields], rows, patience)


async def job_statuses(
    client: LuxiClient, ids: Sequence[int], patience: float = PATIENCE
) -> list[JobStatus | None]:
    """Return the states of jobs in the order of ``ids``; None for a job that does not exist."""
    return await each_job(client, ids, ["status"], _status, patience) if ids else []


def _status(value: object) -> JobStatus | None:
    return None if value is None else JobStatus(value)


async def opcodes(
    client: LuxiClient, patience: float = PATIENCE
) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """Return number and opcodes of each job in the queue; no opcodes if the job has just left."""
    return await each_job(client, [], ["id", "ops"], _work, patience)


def _work(number: object, opcodes: object) -> tuple[int, list[Mapping[str, Any]]]:
    return exactly(int, number), [exactly(dict, opcode) for opcode in list_of(opcodes or [])]


async def unfinished(client: LuxiClient) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """Return number and opcodes of each job that has not ended."""
    states = ["|", *(["=", "status", status.value] for status in JobStatus if not status.final)]
    rows = await query(client, "job", ["id", "ops"], states)
    with shape_errors("Query of jobs"):
        return [_work(row.values["id"], row.values.get("ops")) for row in rows]


async def submit(
    client: LuxiClient, work: Sequence[Sequence[Mapping[str, Any]]], patience: float = PATIENCE
) -> list[int | str]:
    """Submit jobs, each a sequence of opcodes. Returns the id of each, or why Ganeti did not accept it.

    After a NoAnswerError with ``sent`` luxid may have accepted the jobs.
    """

    def read(answer: Any) -> list[int | str]:
        pairs = list_of(answer, len(work))
        results = [
            exactly(int, value) if exactly(bool, accepted) else exactly(str, value)
            for accepted, value in pairs
        ]
        numbers = [result for result in results if isinstance(result, int)]
        if len(set(numbers)) < len(numbers):
            raise ValueError
        return results

    return await call(client, "SubmitManyJobs", [work], read, patience)


class JobChange(NamedTuple):
    """Values of the requested fields of a job, and new entries of its log: [serial, time, kind, message]."""

    fields: list[Any]
    log: list[list[Any]]


async def wait_for_change(
    client: LuxiClient,
    job: int,
    fields: Sequence[str],
    known: Sequence[Any] | None = None,
    log_serial: int | None = None,
    timeout: int = LONGEST_WAIT,
    patience: float = PATIENCE,
) -> JobChange | None:
    """Wait until ``fields`` of a job differ from ``known`` or its log is longer; None if nothing changed.

    ``timeout`` is in seconds, at most LONGEST_WAIT; ``patience`` for the answer is added. Use a separate
    connection, for it is busy while it waits.
    """
    args = [job, fields, known, log_serial, min(timeout, LONGEST_WAIT)]

    def read(answer: Any) -> JobChange | None:
        if answer == "nochange":
            return None
        news, log = answer
        for field, value in zip(fields, list_of(news), strict=True):
            if field == "status":
                JobStatus(value)
        return JobChange(news, [_entry(*list_of(entry)) for entry in log or ()])

    return await call(client, "WaitForJobChange", args, read, timeout + patience)


def _entry(serial: object, time: object, kind: object, message: object) -> list[Any]:
    return [exactly(int, serial), time, kind, message]


async def cancel(client: LuxiClient, job: int) -> tuple[bool, str]:
    """Cancel a waiting job. Returns whether this worked, and Ganeti's message."""

    def read(answer: Any) -> tuple[bool, str]:
        done, message = answer
        return exactly(bool, done), exactly(str, message)

    return await call(client, "CancelJob", [job, False], read)
