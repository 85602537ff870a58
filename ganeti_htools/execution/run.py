"""A run: what has been submitted of a plan, what became of it, and what is left."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Signature


@dataclass(slots=True)
class Task:
    """A job that is about to be submitted, or has been.

    ``place`` is like 2/1: the first job of the second set. ``number`` is Ganeti's, None as long as it
    is not known. ``status`` is the last one known, ``error`` why it failed; with ``repeated`` another job has
    taken its place. ``note`` is what there is to say of its results, ``failing`` are the nodes for which it
    failed, if it did its work on others.
    """

    job: Job
    place: str
    number: int | None = None
    status: JobStatus | None = None
    error: str | None = None
    note: str | None = None
    failing: tuple[str, ...] = ()
    repeated: bool = False

    @property
    def failed(self) -> bool:
        """Whether the job failed for good."""
        return self.error is not None and not self.repeated

    @property
    def done(self) -> bool:
        """Whether the job has ended well."""
        return self.status is JobStatus.SUCCESS and self.error is None

    @property
    def over(self) -> bool:
        """Whether the job has ended or was not taken."""
        return self.error is not None or (self.status is not None and self.status.final)


class Ending(Enum):
    """How a run ended."""

    DONE = "done"
    STOPPED = "stopped"  # as the caller wished
    FAILED = "failed"  # a job did
    CHANGED = "changed"  # the cluster, so that the plan does not fit it any more
    LOST = "lost"  # Ganeti could not be asked


REQUESTED = "as requested"  # why a run was stopped, unless there is something else to say


@dataclass(slots=True)
class Run:
    """How far a plan is carried out.

    ``rest`` has not been submitted. ``tasks`` have been, or may have been where they have no number.
    ``sets`` is how many jobsets have been begun.

    ``changes`` are the reasons why the plan was made anew; ``reason`` says why it ended.
    """

    signature: Signature
    rest: Jobsets
    tasks: list[Task] = field(default_factory=list)
    sets: int = 0
    changes: list[str] = field(default_factory=list)
    ending: Ending | None = None
    reason: str = ""

    @property
    def current(self) -> list[Task]:
        """The tasks that have not ended."""
        return [task for task in self.tasks if not task.over]

    @property
    def switches(self) -> bool:
        """Whether jobs are left that change nodes themselves."""
        return any(job.nodes for jobs in self.rest for job in jobs)

    @property
    def moved(self) -> int:
        """The number of moves that have been made."""
        return sum(task.status is JobStatus.SUCCESS and task.job.step is not None for task in self.tasks)

    @property
    def nodes(self) -> dict[str, Job]:
        """For each node that jobs have changed: the last of them that ended well."""
        return {node: task.job for task in self.tasks if task.done for node in task.job.nodes}

    @property
    def standings(self) -> dict[str, str]:
        """What each node is that jobs have changed, or should have."""
        found: dict[str, str] = {}
        for task in self.tasks:
            for node in task.job.nodes:
                if task.done or (task.failing and node not in task.failing):
                    found[node] = task.job.standing
                elif task.failed:
                    found.setdefault(node, task.job.otherwise)
        return found

    def next_set(self) -> None:
        """Take the next set of jobs to be submitted."""
        self.sets += 1
        first, *self.rest = self.rest
        self.tasks += [Task(job, f"{self.sets}/{number}") for number, job in enumerate(first, 1)]

    def take_back(self, tasks: Sequence[Task]) -> None:
        """Put tasks of the last set back: they have not been submitted after all."""
        if tasks:
            self.rest = [[task.job for task in tasks], *self.rest]
            self.tasks = [task for task in self.tasks if task not in tasks]
