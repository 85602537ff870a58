"""Plans of policies whose hours end, or that are no longer to act."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from htoolsd.config.policies import SqueezeSettings
from htoolsd.plans.plan import Plan, PlanState
from tests.support.policies import EAGER, all_off, small
from tests.support.policies_at_work import Working, now, working
from tests.support.settings import change

SQUEEZE = SqueezeSettings(mode="act", hold=1, max_nodes=1, never=("a",))
JOB = 100.0  # seconds


def hours(jobs: int = 1) -> str:
    """They end after so many jobs from now, and before another has ended."""
    begun, over = (datetime.fromtimestamp(now() + seconds) for seconds in (-3600, (jobs + 0.8) * JOB))
    return f"{begun:%H:%M}-{over:%H:%M}"


def left(plan: Plan) -> set[str]:
    """The instances of moves that were not submitted."""
    return {job.step.instance for jobs in plan.run.rest for job in jobs if job.step}


def stopped(daemon: Working, plan: Plan, name: str, why: str) -> None:
    """A plan of a policy was stopped, which is no failure."""
    assert (plan.state, plan.error, plan.to_json()["execution"]["reason"]) == (PlanState.STOPPED, why, why)
    assert (daemon.told(name)["failed"], daemon.told(name)["error"]) == (0, None)


async def test_submits_nothing_after_the_hours(autojump_clock: MockClock, tmp_path: Path) -> None:
    """What runs is finished; what was left is moved by the next plan, though what has moved rests."""
    async with working(tmp_path, job_seconds=JOB, rebalance=replace(EAGER, hours=hours())) as daemon:
        assert len((await daemon.decided()).moves) == 4
        plan = await daemon.over()
        stopped(daemon, plan, "rebalance", "the policy's hours are over")
        assert [task.done for task in plan.run.tasks] == [True, True]
        assert "not within" in (await daemon.decided()).reason
        change(daemon.settings, **all_off(rebalance=EAGER))
        again = await daemon.decided()
        assert {move["instance"] for move in again.moves} == left(plan)
        assert (await daemon.over()).state is PlanState.DONE


@pytest.mark.parametrize("mode", ["off", "shadow", "propose"])
async def test_submits_nothing_after_the_mode_changes(
    autojump_clock: MockClock, tmp_path: Path, mode: str
) -> None:
    async with working(tmp_path, job_seconds=JOB, rebalance=EAGER) as daemon:
        await daemon.decided()
        await trio.sleep(JOB / 2)
        change(daemon.settings, **all_off(rebalance=replace(EAGER, mode=mode)))
        stopped(daemon, await daemon.over(), "rebalance", f"the policy's mode is {mode}")
        assert daemon.submitted == 1


async def test_executed_proposals_ignore_hours(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = replace(EAGER, mode="propose", hours=hours())
    async with working(tmp_path, job_seconds=JOB, rebalance=settings) as daemon:
        await daemon.decided()
        await daemon.plans.begin(next(iter(daemon.plans.all)), "stop", False)
        assert (await daemon.over()).state is PlanState.DONE
        assert "not within" in (await daemon.decided()).reason


@pytest.mark.parametrize(("jobs", "place"), [(1, "b"), (2, "a")])
async def test_undrains_nodes_when_the_hours_end(
    autojump_clock: MockClock, tmp_path: Path, jobs: int, place: str
) -> None:
    """Also if they are empty by then; later they are powered down all the same. Draining is two opcodes."""
    settings = replace(SQUEEZE, hours=hours(jobs))
    async with working(
        tmp_path, world=small("ab", web="b"), polls=5.0, job_seconds=JOB, squeeze=settings
    ) as daemon:
        daemon.policies.request("squeeze", "asked")
        await trio.sleep(1)
        plan = await daemon.over()
        stopped(daemon, plan, "squeeze", "the policy's hours are over")
        assert [task.job.title for task in plan.run.tasks if task.job.step is None] == [
            "drain b",
            "undrain b",
        ]
        assert all(task.done for task in plan.run.tasks)
        world = daemon.luxid.jobs.world
        assert (world.drained, world.offline) == (frozenset(), frozenset())
        assert not any(row.tags for row in world.cluster.nodes)
        assert {row.pnode for row in world.cluster.instances} == {place}
        change(daemon.settings, **all_off(squeeze=SQUEEZE))
        await trio.sleep(1)
        daemon.policies.request("squeeze", "asked")
        await trio.sleep(1)
        assert (await daemon.over()).state is PlanState.DONE
        assert daemon.luxid.jobs.world.offline == {"b"}
