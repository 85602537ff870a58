"""What people are told of a run."""

import pytest

from ganeti_htools.execution.events import Away, Event, News, Submitted
from ganeti_htools.execution.record import record
from ganeti_htools.execution.run import REQUESTED, Ending, Run
from ganeti_htools.execution.wording import complaint, event_reporter, going_on, summary
from ganeti_htools.luxi.job_queries import JobStatus
from tests.unit.execution.test_execute import MIRRORED, SHARED, new


def submitted() -> Run:
    """Two jobs, of which Ganeti has taken one."""
    run = new([[SHARED, MIRRORED], [SHARED]])
    run.next_set()
    run.tasks[0].number, run.tasks[0].status = 7, JobStatus.RUNNING
    run.tasks[1].error = "no"
    return run


async def told(run: Run, *events: Event) -> tuple[list[str], list[str], list[str]]:
    """What stays, what is warned of, and how far it is."""
    said: list[str] = []
    warned: list[str] = []
    live: list[str] = []
    tell = event_reporter(run, said.append, warned.append, live.append)
    for event in events:
        await tell(event)
    return said, warned, live


async def test_submitted_jobs_are_reported() -> None:
    run = submitted()
    said, warned, live = await told(run, Submitted(run.tasks))
    assert said == ["Got job IDs 7", f"Job 1/2 ({MIRRORED.title}) was not accepted: no"]
    assert not warned
    assert live == ["", "jobset 1 of 2: 1 running"]


async def test_log_of_a_job_is_cut_to_one_line() -> None:
    run = submitted()
    _, _, live = await told(run, News(run.tasks[0], "copying\ndisk " + 100 * "x"))
    assert live[-1].startswith("jobset 1 of 2: 1 running - copying")
    assert len(live[-1]) < 100
    assert "\n" not in live[-1]


@pytest.mark.parametrize(
    ("status", "error", "line"),
    [
        (JobStatus.SUCCESS, None, "success"),
        (JobStatus.ERROR, "broken", "error: broken"),
        (None, "unknown", "lost: unknown"),
    ],
)
async def test_ended_job_is_reported(status: JobStatus | None, error: str | None, line: str) -> None:
    run = submitted()
    task = run.tasks[0]
    task.status, task.error = status, error
    assert (await told(run, News(task)))[0] == [f"Job 7 ({SHARED.title}): {line}"]


async def test_absence_of_ganeti_is_reported() -> None:
    assert (await told(new(), Away("gone"), Away(None)))[1] == ["gone", "Ganeti answers again"]


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (None, None),
        (Ending.DONE, None),
        (Ending.STOPPED, "why"),
        (Ending.FAILED, "Not all jobs completed successfully: why"),
        (Ending.CHANGED, "The plan does not fit the cluster any more: why"),
        (Ending.LOST, "why; may go on: jobs 7"),
    ],
)
def test_complaint_describes_the_ending(ending: Ending | None, error: str | None) -> None:
    run = submitted()
    run.ending, run.reason = ending, "why"
    assert complaint(record(run)) == error


def test_requested_stop_is_no_complaint() -> None:
    run = submitted()
    run.ending, run.reason = Ending.STOPPED, REQUESTED
    assert complaint(record(run)) is None


def test_summary_counts_jobs_and_describes_nodes() -> None:
    run = submitted()
    assert summary(run) == [
        "Jobs: 1 failed, 1 not ended, 1 not submitted",
        f"  not submitted: {SHARED.title}",
    ]
    assert summary(new([])) == ["Jobs: none"]
    assert going_on(run) == "jobs 7"
    assert going_on(new()) == ""
