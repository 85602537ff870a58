"""A run: the submitted jobs of a plan with their results, and the jobs that remain."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Signature


@dataclass(slots=True)
class Task:
    """A job that is about to be submitted, or has been.

    * ``place``: 2/1 is the first job of the second jobset.
    * ``number``: Ganeti's, None if unknown.
    * ``status``: the last known status.
    * ``error``: why the job failed; with ``repeated`` another job has replaced it.
    * ``note``: a remark about its results.
    * ``failing``: the nodes for which it failed, if it succeeded for others.
    * ``began``: when it was first seen to run, by a clock of the process.
    * ``seconds``: how long it ran, None if unknown.
    """

    job: Job
    place: str
    number: int | None = None
    status: JobStatus | None = None
    error: str | None = None
    note: str | None = None
    failing: tuple[str, ...] = ()
    repeated: bool = False
    began: float | None = None
    seconds: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the job failed and is not repeated."""
        return self.error is not None and not self.repeated

    @property
    def fatal(self) -> bool:
        """Whether its failure ends the run: no later job is submitted."""
        return self.failed and not (self.job.independent and self.status is JobStatus.ERROR)

    @property
    def done(self) -> bool:
        return self.status is JobStatus.SUCCESS and self.error is None

    @property
    def over(self) -> bool:
        """Whether the job has ended or was not accepted."""
        return self.error is not None or (self.status is not None and self.status.final)


class Ending(Enum):
    """Ending of a run."""

    DONE = "done"
    STOPPED = "stopped"  # at the caller's request
    FAILED = "failed"  # a job failed
    CHANGED = "changed"  # the plan no longer fits the cluster
    LOST = "lost"  # Ganeti could not be asked


REQUESTED = "as requested"  # reason of a run that was stopped, if there is no other


@dataclass(slots=True)
class Run:
    """Progress of a plan.

    * ``rest``: the jobs that have not been submitted.
    * ``tasks``: the submitted jobs; without a number they may have been submitted.
    * ``sets``: the number of jobsets begun.
    * ``changes``: the reasons of new plans.
    * ``reason``: why the run ended.
    * ``parallel``: the largest number of unfinished jobs; 0 for no limit.
    * ``waiting``: how many jobs of the present jobset are still in ``rest``, as its first ones.
    """

    signature: Signature
    rest: Jobsets
    tasks: list[Task] = field(default_factory=list)
    sets: int = 0
    changes: list[str] = field(default_factory=list)
    ending: Ending | None = None
    reason: str = ""
    parallel: int = 0
    waiting: int = 0

    @property
    def current(self) -> list[Task]:
        """Tasks that have not ended."""
        return [task for task in self.tasks if not task.over]

    @property
    def failed(self) -> list[Task]:
        return [task for task in self.tasks if task.failed]

    @property
    def switches(self) -> bool:
        """Whether remaining jobs change the state of nodes."""
        return any(job.nodes for jobs in self.rest for job in jobs)

    @property
    def moved(self) -> int:
        """Number of moves made."""
        return sum(task.status is JobStatus.SUCCESS and task.job.step is not None for task in self.tasks)

    @property
    def nodes(self) -> dict[str, Job]:
        """The last successful job of each node whose state jobs have changed."""
        return {node: task.job for task in self.tasks if task.done for node in task.job.nodes}

    @property
    def standings(self) -> dict[str, str]:
        """State of each node that jobs have changed, or should have changed."""
        found: dict[str, str] = {}
        for task in self.tasks:
            for node in task.job.nodes:
                if task.done or (task.failing and node not in task.failing):
                    found[node] = task.job.standing
                elif task.failed:
                    found.setdefault(node, task.job.otherwise)
        return found

    def next_set(self) -> None:
        """Take the next jobset as tasks, or as many jobs of it as may be unfinished."""
        self.sets += 1
        self.waiting = len(self.rest[0])
        self.next_jobs()

    def next_jobs(self) -> list[Task]:
        """Take more jobs of the present jobset as tasks, as far as they may be submitted now."""
        free = max(0, self.parallel - len(self.current)) if self.parallel else self.waiting
        new = list[Task]()
        if count := min(free, self.waiting):
            first, *later = self.rest
            before = sum(task.place.startswith(f"{self.sets}/") for task in self.tasks)
            places = (f"{self.sets}/{before + number}" for number in range(1, count + 1))
            new = [Task(job, place) for job, place in zip(first[:count], places, strict=True)]
            self.rest = [first[count:], *later] if first[count:] else later
            self.tasks += new
            self.waiting -= count
        return new

    def take_back(self, tasks: Sequence[Task]) -> None:
        """Return tasks of the last jobset to the remaining jobs: they were not submitted."""
        if tasks:
            self.rest = [[task.job for task in tasks], *self.rest]
            self.tasks = [task for task in self.tasks if task not in tasks]
