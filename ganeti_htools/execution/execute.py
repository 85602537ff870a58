"""A plan carried out: one set of jobs after the other, each time with a look at the cluster before.

Nothing here prints, reads the clock of the day or knows of signals. The caller says how the cluster is read
and what is done when the plan does not fit it any more, is told all that happens, and may stop the run
between two sets. However the run ends, its :class:`Run` says what has been done.
"""

from collections.abc import Awaitable, Callable

import trio

from ganeti_htools.execution.events import Away, Changed, News, Submitted, Submitting, Tell
from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.run import Ending, Run, Task
from ganeti_htools.luxi import jobs
from ganeti_htools.luxi.client import Client, LuxiError
from ganeti_htools.luxi.framing import FramingError
from ganeti_htools.luxi.jobs import PATIENCE, GivenUpError, Patience
from ganeti_htools.luxi.queries import JobStatus
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError

Read = Callable[[], Awaitable[Cluster]]

_PAUSE = 15.0  # seconds before a job that failed is tried again
_TRIALS = 40  # of a job: 10 minutes, until a node has come up


async def execute(
    run: Run,
    ganeti: Client,
    read: Read,
    check: Check,
    tell: Tell,
    stop: trio.Event,
    time_ns: Callable[[], int],
    patience: Patience = PATIENCE,
) -> None:
    """Carry out what is left of a run, until it has an ending.

    ``read`` asks Ganeti for the cluster; ``stop`` ends the run before the next set of jobs; ``time_ns`` is
    the time of the day for the jobs' reason trail. A run that was interrupted is continued: jobs that may
    have been submitted are looked for in the queue. When this is cancelled, ``run`` tells how far it came,
    and jobs go on.
    """

    async def away(reason: str | None) -> None:
        await tell(Away(reason))

    unsure = bool(run.current)
    try:
        while True:
            if not run.current:
                run.ending, run.reason = await _next(run, read, check, tell, stop, patience, away)
                if run.ending is not None:
                    await _undo(run, ganeti, tell, time_ns, patience, away)
                    return
                run.next_set()
                await tell(Submitting(run.current))
            await _submit(run, ganeti, tell, time_ns, patience, away, unsure)
            unsure = False
            await _follow(run, ganeti, tell, patience, away)
    except (LuxiError, FramingError) as error:
        run.ending, run.reason = Ending.LOST, str(error)


async def _submit(
    run: Run,
    ganeti: Client,
    tell: Tell,
    time_ns: Callable[[], int],
    patience: Patience,
    away: jobs.Away,
    unsure: bool = False,
) -> None:
    """Submit the jobs of the present set that have not been."""
    waiting = [task for task in run.current if task.number is None]
    if waiting:
        work = [run.signature.sign(task.job.opcodes, task.place, time_ns()) for task in waiting]
        answers = await jobs.submit(ganeti, work, patience, away, unsure)
        for task, answer in zip(waiting, answers, strict=True):
            if isinstance(answer, int):
                task.number = answer
            else:
                task.error = answer
        await tell(Submitted(waiting))


async def _undo(
    run: Run,
    ganeti: Client,
    tell: Tell,
    time_ns: Callable[[], int],
    patience: Patience,
    away: jobs.Away,
) -> None:
    """Take back what nodes cannot stay once a run has ended early."""
    if run.ending in (Ending.DONE, Ending.LOST):
        return
    undo = {job.undo.title: job.undo for job in run.nodes.values() if job.undo is not None}
    if undo:
        rest, ending = run.rest, run.ending
        run.rest, run.ending = [list(undo.values()), *rest], None  # under way again, for whoever looks
        run.next_set()
        await tell(Submitting(run.current))
        await _submit(run, ganeti, tell, time_ns, patience, away)
        await _follow(run, ganeti, tell, patience, away)
        run.ending = ending


async def trace(run: Run, ganeti: Client, tell: Tell, patience: Patience = PATIENCE) -> None:
    """Learn what became of the jobs of a run that was left; nothing is submitted. Raises GivenUpError."""

    async def away(reason: str | None) -> None:
        await tell(Away(reason))

    unsure = [task for task in run.current if task.number is None]
    if unsure:
        comments = [run.signature.comment(task.place) for task in unsure]
        found = await jobs.find(ganeti, comments, patience, away, trio.current_time() + patience.late)
        for place, number in found.items():
            unsure[place].number = number
        run.take_back([task for task in unsure if task.number is None])
        await tell(Submitted([task for task in unsure if task.number is not None]))
    await _follow(run, ganeti, tell, patience, away)


async def _next(
    run: Run, read: Read, check: Check, tell: Tell, stop: trio.Event, patience: Patience, away: jobs.Away
) -> tuple[Ending | None, str]:
    """See that the next jobset fits the cluster. If the run ends instead, the result says how and why."""
    failed = [task for task in run.tasks if task.failed]
    if failed:
        others = [_instead(run, task) for task in failed]
        if None in others:
            return Ending.FAILED, "; ".join(_failure(task) for task in failed)
        if any(other is task.job for other, task in zip(others, failed, strict=True)):
            with trio.move_on_after(_PAUSE):
                await stop.wait()
        for task in failed:
            task.repeated = True
        run.rest = [[other for other in others if other is not None], *run.rest]
    if not run.rest:
        return Ending.DONE, ""
    review: Review | GivenUpError = Review()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when, stop, nursery.cancel_scope)
        review = await _look(run, read, check, patience, away)
        nursery.cancel_scope.cancel()
    if stop.is_set():
        return Ending.STOPPED, "as requested"
    if isinstance(review, GivenUpError):
        return Ending.LOST, str(review)
    if review.obstacle is None:
        return None, ""
    await tell(Changed(review.obstacle, review.plan))
    if review.plan is None:
        return Ending.CHANGED, review.obstacle
    run.changes.append(review.obstacle)
    run.rest = review.plan
    return (None, "") if run.rest else (Ending.DONE, "")


async def _look(
    run: Run, read: Read, check: Check, patience: Patience, away: jobs.Away
) -> Review | GivenUpError:
    """Read the cluster, and review the rest of the plan on it."""
    try:
        cluster = await jobs.persistently(read, patience, away)
        return await trio.to_thread.run_sync(check, cluster, run.rest, run.moved, abandon_on_cancel=True)
    except GivenUpError as error:
        return error
    except HtoolsError as error:
        return Review(str(error))


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _instead(run: Run, task: Task) -> Job | None:
    """The job to be tried instead of one that failed, if there is one."""
    job = task.job
    if job.again is None or task.error is None or sum(each.job is job for each in run.tasks) >= _TRIALS:
        return None
    return job.again(task.error)


def _failure(task: Task) -> str:
    number = f"job {task.number}" if task.number is not None else "not submitted"
    return f"{number} ({task.job.title}): {task.error}"


async def _follow(run: Run, ganeti: Client, tell: Tell, patience: Patience, away: jobs.Away) -> None:
    """Wait until all tasks are over."""
    tasks = {task.number: task for task in run.current if task.number is not None}

    async def news(number: int, told: JobStatus | str | None) -> None:
        task = tasks[number]
        if isinstance(told, str):
            await tell(News(task, told))
            return
        if told is None:
            task.error = "Ganeti does not know it any more"
        elif told.final and told is not JobStatus.SUCCESS:
            task.error = (await jobs.failures(ganeti, [number], patience, away))[number]
        elif told.final and task.job.judge is not None:
            task.error, task.note = task.job.judge(await jobs.results(ganeti, number, patience, away))
        task.status = told
        await tell(News(task))

    if tasks:
        await jobs.follow(ganeti, list(tasks), patience, away, news)
