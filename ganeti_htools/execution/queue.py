"""Submission of one jobset of a run to Ganeti's queue, and following it to its end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from ganeti_htools.execution.events import Away, News, OnEvent, Submitted, Submitting
from ganeti_htools.execution.run import Run
from ganeti_htools.luxi import jobs
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import PATIENCE, Patience, Value

_MOST_WARNINGS = 3  # of a failed job's log


@dataclass(frozen=True, slots=True)
class Queue:
    """Ganeti's queue for the present jobset of a run. All methods raise GivenUpError."""

    run: Run
    ganeti: LuxiClient
    on_event: OnEvent
    patience: Patience

    async def away(self, reason: str | None) -> None:
        """Report that Ganeti cannot be asked, or (None) that it answers again."""
        await self.on_event(Away(reason))

    async def persistently(self, request: Callable[[], Awaitable[Value]]) -> Value:
        """Repeat a request until Ganeti answers, and return its result."""
        return await jobs.persistently(request, self.patience, self.away)

    async def begin(self) -> None:
        """Begin the next jobset."""
        self.run.next_set()
        await self.on_event(Submitting(self.run.current))

    async def finish(
        self, time_ns: Callable[[], int], unsure: bool = False, proceed: Callable[[], bool] = lambda: True
    ) -> None:
        """Submit jobs without a number and wait for all; ``unsure`` searches the queue for them first.

        When a job ends, the next one of the jobset is submitted, as long as ``proceed`` returns True.
        """

        async def submit_next() -> None:
            if proceed() and (new := self.run.next_jobs()):
                await self.on_event(Submitting(new))
                await self._submit(time_ns)

        await self._submit(time_ns, unsure)
        while self.run.waiting and not self.run.current and proceed():  # no job was accepted
            await submit_next()
        await self.follow(submit_next)

    async def _submit(self, time_ns: Callable[[], int], unsure: bool = False) -> None:
        waiting, sign = [task for task in self.run.current if task.number is None], self.run.signature.sign
        if waiting:
            left = sum(map(len, self.run.rest))
            work = [sign(task.job.opcodes, task.place, time_ns(), left) for task in waiting]
            numbers = await jobs.submit(self.ganeti, work, self.patience, self.away, unsure)
            for task, answer in zip(waiting, numbers, strict=True):
                if isinstance(answer, int):
                    task.number = answer
                else:
                    task.error = answer
            await self.on_event(Submitted(waiting))

    async def follow(self, after_end: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> None:
        """Wait until all tasks have ended; ``after_end`` is awaited when one has, and may add others."""

        def numbers() -> list[int]:
            return [task.number for task in self.run.current if task.number is not None]

        async def more() -> list[int]:
            before = numbers()
            await after_end()
            return [number for number in numbers() if number not in before]

        async def news(number: int, found: JobStatus | str | None) -> None:
            (task,) = (each for each in self.run.tasks if each.number == number)
            if isinstance(found, str):
                await self.on_event(News(task, found))
                return
            if found is None:
                task.error = "Ganeti no longer knows the job"
            elif found.final and found is not JobStatus.SUCCESS:
                errors = await jobs.failures(self.ganeti, [number], self.patience, self.away)
                task.error, task.note = errors[number], task.job.left_behind
            elif found.final and task.job.judge is not None:
                results = await jobs.results(self.ganeti, number, self.patience, self.away)
                task.error, task.note, task.failing = task.job.judge(results)
                if task.error is not None:  # what programs have written is in the log only
                    logged = await jobs.warnings(self.ganeti, number, self.patience, self.away)
                    task.note = "; ".join(filter(None, (task.note, *logged[-_MOST_WARNINGS:]))) or None
            if found is JobStatus.RUNNING and task.began is None:
                task.began = trio.current_time()
            elif found is JobStatus.SUCCESS and task.began is not None:
                task.seconds = round(trio.current_time() - task.began, 1)
            task.status = found
            await self.on_event(News(task))

        if following := numbers():
            await jobs.follow(self.ganeti, following, self.patience, self.away, news, more)


async def trace(run: Run, ganeti: LuxiClient, on_event: OnEvent, patience: Patience = PATIENCE) -> None:
    """Find out how the jobs of an interrupted run end; nothing is submitted. Raises GivenUpError."""
    queue = Queue(run, ganeti, on_event, patience)
    unsure = [task for task in run.current if task.number is None]
    if unsure:
        comments = [run.signature.comment(task.place) for task in unsure]
        found = await jobs.find(ganeti, comments, patience, queue.away, trio.current_time() + patience.late)
        for place, number in found.items():
            unsure[place].number = number
        run.take_back([task for task in unsure if task.number is None])
        await on_event(Submitted([task for task in unsure if task.number is not None]))
    await queue.follow()
