"""Plans of a daemon, carried out by a Ganeti in memory."""

import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.execution.review import Review
from ganeti_htools.files import write_text
from htoolsd.config.config import PlanSettings
from htoolsd.plans import plans as subject
from htoolsd.plans.plan import EXPIRY, Plan, PlanState
from htoolsd.plans.plans import Plans
from htoolsd.socket.peer import Credentials, caller
from htoolsd.sync.sync import Sync
from tests.support.memory_ganeti import MemoryGaneti, following, ganeti
from tests.support.plan_methods import plan_methods
from tests.support.settings import settings, unjudged


@dataclass
class Kept:
    """Plans that are kept in ``directory``, on a cluster where jobs can be made to wait."""

    luxid: MemoryGaneti
    sync: Sync
    plans: Plans
    directory: Path

    async def made(self) -> Plan:
        """One more plan: drained nodes are emptied, which takes jobs."""
        before = {plan.id for plan in self.plans.all}
        await plan_methods(self.plans, self.sync).plan({"tool": "hbal"}, None)
        (plan,) = (plan for plan in self.plans.all if plan.id not in before)
        return plan

    async def begun(self) -> Plan:
        """One more plan that is being carried out, and its first jobs submitted."""
        plan = await self.made()
        await self.plans.begin(plan, "stop", False)
        while not any(task.number for task in plan.run.current):
            await plan.news.wait()
        return plan

    async def over(self, plan: Plan) -> None:
        while plan.state.going:
            await plan.news.wait()

    def record(self, plan: Plan) -> Any:
        return json.loads((self.directory / f"{plan.id}.json").read_text())


@asynccontextmanager
async def kept(
    directory: Path, *, job_seconds: float = 1.0, certificates: str = "off"
) -> AsyncIterator[Kept]:
    """Plans of a daemon that knows the cluster."""
    caller.set(Credentials(pid=1, uid=2, gid=3))
    async with ganeti(job_seconds=job_seconds) as luxid, following(luxid) as sync:
        judging = settings(plans=PlanSettings(certificates=certificates))
        plans = Plans(str(directory), sync, sync.events, judging)
        sync.events.follow(plans)
        await sync.poll_all()
        async with trio.open_nursery() as nursery:
            await nursery.start(plans.run)
            yield Kept(luxid, sync, plans, directory)
            nursery.cancel_scope.cancel()


async def test_carries_out_and_records_a_plan(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as daemon:
        plan = await daemon.begun()
        assert daemon.record(plan)["state"] == "running"
        assert daemon.plans.status() == {"running": 1}
        await daemon.over(plan)
        assert (plan.state, plan.error) == (PlanState.DONE, None)
        assert plan.review is None  # it has a whole cluster
        assert {job.state.value for job in daemon.luxid.jobs.unarchived()} == {"success"}
        assert daemon.plans.status() == {"done": 1}
    assert daemon.record(plan)["state"] == "done"


async def test_stop_lets_running_jobs_end(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path, job_seconds=100) as daemon:
        plan = await daemon.begun()
        under_way = list(plan.run.current)
        daemon.plans.stop()
        with pytest.raises(RefusalError) as caught:
            await daemon.plans.begin(await daemon.made(), "stop", False)
        assert caught.value.kind is Refusal.STOPPING
        await daemon.over(plan)
        assert plan.state is PlanState.STOPPED
        assert plan.run.tasks[: len(under_way)] == under_way
        assert plan.run.rest


async def test_refuses_a_second_plan_in_a_node_group(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path, job_seconds=100) as daemon:
        first, second = await daemon.begun(), await daemon.made()
        for plan, kind in ((first, Refusal.PLAN), (second, Refusal.BUSY)):
            with pytest.raises(RefusalError, match=f"plan {first.id} is ") as caught:
                await daemon.plans.begin(plan, "stop", False)
            assert caught.value.kind is kind
        assert second.state is PlanState.PLANNED


async def test_begins_nothing_on_other_nodes_than_the_master(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with kept(tmp_path) as daemon:
        plan = await daemon.made()
        daemon.luxid.master = False
        while daemon.sync.master:
            await trio.sleep(1)
        with pytest.raises(RefusalError) as caught:
            await daemon.plans.begin(plan, "stop", False)
        assert caught.value.kind is Refusal.CLUSTER


async def test_plan_ends_with_the_master_role_and_stays_ended(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with kept(tmp_path, job_seconds=100) as daemon:
        plan = await daemon.begun()
        submitted, daemon.luxid.master = len(list(daemon.luxid.jobs.unarchived())), False
        await daemon.over(plan)
        assert (plan.state, plan.error) == (PlanState.INTERRUPTED, "this node is no longer the master")
        daemon.luxid.master = True
        while plan.run.current:
            await plan.news.wait()
        await trio.sleep(1000)
        assert plan.run.rest
        assert len(list(daemon.luxid.jobs.unarchived())) == submitted
        assert daemon.record(plan)["error"] == plan.error


async def keep(lock: trio.Lock, seconds: float) -> None:
    async with lock:
        await trio.sleep(seconds)


async def test_end_of_the_daemon_while_an_interrupted_plan_is_recorded(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with trio.open_nursery() as nursery, kept(tmp_path, job_seconds=100) as daemon:
        plan = await daemon.begun()
        nursery.start_soon(keep, plan.recording, 5)
        await trio.sleep(1)
        plan.scope.cancel()
        await trio.sleep(1)
    assert daemon.record(plan)["state"] == "interrupted"


async def test_does_not_begin_what_cannot_be_recorded(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path / "plans") as daemon:
        plan = await daemon.made()
        (tmp_path / "plans").rename(tmp_path / "gone")
        with pytest.raises(RefusalError, match="cannot be recorded") as caught:
            await daemon.plans.begin(plan, "stop", False)
        assert caught.value.kind is Refusal.PLAN
        assert (plan.state, plan.began) == (PlanState.PLANNED, None)
        assert list(daemon.luxid.jobs.unarchived()) == []


@pytest.mark.parametrize(("seconds", "stops", "why"), [(100, False, "no answer"), (5, True, "is stopping")])
async def test_does_not_begin_while_the_disk_hangs_or_the_daemon_stops(
    autojump_clock: MockClock, tmp_path: Path, seconds: float, stops: bool, why: str
) -> None:
    async def stop() -> None:
        await trio.sleep(1)
        daemon.plans.stop()

    async with trio.open_nursery() as nursery, kept(tmp_path) as daemon:
        plan = await daemon.made()
        nursery.start_soon(keep, plan.recording, seconds)
        await trio.sleep(0.5)
        if stops:
            nursery.start_soon(stop)
        with pytest.raises(RefusalError, match=why):
            await daemon.plans.begin(plan, "stop", False)
        assert plan.state is PlanState.PLANNED
        assert list(daemon.luxid.jobs.unarchived()) == []
        if not stops:
            await trio.sleep(seconds)
            assert daemon.record(plan)["state"] == "planned"


async def test_next_daemon_reports_an_interrupted_plan(autojump_clock: MockClock, tmp_path: Path) -> None:
    """It is not resumed, but what became of its jobs is found out."""
    caller.set(Credentials(pid=1, uid=2, gid=3))
    async with ganeti(job_seconds=10) as luxid, following(luxid) as sync:
        await sync.poll_all()
        async with trio.open_nursery() as nursery:
            plans = Plans(str(tmp_path), sync, sync.events, unjudged())
            await nursery.start(plans.run)
            plan = await Kept(luxid, sync, plans, tmp_path).begun()
            (tmp_path / "damaged.json").write_text("{}")
            text = (tmp_path / f"{plan.id}.json").read_text()
            nursery.cancel_scope.cancel()
        (tmp_path / f"{plan.id}.json").write_text(text)  # as if it had been killed
        with structlog.testing.capture_logs() as log:
            async with trio.open_nursery() as nursery:
                plans = Plans(str(tmp_path), sync, sync.events, unjudged())
                await nursery.start(plans.run)
                (again,) = plans.all
                assert (again.id, again.state) == (plan.id, PlanState.INTERRUPTED)
                while again.run.current:
                    await again.news.wait()
                nursery.cancel_scope.cancel()
        assert [task.error for task in again.run.tasks] == [None]
        assert len(list(luxid.jobs.unarchived())) == 1
    assert {line["event"] for line in log if line["log_level"] != "info"} == {
        "plan cannot be read",
        "plan was interrupted",
    }


async def test_keeps_only_the_newest_plans(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_PLANS", 2)
    async with kept(tmp_path) as daemon:
        over = await daemon.begun()
        await daemon.over(over)
        planned = [await daemon.made() for _ in range(3)]
        assert list(daemon.plans.all) == [over, *planned[1:]]
    assert {path.stem for path in tmp_path.glob("*.json")} == {over.id, *(plan.id for plan in planned[1:])}


async def test_plan_that_nobody_executes_expires(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as daemon:
        plan = await daemon.made()
        assert daemon.plans.status() == {}  # shown by a tool, proposed by nobody
        plan.facts["policy"] = "rebalance"
        assert daemon.plans.status() == {"planned": 1}
        plan.facts["made"] -= EXPIRY + 1
        with pytest.raises(RefusalError, match=f"plan {plan.id} has expired; make a new one"):
            await daemon.plans.begin(plan, "stop", False)
        await trio.sleep(601)
        assert (list(daemon.plans.all), list(tmp_path.glob("*.json"))) == ([], [])


async def test_plan_stays_forgotten_when_its_record_is_just_written(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, forgotten = threading.Event(), threading.Event()

    def slowly(path: str, text: str) -> None:
        written.set()
        forgotten.wait(0.1)
        write_text(path, text)

    async with kept(tmp_path) as daemon:
        plan = await daemon.begun()
        await daemon.over(plan)
        monkeypatch.setattr(subject, "write_text", slowly)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.plans.note_seen, plan)
            while not written.is_set():
                await trio.lowlevel.checkpoint()
            await daemon.plans.forget(plan)
            forgotten.set()
        assert list(tmp_path.iterdir()) == []


async def test_forgets_a_plan_unless_it_is_carried_out(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as daemon:
        plan = await daemon.begun()
        with pytest.raises(RefusalError, match=f"plan {plan.id} is being carried out"):
            await daemon.plans.forget(plan)
        plan.cancel()
        plan.scope.cancel()
        await daemon.over(plan)
        with pytest.raises(RefusalError, match=f"plan {plan.id} has jobs that are still running"):
            await daemon.plans.forget(plan)
        while plan.run.current:
            await trio.sleep(1)
        methods = plan_methods(daemon.plans, daemon.sync)
        await methods.forget({"plan": plan.id}, None)
        assert (list(daemon.plans.all), list(tmp_path.glob("*.json"))) == ([], [])


async def test_remembers_that_somebody_looked_at_the_end_of_a_plan(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with kept(tmp_path) as daemon:
        plan = await daemon.begun()
        methods = plan_methods(daemon.plans, daemon.sync)
        await methods.follow({"plan": plan.id}, None)
        assert not plan.seen  # it was still running
        await daemon.over(plan)
        caller.set(Credentials(pid=1, uid=10, gid=3))
        await methods.follow({"plan": plan.id}, None)
        assert not daemon.record(plan)["seen"]
        caller.set(Credentials(pid=1, uid=2, gid=3))
        await methods.follow({"plan": plan.id}, None)
        assert daemon.record(plan)["seen"]
    async with kept(tmp_path) as again:
        assert [plan.seen for plan in again.plans.all] == [True]


def shorten(plan: Plan) -> None:
    """Lose the last jobset of a plan."""
    plan.run.rest = plan.run.rest[:-1]


def shrink(plan: Plan) -> None:
    """Have a plan move instances to nodes without free memory."""
    assert plan.cluster is not None
    nodes = tuple(replace(row, f_mem=0) for row in plan.cluster.nodes)
    plan.cluster = replace(plan.cluster, nodes=nodes)


async def test_judges_a_plan_before_it_begins(tmp_path: Path) -> None:
    async with kept(tmp_path, job_seconds=0.0, certificates="refuse") as daemon:
        plan = await daemon.begun()
        await daemon.over(plan)
        assert (plan.state, plan.certificate) == (PlanState.DONE, {"verdict": "holds", "reasons": []})
        assert daemon.record(plan)["certificate"] == plan.certificate
    async with kept(tmp_path) as again:
        assert [each.certificate for each in again.plans.all] == [plan.certificate]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (shorten, r"volume: \d+ moves announced, are \d+"),
        (shrink, "capacity: step 1: mirrored three: memory: 1000 MiB more than there is"),
    ],
)
async def test_refuses_a_plan_that_does_not_hold(
    tmp_path: Path, damage: Callable[[Plan], None], words: str
) -> None:
    async with kept(tmp_path, job_seconds=0.0, certificates="refuse") as daemon:
        plan = await daemon.made()
        damage(plan)
        with pytest.raises(RefusalError, match=f"plan {plan.id} does not hold: .*{words}"):
            await daemon.plans.begin(plan, "stop", False)
        assert (plan.state, list(daemon.luxid.jobs.unarchived())) == (PlanState.PLANNED, [])
        assert daemon.record(plan)["certificate"]["verdict"] == "broken"
        plan.facts["made"] -= EXPIRY
        with pytest.raises(RefusalError, match="has expired"):  # before it is judged
            await daemon.plans.begin(plan, "stop", False)


async def test_refuses_a_new_plan_that_does_not_hold(tmp_path: Path) -> None:
    async with kept(tmp_path, job_seconds=0.0, certificates="refuse") as daemon:
        plan = await daemon.made()
        plan.review = lambda *_: lambda _cluster, rest, _made: Review("nodes were added", [*rest, *rest])
        await daemon.plans.begin(plan, "replan", False)
        await daemon.over(plan)
        assert (plan.state, list(daemon.luxid.jobs.unarchived())) == (PlanState.FAILED, [])
        assert re.search(rf"new plan {plan.id} does not hold: plan: .* is on \S+, not on", plan.error or "")
        assert daemon.record(plan)["certificate"]["verdict"] == "broken"


@pytest.mark.parametrize(
    ("mode", "seconds", "verdict", "said"),
    [
        ("warn", 60.0, "broken", "The plan does not hold: score: "),
        ("refuse", 0.001, "unchecked", "The plan is unchecked: it was not judged within 0.001 s"),
    ],
)
async def test_begins_a_plan_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, seconds: float, verdict: str, said: str
) -> None:
    monkeypatch.setattr(subject, "_JUDGING_SECONDS", seconds)
    async with kept(tmp_path, job_seconds=0.0, certificates=mode) as daemon:
        plan = await daemon.made()
        shorten(plan)
        await daemon.plans.begin(plan, "stop", False)
        assert daemon.record(plan)["certificate"]["verdict"] == verdict
        assert any(kind == "warned" and line.startswith(said) for kind, line in plan.log)
        await daemon.over(plan)
        assert daemon.luxid.jobs.unarchived()
