"""The policy that repairs instances, alone and at work on a Ganeti in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.tags import AUTOREPAIR
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.world import World, initial_world, with_role
from htoolsd.config.policies import RepairSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.remedies import ORDER
from htoolsd.policies.remedy import RemedyPlan
from htoolsd.policies.repair import RepairInstances
from tests.support.policies import needed, planned
from tests.support.policies_at_work import working
from tests.support.worlds import ANY, instance, world

ACT = RepairSettings(mode="act")


def broken(*tags: str, drained: bool = False) -> Cluster:
    """The world with the first node offline or drained; these tags are on the cluster."""
    rows = world().cluster
    one, *others = rows.nodes
    rows = replace(rows, groups=(Group("default", "uuid", ipolicy=ANY),))
    return replace(rows, nodes=(replace(one, offline=True, drained=drained), *others), tags=tags)


def test_is_the_first_remedy_and_off() -> None:
    assert ORDER[0] is RepairInstances
    assert RepairSettings().mode == "off"


@pytest.mark.parametrize(
    ("cluster", "settings", "begin", "why"),
    [
        (broken(f"{AUTOREPAIR}failover"), ACT, True, "failover of mirrored"),
        (broken(), ACT, False, "mirrored: no tag allows failover; stuck: no tag allows reinstall"),
        (world().cluster, ACT, False, "no instance needs a repair"),
        (broken(f"{AUTOREPAIR}reinstall", drained=True), ACT, True, "migrate of mirrored"),
        (
            broken(f"{AUTOREPAIR}reinstall", drained=True),
            replace(ACT, migrate_drained=False),
            True,
            "failover of mirrored; reinstall of stuck",
        ),
    ],
)
def test_need_is_what_tags_allow(cluster: Cluster, settings: RepairSettings, begin: bool, why: str) -> None:
    """Nothing on a drained node is lost."""
    need = needed(RepairInstances, cluster, settings)["default"]
    assert (need.begin, need.stop, need.why) == (begin, not begin, why)


def test_plans_as_many_repairs_as_the_budget_allows() -> None:
    def made(*tags: str, **bounds: Any) -> RemedyPlan:
        return planned(RepairInstances, broken(*tags), ACT, **bounds)

    tag = f"{AUTOREPAIR}reinstall"
    assert made(tag).summary == "failover of mirrored, reinstall of stuck, 0 MiB"
    assert made(tag, room=Budget(1, 0)).summary == "failover of mirrored, 0 MiB"
    assert made(tag, room=Budget(0, 0)).refusal == "no repair fits into the budget"
    assert made().refusal == "no repair is needed and may begin"


def test_repairs_resting_instances_but_no_pinned_or_excluded_ones() -> None:
    cluster = broken(f"{AUTOREPAIR}failover")
    assert planned(RepairInstances, cluster, ACT, resting=("mirrored",)).refusal is None
    excluded = replace(ACT, exclude_instances=("mirrored",))
    assert planned(RepairInstances, cluster, excluded).refusal is not None
    pinned = tuple(replace(row, tags=("htools:pinned",)) for row in cluster.instances)
    assert planned(RepairInstances, replace(cluster, instances=pinned), ACT).refusal is not None


def lost(rows: Cluster, drained: bool = False) -> World:
    """A Ganeti whose first node is offline, or only drained."""
    return with_role(initial_world(rows), "one", offline=not drained, drained=drained)


async def test_fails_over_and_makes_a_new_mirror(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, world=lost(broken(f"{AUTOREPAIR}failover")), repair=ACT) as daemon:
        for title in ("failover", "fix-storage"):
            decision = await daemon.decided("repair")
            assert (decision.outcome, decision.reason.partition(" of ")[0]) == ("begun", title)
            assert (await daemon.settled()).state == "done"
        mirrored = daemon.luxid.jobs.world.instance("mirrored")
        assert mirrored is not None
        assert (mirrored.pnode, mirrored.snode) == ("two", "three")
        [record] = mirrored.tags
        assert record.startswith(f"{AUTOREPAIR}result:fix-storage:")
        assert ":success:" in record
        last = await daemon.decided("repair")
        assert last.outcome == "skipped"
        assert last.reason == "stuck: it needs reinstall, and tags allow repairs up to failover"
        assert daemon.submitted == 2


async def test_failed_repair_is_not_tried_again(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The plain instance is marked up on a node that is only drained, so Ganeti does not reinstall it."""
    as_harep = replace(ACT, migrate_drained=False, back_off_seconds=1.0)
    world = lost(broken(f"{AUTOREPAIR}reinstall"), drained=True)
    async with working(tmp_path, world=world, repair=as_harep) as daemon:
        assert (await daemon.decided("repair")).outcome == "begun"
        assert (await daemon.settled()).state == "failed"
        assert daemon.told("repair")["failed"] == 0
        decision = await daemon.decided("repair")
        while decision.outcome == "begun":
            await daemon.settled()
            decision = await daemon.decided("repair")
        assert "stuck: a repair has failed, or goes on: " in decision.reason


async def test_other_repairs_go_on_after_one_that_fails(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The failed one has its record, and the policy does not pause."""
    rows = broken(f"{AUTOREPAIR}failover")
    second = instance("second", DiskTemplate.DRBD, "one", "three")
    world = lost(replace(rows, instances=(*rows.instances, second)))
    async with working(tmp_path, world=world, repair=ACT) as daemon:
        daemon.luxid.jobs.behaviour.fail(r"FAILOVER\(mirrored", times=1)
        both = "failover of mirrored, failover of second, 0 MiB"
        assert (await daemon.decided("repair")).reason == both
        plan = await daemon.settled()
        assert (plan.state, [task.failed for task in plan.run.tasks]) == ("failed", [True, False])
        assert "(mirrored: failover): " in (plan.error or "")
        decision = await daemon.decided("repair")
        assert (decision.outcome, decision.reason) == ("begun", "fix-storage of second, 500 MiB")
        await daemon.settled()
        why = (await daemon.decided("repair")).reason
        assert "mirrored: a repair has failed, or goes on: " in why


async def test_impossible_repair_does_not_hold_others_back(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The lost node and the primary are the only ones that tags allow."""
    rows = broken(f"{AUTOREPAIR}failover")
    tags = ("htools:node:three", "htools:node:one")
    tied = replace(instance("tied", DiskTemplate.DRBD, "three", "one"), tags=tags)
    world = lost(replace(rows, instances=(tied, *rows.instances)))
    async with working(tmp_path, world=world, repair=ACT) as daemon:
        for reason in ("failover of mirrored, 0 MiB", "fix-storage of mirrored, 500 MiB"):
            assert (await daemon.decided("repair")).reason == reason
            assert (await daemon.settled()).state == "done"
        assert "tied: fix-storage finds no node: " in (await daemon.decided("repair")).reason
        assert daemon.submitted == 2
