from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator.jobs import LONGEST_WAIT, MOST_RUNNING, JobBehaviour, Jobs, QueuedJob, messages
from ganeti_htools.simulator.opcodes import OpcodeError
from tests.support.worlds import delay, migrate, move, replace_disks, role, world


@asynccontextmanager
async def queue(seconds: float = 10.0) -> AsyncIterator[Jobs]:
    """Run a queue within the block; its jobs end with it."""
    async with trio.open_nursery() as nursery:
        yield Jobs(nursery, world(), JobBehaviour(seconds))
        nursery.cancel_scope.cancel()


def states(jobs: Jobs) -> list[str]:
    return [job.state.value for job in jobs.unarchived()]


def steps(jobs: Jobs, number: int) -> list[tuple[str, Any]]:
    job = jobs.find(number)
    assert job is not None
    return [(op.state.value, op.result) for op in job.ops]


def primary(jobs: Jobs, name: str) -> str:
    row = jobs.world.instance(name)
    assert row is not None
    return row.pnode


def status(job: QueuedJob) -> list[Any]:
    return [job.state.value]


async def test_job_changes_the_world_opcode_by_opcode(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        assert jobs.submit([[migrate("mirrored"), replace_disks("mirrored", "three")]]) == [1]
        assert states(jobs) == ["queued"]
        await trio.sleep(9)
        assert (states(jobs), primary(jobs, "mirrored")) == (["running"], "one")
        assert steps(jobs, 1) == [("running", None), ("waiting", None)]
        await trio.sleep(2)
        assert (states(jobs), primary(jobs, "mirrored")) == (["running"], "two")
        await trio.sleep(10)
        assert steps(jobs, 1) == [("success", None)] * 2
        assert states(jobs) == ["success"]
        moved = jobs.world.instance("mirrored")
        assert moved is not None
        assert moved.snode == "three"


async def test_instance_is_stopped_while_it_is_copied(
    autojump_clock: MockClock,
) -> None:
    def told(jobs: Jobs) -> tuple[list[str], str, str]:
        row = jobs.world.instance("stuck")
        assert row is not None
        return states(jobs), row.pnode, row.status.value

    async with queue() as jobs:
        jobs.behaviour.fail("MOVE", 1)
        jobs.submit([[move("stuck", "two")]])
        await trio.sleep(5)
        assert told(jobs) == (["running"], "one", "ERROR_down")
        await trio.sleep(10)
        assert told(jobs) == (["error"], "one", "ERROR_down")
        jobs.submit([[move("stuck", "one")]])
        await trio.sleep(5)
        assert told(jobs) == (["error"] * 2, "one", "ERROR_down")  # refused at once
        jobs.submit([[move("stuck", "two")]])
        await trio.sleep(15)
        assert told(jobs) == (["error", "error", "success"], "two", "running")


async def test_jobs_of_one_instance_run_in_order(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[migrate("mirrored")], [migrate("shared", target_node="two")], [migrate("mirrored")]])
        await trio.sleep(5)
        assert states(jobs) == ["running", "running", "waiting"]
        await trio.sleep(10)
        assert states(jobs) == ["success", "success", "running"]
        await trio.sleep(10)
        assert states(jobs) == ["success"] * 3
        assert primary(jobs, "mirrored") == "one"


async def test_job_of_a_node_waits_for_its_instances(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[migrate("shared", target_node="two")], [role("one", drained=True)]])
        await trio.sleep(5)
        assert states(jobs) == ["running", "waiting"]
        await trio.sleep(20)
        assert states(jobs) == ["success", "success"]


async def test_number_of_running_jobs_is_limited(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[delay(10)]] * (MOST_RUNNING + 2))
        await trio.sleep(5)
        assert sorted(states(jobs)) == ["queued"] * 2 + ["running"] * MOST_RUNNING
        await trio.sleep(10)
        assert sorted(states(jobs)) == ["running"] * 2 + ["success"] * MOST_RUNNING


async def test_refused_opcode_ends_its_job(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[migrate("stuck"), migrate("mirrored")]])
        await trio.sleep(100)
        (first, why), second = steps(jobs, 1)
        assert (first, why[0], why[1][1]) == ("error", "OpPrereqError", "wrong_state")
        assert second == ("error", ["OpExecError", ["Preceding opcode failed"]])
        assert (states(jobs), jobs.world) == (["error"], world())


async def test_jobs_fail_as_often_as_ordered(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.behaviour.fail(r"MIGRATE\(mirr", 1)
        jobs.submit([[migrate("mirrored")], [migrate("shared", target_node="two")], [migrate("mirrored")]])
        await trio.sleep(100)
        assert states(jobs) == ["error", "success", "success"]
        assert steps(jobs, 1) == [
            ("error", ["OpExecError", ["INSTANCE_MIGRATE(mirrored) failed as ordered"]])
        ]
        with pytest.raises(DataError, match="regular expression"):
            jobs.behaviour.fail("(")


@pytest.mark.parametrize(
    ("fails", "wanted", "state"),
    [
        (False, ["success"], "success"),
        (False, [], "success"),
        (True, ["success", "error"], "success"),
        (True, [], "success"),
        (True, ["success"], "error"),
    ],
)
async def test_job_waits_for_its_dependencies(
    autojump_clock: MockClock, fails: bool, wanted: list[str], state: str
) -> None:
    async with queue() as jobs:
        if fails:
            jobs.behaviour.fail("DELAY", 1)
        jobs.submit([[delay(10)], [migrate("mirrored", depends=[[-1, wanted]])]])
        await trio.sleep(5)
        assert states(jobs) == ["running", "queued"]
        await trio.sleep(50)
        assert states(jobs)[1] == state
        if state == "error":
            text = "Dependency job 1 finished with status 'error', not one of 'success' as required"
            assert steps(jobs, 2) == [("error", ["OpExecError", [text]])]


async def test_job_is_cancelled_with_its_dependency(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[delay(10)], [delay(10, depends=[[1, []]])], [delay(1, depends=[[-1, ["success"]]])]])
        await wait_all_tasks_blocked()
        assert jobs.cancel(2) == (True, "Dequeued job 2")
        await trio.sleep(100)
        assert states(jobs) == ["success", "canceled", "canceled"]
        assert steps(jobs, 3) == [("canceled", "Job canceled by request")]


async def test_unknown_dependency_is_an_error(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[delay(1, depends=[[77, []]])]])
        await trio.sleep(1)
        assert states(jobs) == ["error"]


async def test_only_unstarted_jobs_can_be_cancelled(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[migrate("mirrored")], [migrate("mirrored")]])
        await trio.sleep(5)
        assert jobs.cancel(1) == (False, "Job no longer waiting, can't cancel (informed it anyway)")
        assert jobs.cancel(2) == (True, "Job successfully cancelled")
        await trio.sleep(100)
        assert states(jobs) == ["success", "canceled"]
        assert primary(jobs, "mirrored") == "two"
        assert jobs.cancel(1) == (False, "Job 1 not found in queue")
        assert jobs.cancel(9) == (False, "Job 9 not found in queue")


async def test_cancelled_job_frees_its_place(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[migrate("mirrored")]] * MOST_RUNNING + [[delay(1)]])
        await wait_all_tasks_blocked()
        assert states(jobs)[-1] == "queued"
        jobs.cancel(next(job.number for job in jobs.unarchived() if job.state.value == "waiting"))
        await trio.sleep(2)
        assert states(jobs)[-1] == "success"


async def test_wait_returns_changed_fields_and_new_messages(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[delay(10), delay(10)]])
        assert await jobs.wait_for_change(1, status, None, None, 60) == (["queued"], [])
        told, said = await jobs.wait_for_change(1, status, ["queued"], None, 60)
        while not said:
            told, said = await jobs.wait_for_change(1, status, told, None, 60)
        assert told == ["running"]
        assert [(entry[0], entry[2], entry[3]) for entry in said] == [(1, "message", "TEST_DELAY(10)")]
        began = trio.current_time()
        told, said = await jobs.wait_for_change(1, status, told, 1, 60)
        assert (told, [entry[0] for entry in said]) == (["running"], [2])
        assert trio.current_time() == began + 10
        assert await jobs.wait_for_change(1, status, told, 2, 3) == (["running"], [])
        assert trio.current_time() == began + 13
        assert await jobs.wait_for_change(1, status, told, 2, 60) == (["success"], [])
        told, said = await jobs.wait_for_change(1, status, ["success"], 0, 60)
        assert (told, [entry[0] for entry in said]) == (["success"], [1, 2])


async def test_wait_ends_after_its_patience(autojump_clock: MockClock) -> None:
    async with queue(seconds=1000) as jobs:
        jobs.submit([[migrate("mirrored")]])
        await trio.sleep(1)
        began = trio.current_time()
        assert await jobs.wait_for_change(1, status, ["running"], 1, 1e6) == (["running"], [])
        assert trio.current_time() == began + LONGEST_WAIT
        with pytest.raises(OpcodeError, match="JobLost"):
            await jobs.wait_for_change(2, status, None, None, 1)


async def test_refused_submission_adds_no_job(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        for bad in ({"OP_ID": "OP_TEST_DELAY"}, delay(1, depends=[1]), delay(1, depends=[[1, ["soon"]]])):
            with pytest.raises(DataError):
                jobs.submit([[delay(1)], [bad]])
            assert jobs.unarchived() == []
        jobs.drained = True
        with pytest.raises(OpcodeError, match="Queue drained"):
            jobs.submit([[delay(1)]])


async def test_only_finished_jobs_are_archived(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[delay(10)]])
        assert not jobs.archive(1)
        await trio.sleep(20)
        assert jobs.archive(1)
        assert (jobs.find(1), jobs.archive(1), jobs.unarchived()) == (None, False, [])
        assert jobs.submit([[delay(1)]]) == [2]


async def test_jobs_have_times_and_messages(autojump_clock: MockClock) -> None:
    async with queue() as jobs:
        jobs.submit([[delay(1), delay(2)]])
        await trio.sleep(10)
        job = jobs.find(1)
        assert job is not None
        assert job.start is not None
        assert job.end is not None
        assert job.received <= job.start <= job.end
        assert [entry[0] for entry in messages(job)] == [1, 2]
