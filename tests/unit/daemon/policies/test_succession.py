"""What the next daemon learns from Ganeti's jobs of the one before it."""

import time
from dataclasses import replace
from pathlib import Path

import trio
from trio.testing import MockClock

from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.luxi.past_jobs import past_jobs, plan_entry
from ganeti_htools.simulator.jobs import QueuedJob
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.policies.memory import DAY
from tests.support.memory_ganeti import MemoryGaneti
from tests.support.policies import EAGER
from tests.support.policies_at_work import Working, now, working, working_on
from tests.support.worlds import delay, migrate, role

ACTS = replace(EAGER, max_moves=2, moves_per_day=3)


def archive(luxid: MemoryGaneti) -> None:
    for job in luxid.jobs.unarchived():
        luxid.jobs.archive(job.number)


async def stopped_after_one_job(daemon: Working) -> str:
    """Let a policy begin a plan, and end the daemon with the first of two jobs under way; the plan's id."""
    begun = await daemon.decided()
    assert (begun.outcome, len(begun.moves)) == ("begun", 2)
    while not daemon.submitted:
        await trio.sleep(0.1)
    daemon.end()
    return str(begun.plan)


async def test_budgets_rests_and_the_plan_outlive_the_disk(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path / "one", job_seconds=30, rebalance=ACTS) as daemon:
        run = await stopped_after_one_job(daemon)
        (job,) = daemon.luxid.jobs.unarchived()
        async with working_on(daemon.luxid, tmp_path / "two", rebalance=ACTS) as other:
            await trio.sleep(60)
            (plan,) = other.plans.all
            assert (plan.id, plan.state, plan.facts["policy"]) == (run, PlanState.INTERRUPTED, "rebalance")
            assert plan.error == "begun by another daemon; 1 job that it had left are not known here"
            assert [task.status and task.status.value for task in plan.run.tasks] == ["success"]
            assert other.told()["left"]["moves"] == 1
            assert other.path.exists()
            moved = job.ops[0].opcode["instance_name"]
            second = await other.decided()
            assert moved not in {move["instance"] for move in second.moves}
            assert len(second.moves) <= 1


async def test_own_plans_count_once_after_a_restart(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, job_seconds=30, rebalance=ACTS) as daemon:
        run = await stopped_after_one_job(daemon)
        async with working_on(daemon.luxid, tmp_path, rebalance=ACTS) as again:
            await trio.sleep(60)
            assert [plan.id for plan in again.plans.all] == [run]
            assert again.told()["left"]["moves"] == 1


async def test_plan_that_was_forgotten_here_does_not_return(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with working(tmp_path, rebalance=ACTS) as daemon:
        await stopped_after_one_job(daemon)
        async with working_on(daemon.luxid, tmp_path, rebalance=ACTS) as again:
            await trio.sleep(60)
            (plan,) = again.plans.all
            await again.plans.forget(plan)
            again.end()
            async with working_on(daemon.luxid, tmp_path, rebalance=ACTS) as third:
                await trio.sleep(60)
                assert list(third.plans.all) == []


async def test_moves_by_hand_and_switched_nodes_rest(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path / "one") as daemon:
        instance = daemon.luxid.jobs.world.cluster.instances[0].name
        daemon.luxid.jobs.submit([[migrate(instance, target_node="two")], [role("boss", offline=True)]])
        await trio.sleep(60)
        archive(daemon.luxid)
        daemon.luxid.jobs.submit([[delay(1)]])
        daemon.end()
        async with working_on(
            daemon.luxid, tmp_path / "two", rebalance=replace(ACTS, mode="shadow")
        ) as other:
            explained = await other.explain("rebalance")
            assert instance not in {
                move["instance"] for each in explained["groups"] for move in each["moves"]
            }


async def ended(
    luxid: MemoryGaneti, run: str, *statuses: JobStatus, left: int = 0, entry: str = plan_entry()
) -> None:
    """Have jobs of a plan in the queue, one a jobset, that have ended; ``left`` others were not submitted."""
    name = luxid.jobs.world.cluster.instances[0].name
    signature = Signature("hbal", "", "rebalancing", run, plan=entry)
    for number, status in enumerate(statuses, 1):
        rest = left + len(statuses) - number
        opcode = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name}
        luxid.jobs.submit([signature.sign([opcode], f"{number}/1", time.time_ns(), rest)])
        luxid.jobs.all()[-1].finish(status, None)


async def plans_of_the_next(luxid: MemoryGaneti, path: Path) -> dict[str, Plan]:
    async with working_on(luxid, path, rebalance=replace(ACTS, mode="shadow")) as other:
        await trio.sleep(60)
        return {plan.id: plan for plan in other.plans.all}


async def test_failed_plans_of_others_are_failed_and_show_their_jobs(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with working(tmp_path / "one", rebalance=replace(ACTS, mode="off")) as daemon:
        daemon.end()
        luxid, done, error = daemon.luxid, JobStatus.SUCCESS, JobStatus.ERROR
        await ended(luxid, "a", done, error, left=2)
        await ended(luxid, "b", error)
        await ended(luxid, "c", error, entry=plan_entry("rebalance", 1, 0))
        await ended(luxid, "d", error, done)  # its job was repeated
        found = await plans_of_the_next(luxid, tmp_path / "two")
    assert {name: (plan.state, plan.seen) for name, plan in found.items()} == {
        "a": (PlanState.FAILED, True),
        "b": (PlanState.FAILED, True),
        "c": (PlanState.FAILED, False),
    }
    lines = [line for _, line in found["a"].log]
    assert [line.partition(" (")[0] for line in lines[:2]] == ["Job 1", "Job 2"]
    assert lines[0].endswith(": success")
    assert lines[1].endswith(": error: failed")
    assert lines[2] == "Jobs: 1 succeeded, 1 failed"


async def test_plan_that_was_resumed_does_not_return(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path / "one", rebalance=replace(ACTS, mode="off")) as daemon:
        daemon.end()
        await ended(daemon.luxid, "a", JobStatus.SUCCESS, left=2)
        await ended(daemon.luxid, "b", JobStatus.SUCCESS, left=1)
        await ended(daemon.luxid, "c", JobStatus.SUCCESS, entry=plan_entry(continues="a"))
        found = await plans_of_the_next(daemon.luxid, tmp_path / "two")
    assert {name: plan.state for name, plan in found.items()} == {"b": PlanState.INTERRUPTED}


async def test_damaged_and_foreign_jobs_are_passed_over(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path) as daemon:
        strange = delay(1) | {
            "comment": "x, run 1, job 1/1",
            "reason": [["htoolsd", "plan of nobody", 1], "?"],
        }
        daemon.luxid.jobs.submit([[strange], [delay(1) | {"comment": "by hand", "reason": []}]])
        async with daemon.sync.client() as ganeti:
            found = await past_jobs(ganeti, now() - DAY)
        assert [(job.number, job.mark()) for job in found] == [(1, None), (2, None)]


async def test_reads_jobs_in_portions_until_they_are_too_old(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    def received(job: QueuedJob, seconds: float) -> None:
        job.received = int(now() + seconds), 0

    async with working(tmp_path) as daemon:
        jobs = daemon.luxid.jobs
        jobs.submit([[delay(0)]] * 600)
        for job in jobs.all():
            job.finish(JobStatus.SUCCESS, None)
        archive(daemon.luxid)
        jobs.submit([[delay(0)]])
        for job in jobs.all()[:300]:
            received(job, -2 * DAY)
        before = len(daemon.luxid.asked)
        async with daemon.sync.client() as ganeti:
            found = await past_jobs(ganeti, now() - DAY)
            assert [job.number for job in found] == list(range(301, 602))
            assert len(daemon.luxid.asked) - before == 3  # the newest number, and two portions
            archive(daemon.luxid)
            assert await past_jobs(ganeti, now() - DAY) == found
