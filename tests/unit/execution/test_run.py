"""How far a run is, and how its jobs become tasks."""

import pytest

from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.run import Task
from ganeti_htools.luxi.job_queries import JobStatus
from tests.unit.execution.test_execute import BACK, MIRRORED, SHARED, new

POWER = Job("power off one", ({"OP_ID": "OP_OOB_COMMAND"},), ("gnt-node power off one",))


def test_a_jobset_becomes_tasks_with_places() -> None:
    run = new([[SHARED, MIRRORED], [BACK]])
    run.next_set()
    assert [(task.job, task.place) for task in run.tasks] == [(SHARED, "1/1"), (MIRRORED, "1/2")]
    run.next_set()
    assert run.tasks[-1].place == "2/1"
    assert (run.sets, run.rest) == (2, [])


@pytest.mark.parametrize(
    ("status", "error", "over"),
    [
        (None, None, False),
        (JobStatus.QUEUED, None, False),
        (JobStatus.RUNNING, None, False),
        (JobStatus.SUCCESS, None, True),
        (JobStatus.ERROR, None, True),
        (JobStatus.CANCELED, None, True),
        (None, "not accepted", True),
    ],
)
def test_tasks_end_with_a_final_status_or_an_error(
    status: JobStatus | None, error: str | None, over: bool
) -> None:
    run = new([[SHARED]])
    run.tasks = [Task(SHARED, "1/1", status=status, error=error)]
    assert run.tasks[0].over is over
    assert run.current == ([] if over else run.tasks)


def test_only_successful_moves_are_counted() -> None:
    run = new([])
    run.tasks = [
        Task(SHARED, "1/1", 1, JobStatus.SUCCESS),
        Task(MIRRORED, "1/2", 2, JobStatus.ERROR, "no space"),
        Task(BACK, "1/3", 3, JobStatus.RUNNING),
        Task(POWER, "1/4", 4, JobStatus.SUCCESS),
    ]
    assert run.moved == 1


def test_tasks_taken_back_are_the_next_jobset() -> None:
    run = new([[SHARED, MIRRORED], [BACK]])
    run.next_set()
    first, second = run.tasks
    run.take_back([second])
    assert run.tasks == [first]
    assert run.rest == [[MIRRORED], [BACK]]
    run.take_back([])
    assert run.rest == [[MIRRORED], [BACK]]
