"""Policies at work on a Ganeti in memory."""

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.luxi import queries
from ganeti_htools.simulator.world import begin
from htoolsd.history import entries
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.plans.plans import Plans
from htoolsd.policies.policies import Policies
from htoolsd.policies.policy import Decision
from htoolsd.policies.settings import Rebalance
from htoolsd.sync.following import Sync
from tests.support.memory_ganeti import MemoryGaneti, following, ganeti
from tests.support.policies import all_off
from tests.support.worlds import delay, migrate, role, uneven

BEGINNING = time.time()  # when trio's clock is at 0
EAGER = Rebalance(mode="act", every_seconds=600, start=0.02, stop=0.001, hold=1, min_gain=1e-6)


def now() -> float:
    return BEGINNING + trio.current_time()


@dataclass
class Working:
    """Policies of a daemon, and what they have decided."""

    luxid: MemoryGaneti
    sync: Sync
    plans: Plans
    policies: Policies
    path: Path
    decisions: list[Decision] = field(default_factory=list)

    async def decided(self) -> Decision:
        """The next decision after the policy was asked for one."""
        count = len(self.decisions)
        self.policies.want("rebalance", "asked")
        return await self.next(count)

    async def next(self, count: int) -> Decision:
        """The decision after so many."""
        while len(self.decisions) <= count:
            await trio.sleep(1)
        return self.decisions[count]

    async def over(self) -> Plan:
        """The newest plan, once it has ended."""
        plan = list(self.plans.all)[-1]
        while plan.state.going:
            await plan.news.wait()
        return plan

    @property
    def submitted(self) -> int:
        return len(list(self.luxid.jobs.known()))

    @property
    def told(self) -> Mapping[str, Any]:
        return {each["name"]: each for each in self.policies.status()}["rebalance"]


@asynccontextmanager
async def working(
    directory: Path, settings: Rebalance = EAGER, *, job_seconds: float = 1.0
) -> AsyncIterator[Working]:
    """Policies of a daemon that knows a cluster in which everything is on one node."""
    async with ganeti(begin(uneven()), job_seconds) as luxid, following(luxid) as sync:

        def note(plan: Plan) -> None:
            policies.ended(plan)

        decisions: list[Decision] = []
        plans = Plans(str(directory / "plans"), sync, note)
        path = directory / "policies.json"
        policies = Policies(str(path), sync, plans, all_off(rebalance=settings), decisions.append, now)
        await sync.refresh()
        async with trio.open_nursery() as nursery:
            await nursery.start(plans.run)
            nursery.start_soon(policies.run)
            await trio.sleep(1)
            yield Working(luxid, sync, plans, policies, path, decisions)
            nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a thread is waited for, the clock of these tests would go on by itself."""

    async def run_sync(work: Callable[..., Any], *args: Any, **_options: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return work(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    monkeypatch.setattr(trio.from_thread, "check_cancelled", lambda: None)


async def test_off_it_does_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, replace(EAGER, mode="off")) as daemon:
        daemon.policies.want("rebalance", "asked")
        await trio.sleep(10000)
        assert (daemon.decisions, daemon.submitted, daemon.told["next"]) == ([], 0, None)
        assert "QueryConfigValues" not in {what for _, what in daemon.luxid.asked}
    assert not daemon.path.exists()


async def test_shadow_tells_what_it_would_do(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, replace(EAGER, mode="shadow")) as daemon:
        first = await daemon.decided()
        assert (first.outcome, first.trigger, first.group) == ("would act", "asked", "default")
        assert first.score["before"] > first.score["after"]  # type: ignore[operator]
        assert (daemon.submitted, list(daemon.plans.all), first.since) == (0, [], None)
        # Somebody else moves one of them.
        name = first.moves[0]["instance"]
        daemon.luxid.jobs.submit([[migrate(name, target_node=first.moves[0]["to"][0])]])
        await trio.sleep(60)
        second = await daemon.decided()
        assert second.since == {"time": first.time, "expected": first.score["after"], "moved": [name]}
        assert name not in {move["instance"] for move in second.moves}
        document = entries.policy(first.time, asdict(first)).document()
        assert (document["kind"], document["instances"]) == (
            "policy",
            sorted(m["instance"] for m in first.moves),
        )


async def test_what_is_proposed_waits(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, replace(EAGER, mode="propose")) as daemon:
        first = await daemon.decided()
        (plan,) = daemon.plans.all
        assert (first.outcome, first.plan, plan.state) == ("proposed", plan.id, PlanState.PLANNED)
        second = await daemon.decided()
        assert second.reason == f"plan {plan.id} waits for htoolsctl execute"
        assert daemon.submitted == 0
        await daemon.plans.begin(plan, "stop", False)
        await daemon.over()
        assert plan.state is PlanState.DONE


async def test_acting_makes_it_even_and_then_comes_to_rest(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path) as daemon:
        first = await daemon.decided()
        assert first.outcome == "begun"
        plan = await daemon.over()
        assert (plan.id, plan.state) == (first.plan, PlanState.DONE)
        moved = {move["instance"] for move in first.moves}
        places = {row.name: row.pnode for row in daemon.luxid.jobs.world.cluster.instances}
        assert {name for name, node in places.items() if node != "one"} == moved
        kept = json.loads(daemon.path.read_text())
        assert kept["moved"].keys() == moved
        assert kept["policies"]["rebalance"]["spent"][0][1] == len(moved)
        assert daemon.told["left"]["moves"] == EAGER.moves_per_day - len(moved)
        submitted = daemon.submitted
        await trio.sleep(20 * 600)
        assert len(daemon.decisions) > 15
        assert daemon.submitted == submitted


async def test_the_timer_begins_after_rounds_in_a_row(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, replace(EAGER, mode="shadow", hold=3)) as daemon:
        told = [await daemon.next(count) for count in range(3)]
        assert [each.outcome for each in told] == ["held back", "held back", "would act"]
        assert {each.trigger for each in told} == {"timer"}


async def test_what_a_daemon_spent_the_next_one_knows(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = replace(EAGER, max_moves=2, moves_per_day=2)
    async with working(tmp_path, settings) as daemon:
        assert len((await daemon.decided()).moves) == 2
        kept = daemon.path.read_text()
        await daemon.over()
    daemon.path.write_text(kept)  # as if it had been killed when the plan had begun
    async with working(tmp_path, settings) as again:
        assert (await again.decided()).reason.startswith("the day's budget is spent: 0 moves")
        again.policies.limit(all_off(rebalance=replace(settings, moves_per_day=3)))
        rested = {move["instance"] for move in daemon.decisions[0].moves}
        second = await again.decided()
        assert (second.outcome, len(second.moves)) == ("begun", 1)
        assert not rested & {move["instance"] for move in second.moves}


async def test_what_cannot_be_recorded_does_not_begin(autojump_clock: MockClock, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    async with working(tmp_path / "state") as daemon:
        (tmp_path / "state").rename(tmp_path / "gone")
        decision = await daemon.decided()
        assert decision.outcome == "failed"
        assert "not begun" in decision.reason
        assert daemon.submitted == 0
        assert daemon.told["left"]["moves"] == EAGER.moves_per_day


async def test_what_is_refused_takes_nothing_of_the_budgets(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with working(tmp_path) as daemon:
        daemon.plans.stop()
        decision = await daemon.decided()
        assert (decision.outcome, decision.reason) == ("failed", "not begun: htoolsd is stopping")
        assert daemon.told["left"]["moves"] == EAGER.moves_per_day
        assert daemon.submitted == 0
    assert json.loads(daemon.path.read_text())["moved"] == {}


async def test_a_file_of_a_newer_daemon_holds_it_back(autojump_clock: MockClock, tmp_path: Path) -> None:
    (tmp_path / "policies.json").write_text('{"version": 2}')
    async with working(tmp_path) as daemon:
        assert "newer htoolsd" in (await daemon.decided()).reason
    assert daemon.path.read_text() == '{"version": 2}'


async def test_jobs_hold_it_back(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path) as daemon:
        daemon.luxid.jobs.submit([[delay(1000, on_nodes=["two"])]])
        assert (await daemon.decided()).reason == "jobs have not ended: 1"


async def test_a_paused_watcher_holds_it_back(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path) as daemon:
        async with daemon.sync.client() as client:
            await queries.set_watcher_pause(client, now() + 100)
        assert "watcher is paused" in (await daemon.decided()).reason
        await trio.sleep(100)
        assert (await daemon.decided()).outcome == "begun"


async def test_nodes_that_are_drained_and_come_back_are_events(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with working(tmp_path, replace(EAGER, every_seconds=1e6)) as daemon:
        daemon.luxid.jobs.submit([[role("two", drained=True)]])
        drained = await daemon.next(0)
        assert (drained.trigger, drained.reason) == ("node two was drained", "nodes are drained: two")
        daemon.luxid.jobs.submit([[role("two", drained=False)]])
        back = await daemon.next(1)
        assert back.trigger == "node two is back"


async def test_elsewhere_than_on_the_master_nothing_is_done(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with working(tmp_path) as daemon:
        daemon.luxid.master = False
        while daemon.sync.master:
            await trio.sleep(1)
        assert (await daemon.decided()).reason == "this is not the master node"


async def test_groups_that_are_not_there_are_said(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, replace(EAGER, groups=("rack7",))) as daemon:
        assert (await daemon.decided()).reason == "there is no node group rack7"


async def test_plans_that_fail_switch_it_off(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = replace(EAGER, failures=2, back_off_seconds=300, cool_down_seconds=1.0)
    async with working(tmp_path, settings) as daemon:
        with structlog.testing.capture_logs() as log:
            daemon.luxid.jobs.behaviour.fail(".*MIGRATE.*")
            for _ in range(2):
                assert (await daemon.decided()).outcome == "begun"
                assert (await daemon.over()).state is PlanState.FAILED
                assert (await daemon.decided()).reason.startswith(
                    ("pauses for", "switched off after 2 plans")
                )
                await trio.sleep(301)
        assert [each["event"] for each in log if each["log_level"] == "error"] == ["policy switched off"]
        assert daemon.told["off"]
        assert json.loads(daemon.path.read_text())["policies"]["rebalance"]["failed"] == 2
        daemon.policies.forget_failures("rebalance")
        assert (await daemon.decided()).outcome == "begun"


async def test_explaining_changes_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, replace(EAGER, hold=2, weekdays=("mon",), hours="00:00-00:01")) as daemon:
        for _ in range(3):
            told = await daemon.policies.explain("rebalance")
            (group,) = told["groups"]
            assert {each["condition"] for each in group["held"]} == {"hours", "hold"}
            assert group["moves"]
        assert (daemon.decisions, daemon.submitted) == ([], 0)
