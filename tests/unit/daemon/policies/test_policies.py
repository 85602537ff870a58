"""Policies at work on a Ganeti in memory."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Group
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.balancing.hbal import BalancingPlan
from ganeti_htools.simulator.storage_units import object_uuid
from ganeti_htools.simulator.world import initial_world, lose_node
from htoolsd.plans.plan import PlanState
from htoolsd.policies import rebalance
from tests.support.policies import EAGER, all_off
from tests.support.policies_at_work import now, working
from tests.support.settings import change
from tests.support.worlds import delay, grouped, migrate, role, uneven


async def test_does_nothing_when_off(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, mode="off")) as daemon:
        daemon.policies.request("rebalance", "asked")
        await trio.sleep(1500)
        assert (daemon.decisions, daemon.submitted, daemon.told()["next"]) == ([], 0, None)
        assert "QueryConfigValues" not in {what for _, what in daemon.luxid.asked}
    assert not daemon.path.exists()


async def test_shadow_records_what_it_would_do(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, mode="shadow")) as daemon:
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
        document = first.to_json()
        assert (document["kind"], document["instances"]) == (
            "policy",
            sorted(m["instance"] for m in first.moves),
        )


async def test_plan_has_at_most_as_many_unfinished_jobs_as_its_policy_allows(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, parallel=2)) as daemon:
        assert (await daemon.decided()).outcome == "begun"
        assert (await daemon.over()).run.parallel == 2


async def test_proposed_plan_waits_for_execute(autojump_clock: MockClock, tmp_path: Path) -> None:
    seldom = replace(EAGER, mode="propose", every_seconds=1e6)
    async with working(tmp_path, rebalance=seldom) as daemon:
        first = await daemon.decided()
        (plan,) = daemon.plans.all
        assert (first.outcome, first.plan, plan.state) == ("proposed", plan.id, PlanState.PLANNED)
        second = await daemon.decided()
        assert second.reason == f"plan {plan.id} waits for htoolsctl execute"
        assert daemon.submitted == 0
        await daemon.plans.begin(plan, "stop", False)
        await daemon.over()
        assert plan.state is PlanState.DONE
        assert "waits" not in (await daemon.decided()).reason


async def test_proposed_plan_waits_for_a_day(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, mode="propose")) as daemon:
        assert (await daemon.decided()).outcome == "proposed"
        (plan,) = daemon.plans.all
        plan.facts["made"] -= 86000
        assert "waits" in (await daemon.decided()).reason
        plan.facts["made"] -= 86400  # by the time of day, which is ahead of the test's clock
        assert (await daemon.decided()).outcome == "proposed"


async def test_balances_once_and_then_rests(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=EAGER) as daemon:
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
        assert daemon.told()["left"]["moves"] == EAGER.moves_per_day - len(moved)
        submitted = daemon.submitted
        await trio.sleep(6 * 600)
        assert len(daemon.decisions) > 5
        assert daemon.submitted == submitted


async def test_timer_begins_a_plan_after_hold_rounds(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, mode="shadow", hold=3)) as daemon:
        told = [await daemon.next(count) for count in range(3)]
        assert [each.outcome for each in told] == ["skipped", "skipped", "would act"]
        assert {each.trigger for each in told} == {"timer"}


async def test_spent_budget_survives_a_kill(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = replace(EAGER, max_moves=2, moves_per_day=2)
    async with working(tmp_path, rebalance=settings) as daemon:
        assert len((await daemon.decided()).moves) == 2
        kept = daemon.path.read_text()
        await daemon.over()
    daemon.path.write_text(kept)  # as if it had been killed when the plan had begun
    async with working(tmp_path, rebalance=settings) as again:
        assert (await again.decided()).reason.startswith("the day's budget is spent: moves left: 0")
        change(again.settings, **all_off(rebalance=replace(settings, moves_per_day=3)))
        rested = {move["instance"] for move in daemon.decisions[0].moves}
        second = await again.decided()
        assert (second.outcome, len(second.moves)) == ("begun", 1)
        assert not rested & {move["instance"] for move in second.moves}


async def test_groups_of_one_round_share_the_budget_of_the_day(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    one = uneven()
    other: dict[str, list[Any]] = {
        "groups": [Group("second", "uuid-2")],
        "nodes": [replace(row, name=f"{row.name}-2", group="uuid-2") for row in one.nodes],
        "instances": [
            replace(row, name=f"{row.name}-2", pnode=f"{row.pnode}-2", uuid="") for row in one.instances
        ],
    }
    both: Any = {key: (*getattr(one, key), *rows) for key, rows in other.items()}
    settings = replace(EAGER, moves_per_day=5)
    async with working(tmp_path, world=initial_world(replace(one, **both)), rebalance=settings) as daemon:
        await daemon.decided()
        decisions = [daemon.decisions[0], await daemon.next(1)]
        assert [(each.outcome, len(each.moves)) for each in decisions] == [("begun", 4), ("begun", 1)]
        assert daemon.told()["left"]["moves"] == 0


@pytest.mark.parametrize("recorded", [False, True])
async def test_plan_that_cannot_begin_costs_no_budget_and_is_no_proposal(
    autojump_clock: MockClock, tmp_path: Path, recorded: bool
) -> None:
    """As when the disk refuses the expense, or the daemon is stopping."""
    (tmp_path / "state").mkdir()
    async with working(tmp_path / "state", rebalance=EAGER) as daemon:
        if recorded:
            daemon.plans.stop()
        else:
            (tmp_path / "state").rename(tmp_path / "gone")
        decision = await daemon.decided()
        why = "the plan did not begin: "
        assert (decision.outcome, decision.reason[: len(why)]) == ("failed", why)
        assert ("htoolsd is stopping" in decision.reason) is recorded
        assert daemon.told()["left"]["moves"] == EAGER.moves_per_day
        assert (daemon.submitted, list(daemon.plans.all)) == (0, [])
    if recorded:
        assert json.loads(daemon.path.read_text())["moved"] == {}


async def test_holds_back_when_the_memory_is_of_a_newer_daemon(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    (tmp_path / "policies.json").write_text('{"version": 2}')
    async with working(tmp_path, rebalance=EAGER) as daemon:
        assert "newer htoolsd" in (await daemon.decided()).reason
    assert daemon.path.read_text() == '{"version": 2}'


async def test_holds_back_by_what_ganeti_reports(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=EAGER) as daemon:
        async with daemon.sync.client() as client:
            await client.call("SetWatcherPause", [now() + 100])
        assert "watcher is paused" in (await daemon.decided()).reason
        await trio.sleep(100)
        daemon.luxid.jobs.submit([[delay(100, on_nodes=["two"])]])
        assert (await daemon.decided()).reason == "unfinished jobs: 1"
        daemon.luxid.master = False
        while daemon.sync.master:
            await trio.sleep(1)
        assert (await daemon.decided()).reason == "this is not the master node"
        daemon.luxid.master = True
        await trio.sleep(100)
        assert (await daemon.decided()).outcome == "begun"


async def test_silent_node_holds_back_only_in_its_own_group(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    rows, more = uneven(), grouped().cluster
    nodes = (*rows.nodes, *more.nodes[-2:])
    start = initial_world(replace(rows, groups=more.groups, nodes=nodes))
    for lost, outcome in (("four", "begun"), ("two", "skipped")):
        async with working(tmp_path / lost, world=lose_node(start, lost), rebalance=EAGER) as daemon:
            decision = await daemon.decided()
            assert (decision.group, decision.outcome) == ("default", outcome)
            assert lost == "four" or decision.reason == "nodes do not report: two"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (role("two", drained=True), role("two", drained=False)),
        (opcodes.tag_node("two", [MAINTENANCE]), opcodes.untag_node("two", [MAINTENANCE])),
    ],
)
async def test_drained_and_returned_nodes_trigger_rounds(
    autojump_clock: MockClock, tmp_path: Path, begin: Opcode, end: Opcode
) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, every_seconds=1e6)) as daemon:
        daemon.luxid.jobs.submit([[{**begin, "reason": []}]])
        drained = await daemon.next(0)
        assert (drained.trigger, drained.reason) == ("node two was drained", "nodes are drained: two")
        daemon.luxid.jobs.submit([[{**end, "reason": []}]])
        back = await daemon.next(1)
        assert back.trigger == "node two is back"


async def test_outage_of_a_node_begins_the_rounds_anew(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Rounds of drift that no move improves are no reason to move instances when a node is set offline."""
    useless = replace(EAGER, hold=3, min_gain=1e6)
    async with working(tmp_path, rebalance=useless) as daemon:
        held = [await daemon.next(count) for count in range(4)]
        assert ["for" in each.reason.split() for each in held] == [True, True, False, False]
        daemon.luxid.jobs.submit([[role("two", offline=True)]])
        change(daemon.settings, **all_off(rebalance=replace(useless, min_gain=1e-6)))
        rounds = [await daemon.next(count) for count in range(4, 7)]
        assert [each.outcome for each in rounds] == ["skipped", "skipped", "begun"]
        assert rounds[0].reason.endswith(", for 1 of 3 rounds")


async def test_reports_unknown_names(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, rebalance=replace(EAGER, groups=("rack7",))) as daemon:
        why = "groups: there is no node group rack7; the policy acts nowhere"
        assert (await daemon.decided()).reason == why
        assert (daemon.told()["acts_in"], daemon.told()["unknown"]) == ([], {"groups": ["rack7"]})
        both = replace(EAGER, groups=("rack7", "default"), exclude_instances=("gone",))
        change(daemon.settings, **all_off(rebalance=both))
        explained = await daemon.explain("rebalance")
        assert explained["unknown"] == {"groups": ["rack7"], "exclude_instances": ["gone"]}
        assert explained["acts_in"] == ["default"]
        assert explained["groups"][0]["moves"]
        assert (await daemon.decided()).outcome == "begun"


async def test_renamed_instance_and_group_stay_meant(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Also by the next daemon."""
    settings = replace(EAGER, mode="shadow", groups=("default",), exclude_instances=("web0",))
    async with working(tmp_path, rebalance=settings) as daemon:
        first = await daemon.decided()
        assert "web0" not in {move["instance"] for move in first.moves}
        world = daemon.luxid.jobs.world
    rows = world.cluster.instances
    new = [replace(row, name="z", uuid=object_uuid("web0")) if row.name == "web0" else row for row in rows]
    groups = [replace(row, name="renamed") for row in world.cluster.groups]
    cluster = replace(world.cluster, groups=tuple(groups), instances=tuple(new))
    async with working(tmp_path, world=initial_world(cluster), rebalance=settings) as again:
        found = await again.decided()
        assert (found.outcome, found.group) == ("would act", "renamed")
        assert "z" not in {move["instance"] for move in found.moves}
        assert again.told()["unknown"] == {}


async def test_failed_plans_switch_a_policy_off(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Also for the next daemon, until somebody switches it on again."""
    settings = replace(EAGER, failures=2, back_off_seconds=300, cool_down_seconds=1.0)
    async with working(tmp_path, rebalance=settings) as daemon:
        with structlog.testing.capture_logs() as log:
            daemon.luxid.jobs.behaviour.fail(".*MIGRATE.*")
            for _ in range(2):
                assert (await daemon.decided()).outcome == "begun"
                assert (await daemon.over()).state is PlanState.FAILED
                assert (await daemon.decided()).reason.startswith(
                    ("pauses for", "switched off after 2 failed plans")
                )
                await trio.sleep(301)
        assert [each["event"] for each in log if each["log_level"] == "error"] == ["policy switched off"]
        assert daemon.told()["off"]
        assert json.loads(daemon.path.read_text())["policies"]["rebalance"]["failed"] == 2
    with structlog.testing.capture_logs() as log:
        async with working(tmp_path, rebalance=settings) as again:
            health = {each["name"]: each["health"] for each in again.policies.health()}
            assert health.pop("rebalance") == "switched off"
            assert set(health.values()) == {"healthy"}
            again.policies.forget_failures("rebalance")
            assert (await again.decided()).outcome == "begun"
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["policy switched off"]


@pytest.mark.parametrize("mode", ["shadow", "propose", "act"])
async def test_checks_conditions_again_after_planning(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """As when the policy is switched off meanwhile, or jobs begin."""
    async with working(tmp_path, rebalance=replace(EAGER, mode=mode)) as daemon:

        def switched_off(*args: Any) -> BalancingPlan:
            trio.from_thread.run_sync(partial(change, daemon.settings, **all_off()))
            return hbal.plan(*args)

        monkeypatch.setattr(rebalance, "HBAL", replace(hbal.HBAL, plan=switched_off))
        told = await daemon.decided()
        assert (told.outcome, told.reason) == ("skipped", "the policy is off")
        assert (daemon.submitted, list(daemon.plans.all)) == (0, [])


async def test_instances_moved_while_policies_are_off_rest(autojump_clock: MockClock, tmp_path: Path) -> None:
    """From when it moved."""
    async with working(tmp_path) as daemon:
        name = "web0"
        daemon.luxid.jobs.submit([[migrate(name, target_node="two")]])
        await trio.sleep(600)
        change(daemon.settings, **all_off(rebalance=replace(EAGER, mode="shadow")))
        await daemon.decided()
        moved = json.loads(daemon.path.read_text())["moved"]
        assert moved.keys() == {name}
        assert moved[name] < now() - 500


async def test_explain_changes_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(
        tmp_path, rebalance=replace(EAGER, hold=2, weekdays=("mon",), hours="00:00-00:01")
    ) as daemon:
        for _ in range(3):
            told = await daemon.explain("rebalance")
            (group,) = told["groups"]
            assert {each["condition"] for each in group["held"]} == {"hours", "hold"}
            assert group["moves"]
        assert (daemon.decisions, daemon.submitted) == ([], 0)
