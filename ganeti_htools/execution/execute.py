"""Execution of a plan: one jobset after the other, each after a review on the present cluster.

This module does not print, read the time of day, or handle signals. The caller passes in how to read the
cluster, how to review the plan and who hears of events, and may stop the run between two jobsets. The
:class:`Run` records what has been done, however the run ends.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio

from ganeti_htools import machine
from ganeti_htools.execution import node_daemons
from ganeti_htools.execution.events import Changed, OnEvent
from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.node_daemons import Answers
from ganeti_htools.execution.queue import Queue
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.run import REQUESTED, Ending, Run, Task
from ganeti_htools.luxi.client import LuxiClient, LuxiError
from ganeti_htools.luxi.framing import FramingError
from ganeti_htools.luxi.jobs import PATIENCE, GivenUpError, Patience
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.nursery import open_nursery

Read = Callable[[], Awaitable[Cluster]]
# Claims what jobs need, or releases the claims if there are no jobs. Returns why the plan has to be reviewed
# again first, None if the jobs may be submitted.
Claim = Callable[[Sequence[Job]], Awaitable[str | None]]
Over = Callable[[], str | None]  # returns why no further jobset may be submitted, None if it may

_MAX_REVIEWS = 10  # of one jobset, when other claims keep interfering
_PAUSE = 15.0  # seconds before a failed job is repeated
_TRIALS = 40  # of a job: 10 minutes for a node to come up


async def _unclaimed(_jobs: Sequence[Job]) -> None:
    """Claim nothing."""


async def execute(
    run: Run,
    ganeti: LuxiClient,
    read: Read,
    check: Check,
    on_event: OnEvent,
    stop: trio.Event,
    time_ns: Callable[[], int],
    patience: Patience = PATIENCE,
    answers: Answers = node_daemons.answers,
    claim: Claim = _unclaimed,
    over: Over = lambda: None,
) -> None:
    """Carry out the rest of a run, until it has an ending.

    * ``read`` asks Ganeti for the cluster, ``check`` reviews the remaining jobs on it.
    * ``on_event`` receives events. HtoolsError after :class:`Changed` refuses the new plan.
    * ``stop`` ends the run before the next job is submitted, and so does a reason from ``over``.
    * ``time_ns`` is the time of day for the reason trail of jobs.
    * ``answers`` asks node daemons.
    * ``claim`` is called after the review of a jobset, and without jobs after its end.

    An interrupted run is continued: jobs that may have been submitted are searched for in the queue. After a
    cancellation ``run`` records what was done, and submitted jobs go on.
    """
    queue = Queue(run, ganeti, on_event, patience)
    unsure = bool(run.current)

    def proceed() -> bool:
        return not stop.is_set() and over() is None and not any(task.fatal for task in run.tasks)

    try:
        while True:
            if not run.current:
                run.ending, run.reason = await _next(queue, read, check, stop, answers, claim, over)
                if run.ending is not None:
                    await undo(queue, time_ns)
                    return
                await queue.begin()
            await queue.finish(time_ns, unsure, proceed)
            unsure = False
    except (LuxiError, FramingError) as error:
        run.ending, run.reason = Ending.LOST, str(error)


async def undo(queue: Queue, time_ns: Callable[[], int]) -> None:
    """Submit the jobs that undo unfinished changes of nodes after a run has ended early.

    No job of the run may be under way.
    """
    run = queue.run
    jobs = {job.undo.title: job.undo for job in run.nodes.values() if job.undo is not None}
    if jobs and run.ending not in (Ending.DONE, Ending.LOST):
        ending, run.ending = run.ending, None  # the record shows a run under way
        run.rest = [list(jobs.values()), *run.rest]
        await queue.begin()
        await queue.finish(time_ns)
        run.ending = ending


async def _next(
    queue: Queue, read: Read, check: Check, stop: trio.Event, answers: Answers, claim: Claim, over: Over
) -> tuple[Ending | None, str]:
    """Prepare the next jobset to fit the cluster. Returns ending and reason if the run ends instead."""
    run, late = queue.run, None
    await claim(())
    failed = [task for task in run.tasks if task.fatal]
    if failed:
        others = [_retry(run, task) for task in failed]
        if None in others:
            return _ending(run)
        retries = [other for other in others if other is not None]
        if any(other.opcodes == task.job.opcodes for other, task in zip(retries, failed, strict=True)):
            with trio.move_on_after(_PAUSE):
                await stop.wait()
        for task in failed:
            task.repeated = True
        run.rest = [retries, *run.rest]
    if not run.rest:
        return _ending(run)
    for _ in range(_MAX_REVIEWS):
        ended = await _review(queue, read, check, stop, answers)
        if ended is not None:
            return ended
        if not run.rest:
            return _ending(run)
        if why := over():
            return Ending.STOPPED, why
        late = await claim(run.rest[0])
        if late is None:
            return None, ""
    return Ending.CHANGED, f"{late}, {_MAX_REVIEWS} times in a row"


def _ending(run: Run) -> tuple[Ending, str]:
    """Return the ending of a run that submits no more jobs, and its reason."""
    failures = "; ".join(_failure(task) for task in run.failed)
    return (Ending.FAILED, failures) if failures else (Ending.DONE, "")


async def _review(
    queue: Queue, read: Read, check: Check, stop: trio.Event, answers: Answers
) -> tuple[Ending, str] | None:
    """Review the rest of the plan, or replace it. Returns ending and reason if the run ends instead."""
    run = queue.run
    review: Review | tuple[Ending, str] = Review()
    async with open_nursery() as nursery:
        nursery.start_soon(_cancel_when, stop, nursery.cancel_scope)
        review = await _review_now(queue, read, check, answers)
        nursery.cancel_scope.cancel()
    if stop.is_set():
        return Ending.STOPPED, REQUESTED
    if not isinstance(review, Review):
        return review
    if review.obstacle is None:
        return None
    try:
        await queue.on_event(Changed(review.obstacle, review.plan))
    except HtoolsError as error:
        return Ending.CHANGED, str(error)
    if review.plan is None:
        return Ending.CHANGED, review.obstacle
    run.changes.append(review.obstacle)
    run.rest = review.plan
    return (Ending.STOPPED, REQUESTED) if stop.is_set() else None


async def _review_now(
    queue: Queue, read: Read, check: Check, answers: Answers
) -> Review | tuple[Ending, str]:
    """Wait for the nodes that the next jobs need, read the cluster, and review the rest of the plan.

    Returns ending and reason if this fails.
    """
    run, failing = queue.run, Ending.FAILED
    awaited = [node for job in run.rest[0] for node in job.awaits]
    try:
        if awaited:
            await queue.persistently(lambda: node_daemons.expect(queue.ganeti, awaited, answers))
        failing = Ending.LOST
        cluster = await queue.persistently(read)
        return await machine.run_sync(check, cluster, run.rest, run.moved, abandon_on_cancel=True)
    except GivenUpError as error:
        return failing, str(error)
    except HtoolsError as error:
        return Review(str(error))


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _retry(run: Run, task: Task) -> Job | None:
    """Return the job to try after a failed one; None if there is none."""
    trials = sum(each.job.title == task.job.title for each in run.tasks)
    retry, error = task.job.retry, task.error
    return None if retry is None or error is None or trials >= _TRIALS else retry(error)


def _failure(task: Task) -> str:
    number = f"job {task.number}" if task.number is not None else "not submitted"
    return f"{number} ({task.job.title}): {'; '.join(filter(None, (task.error, task.note)))}"
