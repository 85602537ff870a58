"""A plan carried out: one set of jobs after the other, each time with a look at the cluster before.

Nothing here prints, reads the clock of the day or knows of signals. The caller says how the cluster is read
and what is done when the plan does not fit it any more, is told all that happens, and may stop the run
between two sets. However the run ends, its :class:`Run` says what has been done.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio

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

Read = Callable[[], Awaitable[Cluster]]
# Claims what jobs need, nothing for none; why the cluster has to be looked at once more first, if it has.
Claim = Callable[[Sequence[Job]], Awaitable[str | None]]
Over = Callable[[], str | None]  # why no further set of jobs is to be submitted, if that is so

_LOOKS = 10  # at the cluster, if each time somebody else claims something
_PAUSE = 15.0  # seconds before a job that failed is tried again
_TRIALS = 40  # of a job: 10 minutes, until a node has come up


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
    """Carry out what is left of a run, until it has an ending.

    ``read`` asks Ganeti for the cluster; ``stop`` ends the run before the next set of jobs; ``time_ns`` is
    the time of the day for the jobs' reason trail; ``answers`` asks node daemons; ``claim`` is called once a
    set has been reviewed, and with no jobs when it has ended; ``over`` is asked before each set, and may end
    the run like ``stop``. A run that was interrupted is continued: jobs that may have been submitted are
    looked for in the queue. When this is cancelled, ``run`` tells how far it
    came, and jobs go on.
    """
    queue = Queue(run, ganeti, on_event, patience)
    unsure = bool(run.current)
    try:
        while True:
            if not run.current:
                run.ending, run.reason = await _next(queue, read, check, stop, answers, claim, over)
                if run.ending is not None:
                    await _undo(queue, time_ns)
                    return
                await queue.begin()
            await queue.finish(time_ns, unsure)
            unsure = False
    except (LuxiError, FramingError) as error:
        run.ending, run.reason = Ending.LOST, str(error)


async def _undo(queue: Queue, time_ns: Callable[[], int]) -> None:
    """Take back what nodes cannot stay once a run has ended early."""
    run = queue.run
    undo = {job.undo.title: job.undo for job in run.nodes.values() if job.undo is not None}
    if undo and run.ending not in (Ending.DONE, Ending.LOST):
        ending, run.ending = run.ending, None  # under way again, for whoever looks
        run.rest = [list(undo.values()), *run.rest]
        await queue.begin()
        await queue.finish(time_ns)
        run.ending = ending


async def _next(
    queue: Queue, read: Read, check: Check, stop: trio.Event, answers: Answers, claim: Claim, over: Over
) -> tuple[Ending | None, str]:
    """See that the next jobset fits the cluster. If the run ends instead, the result says how and why."""
    run, late = queue.run, None
    await claim(())
    failed = [task for task in run.tasks if task.failed]
    if failed:
        others = [_instead(run, task) for task in failed]
        if None in others:
            return Ending.FAILED, "; ".join(_failure(task) for task in failed)
        again = [other for other in others if other is not None]
        if any(other.opcodes == task.job.opcodes for other, task in zip(again, failed, strict=True)):
            with trio.move_on_after(_PAUSE):
                await stop.wait()
        for task in failed:
            task.repeated = True
        run.rest = [again, *run.rest]
    if not run.rest:
        return Ending.DONE, ""
    for _ in range(_LOOKS):
        ended = await _reviewed(queue, read, check, stop, answers)
        if ended is not None:
            return ended
        if not run.rest:
            return Ending.DONE, ""
        if why := over():
            return Ending.STOPPED, why
        late = await claim(run.rest[0])
        if late is None:
            return None, ""
    return Ending.CHANGED, f"again and again, {late}"


async def _reviewed(
    queue: Queue, read: Read, check: Check, stop: trio.Event, answers: Answers
) -> tuple[Ending, str] | None:
    """See that the rest fits the cluster, or make it anew. If the run ends instead: how, and why."""
    run = queue.run
    review: Review | tuple[Ending, str] = Review()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when, stop, nursery.cancel_scope)
        review = await _look(queue, read, check, answers)
        nursery.cancel_scope.cancel()
    if stop.is_set():
        return Ending.STOPPED, REQUESTED
    if not isinstance(review, Review):
        return review
    if review.obstacle is None:
        return None
    await queue.on_event(Changed(review.obstacle, review.plan))
    if review.plan is None:
        return Ending.CHANGED, review.obstacle
    run.changes.append(review.obstacle)
    run.rest = review.plan
    return None


async def _look(queue: Queue, read: Read, check: Check, answers: Answers) -> Review | tuple[Ending, str]:
    """Wait for the nodes that the next jobs need, read the cluster, and review the rest of the plan on it.

    Where that cannot be, the result is how the run ends, and why.
    """
    run, failing = queue.run, Ending.FAILED
    awaited = [node for job in run.rest[0] for node in job.awaits]
    try:
        if awaited:
            await queue.persistently(lambda: node_daemons.expect(queue.ganeti, awaited, answers))
        failing = Ending.LOST
        cluster = await queue.persistently(read)
        return await trio.to_thread.run_sync(check, cluster, run.rest, run.moved, abandon_on_cancel=True)
    except GivenUpError as error:
        return failing, str(error)
    except HtoolsError as error:
        return Review(str(error))


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _instead(run: Run, task: Task) -> Job | None:
    """The job to be tried instead of one that failed, if there is one."""
    trials = sum(each.job.title == task.job.title for each in run.tasks)
    again, error = task.job.again, task.error
    return None if again is None or error is None or trials >= _TRIALS else again(error)


def _failure(task: Task) -> str:
    number = f"job {task.number}" if task.number is not None else "not submitted"
    return f"{number} ({task.job.title}): {task.error}"
