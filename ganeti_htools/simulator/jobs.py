"""The job queue: jobs wait for each other, take their time, change the world, and report their state.

A job is queued until what it depends on has ended and one of the running jobs' places is free, then
waiting until nobody else works on its instances and nodes, then running, one opcode after the other.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import trio

from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator.logical_units import begun, carry_out
from ganeti_htools.simulator.opcodes import OpcodeError, check, seconds, subjects, summary
from ganeti_htools.simulator.world import World, find, lose

MOST_RUNNING = 20  # as Ganeti has it unless told otherwise
LONGEST_WAIT = 29.0  # seconds until WaitForJobChange tells that nothing changed, as luxid does

Stamp = tuple[int, int]  # seconds, microseconds


@dataclass(slots=True)
class QueuedOpcode:
    """An opcode of a job, and what became of it."""

    opcode: Opcode
    state: JobStatus = JobStatus.QUEUED
    result: Any = None
    log: list[tuple[int, Stamp, str, str]] = field(default_factory=list)
    start: Stamp | None = None
    end: Stamp | None = None


@dataclass(slots=True)
class QueuedJob:
    """A job and its opcodes, carried out one after the other."""

    number: int
    ops: list[QueuedOpcode]
    received: Stamp
    subjects: frozenset[str]
    state: JobStatus = JobStatus.QUEUED
    start: Stamp | None = None
    end: Stamp | None = None

    def finish(self, state: JobStatus, result: Any) -> None:
        """Give every opcode that has not ended this end."""
        for op in self.ops:
            if not op.state.final:
                op.state, op.result = state, result
        self.state, self.end = state, stamp()


@dataclass(slots=True)
class Behaviour:
    """How jobs go: seconds for each opcode, and which fail (patterns of summaries, and how often); seconds
    until a node that is powered on answers.
    """

    seconds: float = 1.0
    boot_seconds: float = 0.0
    failures: dict[str, float] = field(default_factory=dict)
    _enough: trio.Event = field(default_factory=trio.Event)

    async def take(self, seconds: float) -> None:
        """Be at work for so long, unless told to finish."""
        with trio.move_on_after(seconds):
            await self._enough.wait()

    def finish(self) -> None:
        """Let the opcodes under way take no longer."""
        self._enough.set()
        self._enough = trio.Event()

    def fail(self, pattern: str, times: float = inf) -> None:
        """Let opcodes fail whose summary matches. Raises DataError for what is no pattern."""
        try:
            re.compile(pattern)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise DataError(f"expected a regular expression, not {pattern!r}: {error}") from None
        self.failures[pattern] = times

    def fails(self, summary: str) -> bool:
        """Whether an opcode fails; each time counts."""
        for pattern, times in self.failures.items():
            if times > 0 and re.search(pattern, summary):
                self.failures[pattern] = times - 1
                return True
        return False


def stamp() -> Stamp:
    """The present time as Ganeti writes it."""
    microseconds = time.time_ns() // 1000
    return microseconds // 10**6, microseconds % 10**6


class Jobs:
    """All jobs, and the world they change. Jobs run as tasks of ``nursery``."""

    def __init__(self, nursery: trio.Nursery, world: World, behaviour: Behaviour) -> None:
        self.world = world
        self.behaviour = behaviour
        self.drained = False
        self.paused: float | None = None  # until when the watcher is
        self.archived: set[int] = set()
        self._nursery = nursery
        self._jobs: dict[int, QueuedJob] = {}
        self._changed = trio.Event()
        nursery.start_soon(self._schedule)

    def change(self, world: World) -> None:
        """Replace the world, and wake everybody who waits for a change."""
        self.world = world
        self._tell()

    def submit(self, lists: Sequence[Sequence[Any]]) -> list[int]:
        """Accept jobs, each a list of opcodes; their numbers. Raises DataError, OpcodeError: all or none."""
        checked = [[check(opcode) for opcode in opcodes] for opcodes in lists]
        if self.drained:
            raise OpcodeError("GenericError", "Queue drained")
        first = max(self._jobs, default=0) + 1
        accepted = {
            number: QueuedJob(
                number,
                [QueuedOpcode(_absolute(opcode, number)) for opcode in opcodes],
                stamp(),
                frozenset().union(*(subjects(self.world, opcode) for opcode in opcodes)),
            )
            for number, opcodes in enumerate(checked, first)
        }
        self._jobs |= accepted
        self._tell()
        return list(accepted)

    def find(self, number: int) -> QueuedJob | None:
        """The job of that number, if there is one that was not archived."""
        return None if number in self.archived else self._jobs.get(number)

    def known(self) -> list[QueuedJob]:
        """All jobs that were not archived, oldest first."""
        return [job for job in self._jobs.values() if job.number not in self.archived]

    def cancel(self, number: int) -> tuple[bool, str]:
        """Whether the job could be cancelled, and what luxid says of it."""
        job = self.find(number)
        if job is None or job.state.final:
            return False, f"Job {number} not found in queue"
        if job.state is JobStatus.RUNNING:
            return False, "Job no longer waiting, can't cancel (informed it anyway)"
        said = f"Dequeued job {number}" if job.state is JobStatus.QUEUED else "Job successfully cancelled"
        self._cancel(job)
        return True, said

    def archive(self, number: int) -> bool:
        """Forget a job that has ended."""
        job = self.find(number)
        if job is None or not job.state.final:
            return False
        self.archived.add(number)
        return True

    async def wait_for_change(
        self, number: int, fields: Callable[[QueuedJob], list[Any]], known: Any, newest: Any, patience: float
    ) -> tuple[Any, list[Any]]:
        """Wait until fields of a job are not ``known`` ones or it has messages after ``newest``.

        The result is these fields and messages; after ``patience`` seconds the known fields and no messages.
        Raises OpcodeError for a job that is not there.
        """
        job = self.find(number)
        if job is None:
            raise OpcodeError("JobLost", "Can't load job file")
        with trio.move_on_after(min(patience, LONGEST_WAIT)):
            while True:
                told = fields(job), [entry for entry in messages(job) if newest is None or entry[0] > newest]
                if job.state.final or told != (known, []):
                    return told
                await self._changed.wait()
        return known, []

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _cancel(self, job: QueuedJob) -> None:
        job.finish(JobStatus.CANCELED, "Job canceled by request")
        self._tell()

    async def _schedule(self) -> None:
        """Take jobs as far as they can go, oldest first, whenever something has changed."""
        while True:
            changed = self._changed
            for job in [job for job in self._jobs.values() if not job.state.final]:
                if job.state is JobStatus.QUEUED and self._may_start(job):
                    self._enter(job, JobStatus.WAITING)
                if job.state is JobStatus.WAITING and not any(
                    _precedes(other, job) for other in self._started()
                ):
                    self._enter(job, JobStatus.RUNNING)
                    self._nursery.start_soon(self._work, job)
            await changed.wait()

    def _started(self) -> list[QueuedJob]:
        return [job for job in self._jobs.values() if job.state in (JobStatus.WAITING, JobStatus.RUNNING)]

    def _enter(self, job: QueuedJob, state: JobStatus) -> None:
        job.state = state
        job.start = job.start or stamp()
        for op in job.ops:
            if op.state is JobStatus.QUEUED:
                op.state = JobStatus.WAITING
        self._tell()

    def _may_start(self, job: QueuedJob) -> bool:
        """Whether a job may start: those it depends on have ended as it needs, and not too many jobs run.

        A job whose needs cannot be met any more is ended.
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
        self._tell()

    async def _work(self, job: QueuedJob) -> None:
        for op in job.ops:
            op.state, op.start = JobStatus.RUNNING, stamp()
            title = summary(op.opcode)
            op.log.append((len(messages(job)) + 1, stamp(), "message", title))
            try:
                self.world = begun(self.world, op.opcode)
                self._tell()
                await self.behaviour.take(seconds(op.opcode, self.behaviour.seconds))
                if self.behaviour.fails(title):
                    raise OpcodeError("OpExecError", f"{title} was told to fail")
                before, (self.world, op.result) = self.world, carry_out(self.world, op.opcode)
                self._boot(before.silent - self.world.silent)
            except OpcodeError as error:
                op.state, op.result, op.end = JobStatus.ERROR, error.encoded, stamp()
                self._fail(job, "Preceding opcode failed")
                return
            op.state, op.end = JobStatus.SUCCESS, stamp()
        job.state, job.end = JobStatus.SUCCESS, stamp()
        self._tell()

    def _boot(self, names: Iterable[str]) -> None:
        """Nodes that were powered on answer after a while."""

        async def boot(name: str) -> None:
            await trio.sleep(self.behaviour.boot_seconds)
            self.change(find(self.world, name))

        if self.behaviour.boot_seconds:
            for name in names:
                self.world = lose(self.world, name)
                self._nursery.start_soon(boot, name)


def messages(job: QueuedJob) -> list[tuple[int, Stamp, str, str]]:
    """Everything a job has said so far."""
    return [entry for op in job.ops for entry in op.log]


def _precedes(other: QueuedJob, job: QueuedJob) -> bool:
    """Whether the other works on the same things, or has waited longer to do so."""
    if other is job or other.subjects.isdisjoint(job.subjects):
        return False
    return other.state is JobStatus.RUNNING or (
        other.state is JobStatus.WAITING and other.number < job.number
    )


def _absolute(opcode: Opcode, number: int) -> Mapping[str, Any]:
    """The opcode with absolute job numbers in ``depends``; negative ones are relative. Raises DataError."""
    depends = opcode.get("depends") or []
    try:
        pairs = [
            [int(other) + number if other < 0 else int(other), [JobStatus(name).value for name in wanted]]
            for other, wanted in depends
        ]
    except (TypeError, ValueError):
        raise DataError("key 'depends': expected a list of [job, [status, ...]]") from None
    return {**opcode, "depends": pairs or None}
