"""A plan carried out: one set of jobs after the other, each time with a look at the cluster before.

Nothing here prints, reads the clock of the day or knows of signals. Whoever wants a plan carried out
says how the cluster is read and what is done when the plan does not fit it any more, hears of all that
happens, and may stop it between two sets. What has been done stands in a :class:`Run`, whatever ends it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import trio

from ganeti_htools.engine.balancing.recheck import NamedStep
from ganeti_htools.luxi import jobs, opcodes
from ganeti_htools.luxi.client import Client, LuxiError
from ganeti_htools.luxi.framing import FramingError
from ganeti_htools.luxi.jobs import PATIENCE, GivenUpError, Patience
from ganeti_htools.luxi.opcodes import Opcode, Signature
from ganeti_htools.luxi.queries import JobStatus
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a plan: for people, for Ganeti, for the shell, and the move it makes if it makes one."""

    title: str
    opcodes: tuple[Opcode, ...]
    commands: tuple[str, ...]
    step: NamedStep | None = None


Plan = Sequence[Sequence[Job]]  # jobs of a set touch no node twice; set follows set


def move(step: NamedStep, forthcoming: bool) -> tuple[Opcode, ...]:
    """The opcodes of a move, as Ganeti's htools submit them (``Cluster.Utils.iMoveToJob``)."""
    return tuple(
        opcodes.moving(operation, step.instance, step.node or "", forthcoming)
        for operation in step.kind.operations
    )


@dataclass(slots=True)
class Task:
    """A job that is submitted, or was.

    ``place`` is like 2/1: the first job of the second set. ``number`` is Ganeti's, None as long as it
    is not known. ``status`` is the last one known, ``error`` why it failed.
    """

    job: Job
    place: str
    number: int | None = None
    status: JobStatus | None = None
    error: str | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.error is not None or (self.status is not None and self.status.final)


class Ending(Enum):
    """How a run ended."""

    DONE = "done"
    STOPPED = "stopped"  # as the caller wished
    FAILED = "failed"  # a job did
    CHANGED = "changed"  # the cluster, so that the plan does not fit it any more
    LOST = "lost"  # Ganeti could not be asked


@dataclass(slots=True)
class Run:
    """What is done of a plan. ``rest`` is not submitted; ``tasks`` are or, without number, may be.

    ``changes`` are the reasons why the plan was made anew; ``reason`` says why it ended.
    """

    signature: Signature
    rest: Plan
    tasks: list[Task] = field(default_factory=list)
    sets: int = 0
    changes: list[str] = field(default_factory=list)
    ending: Ending | None = None
    reason: str = ""

    @property
    def current(self) -> list[Task]:
        """The tasks that are not over."""
        return [task for task in self.tasks if not task.over]

    @property
    def moved(self) -> int:
        """How many moves have been made."""
        return sum(task.status is JobStatus.SUCCESS and task.job.step is not None for task in self.tasks)

    def next_set(self) -> None:
        """Take the next set of jobs to be submitted."""
        self.sets += 1
        first, *self.rest = self.rest
        self.tasks += [Task(job, f"{self.sets}/{number}") for number, job in enumerate(first, 1)]

    def take_back(self, tasks: Sequence[Task]) -> None:
        """These, of the last set, have not been submitted after all."""
        if tasks:
            self.rest = [[task.job for task in tasks], *self.rest]
            self.tasks = [task for task in self.tasks if task not in tasks]


# Events. Each is told before anything else happens.


@dataclass(frozen=True, slots=True)
class Submitting:
    """These are about to be submitted."""

    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Submitted:
    """These have been submitted: they have numbers, or errors where Ganeti did not take them."""

    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Progress:
    """A task has another status, or says something."""

    task: Task
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The plan did not fit the cluster any more. ``plan`` is the new one, None if there is none."""

    obstacle: str
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Away:
    """Ganeti cannot be asked, or a node does not report, as the reason says; or that is over (None)."""

    reason: str | None


Event = Submitting | Submitted | Progress | Changed | Away
Tell = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Review:
    """What a look at the cluster brought: why the plan does not fit (None if it does), and a new one."""

    obstacle: str | None = None
    plan: Plan | None = None


Read = Callable[[], Awaitable[Cluster]]
# The cluster, the rest of the plan, how many moves have been made. In a thread; may raise HtoolsError.
Check = Callable[[Cluster, Plan, int], Review]


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

    A run that was interrupted is taken up where it was: what may have been submitted is looked for
    in the queue. When this is cancelled, ``run`` tells how far it came, and jobs go on.
    """

    async def away(reason: str | None) -> None:
        await tell(Away(reason))

    unsure = bool(run.current)
    try:
        while True:
            if not run.current:
                run.ending, run.reason = await _next(run, read, check, tell, stop, patience, away)
                if run.ending is not None:
                    return
                run.next_set()
                await tell(Submitting(run.current))
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
            unsure = False
            await _follow(run, ganeti, tell, patience, away)
    except (LuxiError, FramingError) as error:
        run.ending, run.reason = Ending.LOST, str(error)


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


def going_on(run: Run) -> str:
    """The jobs that have not ended as far as is known, in words."""
    known = ", ".join(str(task.number) for task in run.current if task.number is not None)
    hidden = sum(task.number is None for task in run.current)
    comment = f"with 'run {run.signature.run}' in their comments"
    parts = [f"jobs {known}" if known else "", f"perhaps {hidden} jobs {comment}" if hidden else ""]
    return " and ".join(part for part in parts if part)


async def _next(
    run: Run, read: Read, check: Check, tell: Tell, stop: trio.Event, patience: Patience, away: jobs.Away
) -> tuple[Ending | None, str]:
    """Make ready what comes next, or tell how and why it ends."""
    failed = [task for task in run.tasks if task.error is not None]
    if failed:
        return Ending.FAILED, "; ".join(_failure(task) for task in failed)
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
    """How the plan fits the cluster as it is now."""
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


def _failure(task: Task) -> str:
    number = f"job {task.number}" if task.number is not None else "not submitted"
    return f"{number} ({task.job.title}): {task.error}"


async def _follow(run: Run, ganeti: Client, tell: Tell, patience: Patience, away: jobs.Away) -> None:
    """Wait until all tasks are over."""
    tasks = {task.number: task for task in run.current if task.number is not None}

    async def news(number: int, told: JobStatus | str | None) -> None:
        task = tasks[number]
        if isinstance(told, str):
            await tell(Progress(task, told))
            return
        if told is None:
            task.error = "Ganeti does not know it any more"
        elif told.final and told is not JobStatus.SUCCESS:
            task.error = (await jobs.failures(ganeti, [number], patience, away))[number]
        task.status = told
        await tell(Progress(task))

    if tasks:
        await jobs.follow(ganeti, list(tasks), patience, away, news)
