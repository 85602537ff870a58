"""The job queue: jobs wait for each other, take some time, change the world, and report their state.

A job is *queued* until the jobs that it depends on have ended and fewer than MOST_RUNNING jobs run. It is
*waiting* until no other job works on its instances and nodes. Then it is *running*, one opcode after the
other.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import trio

from ganeti_htools import machine
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator.logical_units import carry_out, warnings, world_during
from ganeti_htools.simulator.opcodes import OpcodeError, check, seconds, subjects, summary
from ganeti_htools.simulator.world import World, lose_node, restore_node

MOST_RUNNING = 20  # jobs; Ganeti's default
LONGEST_WAIT = 29.0  # seconds until WaitForJobChange reports no change, as luxid does

Stamp = tuple[int, int]  # seconds, microseconds


@dataclass(slots=True)
class QueuedOpcode:
    """An opcode of a job, its state and its result."""

    opcode: Opcode
    state: JobStatus = JobStatus.QUEUED
    result: Any = None
    log: list[tuple[int, Stamp, str, str]] = field(default_factory=list)
    start: Stamp | None = None
    end: Stamp | None = None


@dataclass(slots=True)
class QueuedJob:
    """A job with its opcodes, which run in order."""

    number: int
    ops: list[QueuedOpcode]
    received: Stamp
    subjects: frozenset[str]
    state: JobStatus = JobStatus.QUEUED
    start: Stamp | None = None
    end: Stamp | None = None
    archived: bool = False

    def finish(self, state: JobStatus, result: Any) -> None:
        """End every opcode that has not ended, with this state and result."""
        for op in self.ops:
            if not op.state.final:
                op.state, op.result = state, result
        self.state, self.end = state, timestamp()


@dataclass(slots=True)
class JobBehaviour:
    """The behaviour of jobs: seconds for each opcode, and seconds until a node that is powered on answers.

    ``failures`` are the opcodes that fail: patterns of their summaries, and how many times each fails.
    """

    seconds: float = 1.0
    boot_seconds: float = 0.0
    failures: dict[str, float] = field(default_factory=dict)
    _finished: trio.Event = field(default_factory=trio.Event)

    async def work(self, seconds: float) -> None:
        """Wait for so long, or until :meth:`finish` is called."""
        with trio.move_on_after(seconds):
            await self._finished.wait()

    def finish(self) -> None:
        """Let the running opcodes end at once."""
        self._finished.set()
        self._finished = trio.Event()

    def fail(self, pattern: str, times: float = inf) -> None:
        """Let opcodes fail whose summary matches. Raises DataError for an invalid pattern."""
        try:
            re.compile(pattern)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise DataError(f"expected a regular expression, not {pattern!r}: {error}") from None
        self.failures[pattern] = times

    def fails(self, summary: str) -> bool:
        """Whether the opcode with this summary fails; counts the failure."""
        for pattern, times in self.failures.items():
            if times > 0 and re.search(pattern, summary):
                self.failures[pattern] = times - 1
                return True
        return False


def timestamp() -> Stamp:
    """Return the present time as Ganeti writes it."""
    microseconds = machine.now_ns() // 1000
    return microseconds // 10**6, microseconds % 10**6


class Jobs:
    """All jobs, and the world that they change. Jobs run as tasks of ``nursery``."""

    def __init__(self, nursery: trio.Nursery, world: World, behaviour: JobBehaviour) -> None:
        self.world = world
        self.behaviour = behaviour
        self.drained = False
        self.paused: float | None = None  # the end of the watcher's pause, seconds of the epoch
        self._nursery = nursery
        self._jobs: dict[int, QueuedJob] = {}
        self._unfinished: list[QueuedJob] = []  # oldest first
        self._changed = trio.Event()
        nursery.start_soon(self._schedule)

    def change(self, world: World) -> None:
        """Replace the world, and wake the tasks that wait for a change."""
        self.world = world
        self._wake()

    def submit(self, lists: Sequence[Sequence[Any]]) -> list[int]:
        """Accept all or none of the jobs, each a list of opcodes; return their numbers.

        Raises DataError, OpcodeError.
        """
        checked = [[check(opcode) for opcode in opcodes] for opcodes in lists]
        if self.drained:
            raise OpcodeError("GenericError", "Queue drained")
        first = max(self._jobs, default=0) + 1
        accepted = {
            number: QueuedJob(
                number,
                [QueuedOpcode(_absolute(opcode, number)) for opcode in opcodes],
                timestamp(),
                frozenset().union(*(subjects(self.world, opcode) for opcode in opcodes)),
            )
            for number, opcodes in enumerate(checked, first)
        }
        self._jobs |= accepted
        self._unfinished += accepted.values()
        self._wake()
        return list(accepted)

    def find(self, number: int) -> QueuedJob | None:
        """Return a job by its number, None if the number is unknown or the job is archived."""
        job = self._jobs.get(number)
        return None if job is None or job.archived else job

    def unarchived(self) -> list[QueuedJob]:
        """Return the jobs that are not archived, oldest first."""
        return [job for job in self._jobs.values() if not job.archived]

    def all(self) -> list[QueuedJob]:
        """Return all jobs, archived ones included, oldest first."""
        return list(self._jobs.values())

    def cancel(self, number: int) -> tuple[bool, str]:
        """Cancel a job; return whether that was possible, and luxid's message."""
        job = self.find(number)
        if job is None or job.state.final:
            return False, f"Job {number} not found in queue"
        if job.state is JobStatus.RUNNING:
            return False, "Job no longer waiting, can't cancel (informed it anyway)"
        text = f"Dequeued job {number}" if job.state is JobStatus.QUEUED else "Job successfully cancelled"
        self._cancel(job)
        return True, text

    def archive(self, number: int) -> bool:
        """Archive a job if it has ended; return whether it has."""
        job = self.find(number)
        if job is None or not job.state.final:
            return False
        job.archived = True
        return True

    async def wait_for_change(
        self, number: int, fields: Callable[[QueuedJob], list[Any]], known: Any, newest: Any, patience: float
    ) -> tuple[Any, list[Any]]:
        """Wait until the fields of a job differ from ``known``, or it has messages after ``newest``.

        Returns these fields and messages; after ``patience`` seconds, the known fields and no messages.
        Raises OpcodeError for an unknown job.
        """
        job = self.find(number)
        if job is None:
            raise OpcodeError("JobLost", "Can't load job file")
        with trio.move_on_after(min(patience, LONGEST_WAIT)):
            while True:
                news = fields(job), [entry for entry in messages(job) if newest is None or entry[0] > newest]
                if job.state.final or news != (known, []):
                    return news
                await self._changed.wait()
        return known, []

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _cancel(self, job: QueuedJob) -> None:
        job.finish(JobStatus.CANCELED, "Job canceled by request")
        self._wake()

    async def _schedule(self) -> None:
        """Advance all jobs that can advance, oldest first, after each change."""
        while True:
            changed = self._changed
            self._unfinished = [job for job in self._unfinished if not job.state.final]
            for job in self._unfinished:
                if job.state is JobStatus.QUEUED and self._may_start(job):
                    self._enter(job, JobStatus.WAITING)
                if job.state is JobStatus.WAITING and not any(
                    _precedes(other, job) for other in self._started()
                ):
                    self._enter(job, JobStatus.RUNNING)
                    self._nursery.start_soon(self._work, job)
            await changed.wait()

    def _started(self) -> list[QueuedJob]:
        return [job for job in self._unfinished if job.state in (JobStatus.WAITING, JobStatus.RUNNING)]

    def _enter(self, job: QueuedJob, state: JobStatus) -> None:
        job.state = state
        job.start = job.start or timestamp()
        for op in job.ops:
            if op.state is JobStatus.QUEUED:
                op.state = JobStatus.WAITING
        self._wake()

    def _may_start(self, job: QueuedJob) -> bool:
        """Whether the dependencies of a job have ended as demanded, and few enough jobs run.

        A job whose dependencies ended otherwise is ended.
        """
        for number, wanted in (pair for op in job.ops for pair in op.opcode.get("depends") or ()):
            other = self._jobs.get(number)
            if other is None:
                self._fail(job, f"Dependency error: Job {number} not found")
                return False
            if not other.state.final:
                return False
            ended = other.state.value
            if wanted and ended not in wanted:
                if other.state is JobStatus.CANCELED:
                    self._cancel(job)
                else:
                    text = f"Dependency job {number} finished with status '{ended}'"
                    self._fail(job, f"{text}, not one of '{', '.join(wanted)}' as required")
                return False
        return len(self._started()) < MOST_RUNNING

    def _fail(self, job: QueuedJob, text: str) -> None:
        job.finish(JobStatus.ERROR, ["OpExecError", [text]])
        self._wake()

    async def _work(self, job: QueuedJob) -> None:
        for op in job.ops:
            op.state, op.start = JobStatus.RUNNING, timestamp()
            title = summary(op.opcode)
            op.log.append((len(messages(job)) + 1, timestamp(), "message", title))
            try:
                self.world = world_during(self.world, op.opcode)
                self._wake()
                await self.behaviour.work(seconds(op.opcode, self.behaviour.seconds))
                if self.behaviour.fails(title):
                    raise OpcodeError("OpExecError", f"{title} failed as ordered")
                before, (self.world, op.result) = self.world, carry_out(self.world, op.opcode)
                for text in warnings(op.opcode, op.result):
                    op.log.append((len(messages(job)) + 1, timestamp(), "message", text))
                self._boot(before.silent - self.world.silent)
            except OpcodeError as error:
                op.state, op.result, op.end = JobStatus.ERROR, error.encoded, timestamp()
                self._fail(job, "Preceding opcode failed")
                return
            op.state, op.end = JobStatus.SUCCESS, timestamp()
        job.state, job.end = JobStatus.SUCCESS, timestamp()
        self._wake()

    def _boot(self, names: Iterable[str]) -> None:
        """Let nodes that were powered on answer after the boot time."""

        async def boot(name: str) -> None:
            await trio.sleep(self.behaviour.boot_seconds)
            self.change(restore_node(self.world, name))

        if self.behaviour.boot_seconds:
            for name in names:
                self.world = lose_node(self.world, name)
                self._nursery.start_soon(boot, name)


def messages(job: QueuedJob) -> list[tuple[int, Stamp, str, str]]:
    """Return all messages of a job so far."""
    return [entry for op in job.ops for entry in op.log]


def _precedes(other: QueuedJob, job: QueuedJob) -> bool:
    """Whether the other job works on the same objects, or has waited longer for them."""
    if other is job or other.subjects.isdisjoint(job.subjects):
        return False
    return other.state is JobStatus.RUNNING or (
        other.state is JobStatus.WAITING and other.number < job.number
    )


def _absolute(opcode: Opcode, number: int) -> Mapping[str, Any]:
    """Return the opcode with absolute job numbers in ``depends``. Raises DataError.

    Negative numbers are relative to the job's own.
    """
    depends = opcode.get("depends") or []
    try:
        pairs = [
            [int(other) + number if other < 0 else int(other), [JobStatus(name).value for name in wanted]]
            for other, wanted in depends
        ]
    except (TypeError, ValueError):
        raise DataError("key 'depends': expected a list of [job, [status, ...]]") from None
    return {**opcode, "depends": pairs or None}
