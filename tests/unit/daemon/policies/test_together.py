"""Several policies at work on a Ganeti in memory, and what outlives the daemon."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.model.tags import SQUEEZING, STANDBY_AUTO
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.world import World, initial_world
from htoolsd.config.policies import RedistributeSettings, SqueezeSettings
from htoolsd.plans.plan import PlanState
from htoolsd.policies.verdict import PolicyDecision
from tests.support.policies import EAGER, all_off, broken, small
from tests.support.policies_at_work import Working, working
from tests.support.settings import change
from tests.support.worlds import grouped, instance, opcode, role, uneven

SQUEEZE = SqueezeSettings(mode="act", hold=1, max_nodes=1, cool_down_seconds=7200.0)
REDISTRIBUTE = RedistributeSettings(mode="act", hold=1)


def idle() -> World:
    """Nodes of which more than one could be spared."""
    return small("abc", web="boss", mail="boss")


def offline(daemon: Working) -> set[str]:
    return set(daemon.luxid.jobs.world.offline)


async def rounds(daemon: Working, *names: str) -> list[PolicyDecision]:
    """What comes of a round in which these policies are considered at once."""
    count = len(daemon.decisions)
    for name in names:
        daemon.policies.request(name, "asked")
    await trio.sleep(0.5)
    return daemon.decisions[count:]


def told(decisions: list[PolicyDecision]) -> list[tuple[str, str]]:
    return [(each.remedy, each.outcome) for each in decisions]


async def test_powers_a_node_down_and_up_when_load_comes(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = replace(SQUEEZE, never=("a", "b"))
    async with working(tmp_path, world=idle(), polls=60.0, squeeze=settings) as daemon:
        done = await rounds(daemon, "squeeze")
        assert told(done) == [("power up", "skipped"), ("power down", "begun")]
        assert (done[1].powered, done[1].reason) == (("c",), "1 node (c), 0 moves, 0 MiB")
        assert (await daemon.over()).state is PlanState.DONE
        assert offline(daemon) == {"c"}
        # Load comes: no node has room any more.
        world = daemon.luxid.jobs.world
        rows = [
            replace(instance(f"{name}{at}", DiskTemplate.EXT, name), mem=900)
            for name in ("boss", "a", "b")
            for at in range(4)
        ]
        full = [replace(row, f_mem=400) for row in world.cluster.nodes if row.name != "c"]
        cluster = replace(world.cluster, instances=(*world.cluster.instances, *rows))
        daemon.luxid.jobs.change(replace(world, cluster=cluster).with_nodes(full))
        await daemon.sync.poll_all()
        done = await rounds(daemon, "squeeze")
        assert told(done) == [("power up", "begun"), ("power down", "skipped")]
        plan = await daemon.over()
        assert (done[0].powered, done[1].reason) == (("c",), f"plan {plan.id} is running")
        assert plan.state is PlanState.DONE
        world = daemon.luxid.jobs.world
        assert not offline(daemon)
        awake = world.node("c")
        assert awake is not None
        assert STANDBY_AUTO not in awake.tags
        # Load goes: the node that has just come back stays.
        gone = replace(world.cluster, instances=world.cluster.instances[:2])
        empty = [replace(row, f_mem=3900) for row in world.cluster.nodes]
        daemon.luxid.jobs.change(replace(world, cluster=gone).with_nodes(empty))
        await trio.sleep(3600)
        assert "c" not in offline(daemon)
        await trio.sleep(10800)
        assert "c" in offline(daemon)


@pytest.mark.parametrize("mode", ["shadow", "act"])
async def test_powers_nothing_down_where_another_policy_acts(
    autojump_clock: MockClock, tmp_path: Path, mode: str
) -> None:
    """Nor as long as it takes to begin, after it has acted or would have."""
    other = replace(EAGER, mode=mode)
    squeeze = replace(SQUEEZE, every_seconds=100.0, hold=5)
    async with working(tmp_path, world=initial_world(uneven()), squeeze=squeeze, rebalance=other) as daemon:
        for _ in range(4):
            await rounds(daemon, "squeeze")
        done = await rounds(daemon, "rebalance", "squeeze")
        outcome = "begun" if mode == "act" else "would act"
        assert told(done)[1:] == [("rebalance", outcome), ("power down", "skipped")]
        plans = [f"plan {plan.id} is running" for plan in daemon.plans.all]
        assert [done[2].reason] == (plans or ["rebalance comes first"])
        (last,) = [each for each in await rounds(daemon, "squeeze") if each.remedy == "power down"]
        assert last.outcome == "skipped"
        if mode == "act":
            await daemon.over()
        await trio.sleep(450)
        began = [
            each.time for each in daemon.decisions if (each.remedy, each.outcome) == ("power down", "begun")
        ]
        assert not [when for when in began if when < done[1].time + 500]


async def test_power_down_yields_to_a_remedy_that_would_act(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """It has waited for a job to end; nothing has been done yet."""
    seldom = replace(EAGER, every_seconds=1e5, hold=1)
    async with working(tmp_path, squeeze=SQUEEZE, rebalance=seldom) as daemon:
        daemon.luxid.jobs.paused = 1e12
        await rounds(daemon, "rebalance")
        daemon.luxid.jobs.paused = None
        done = await rounds(daemon, "squeeze")
        assert (done[1].remedy, done[1].reason) == ("power down", "rebalance would act in the group")
        explained = await daemon.explain("squeeze")
        (down,) = [each for each in explained["groups"] if each["remedy"] == "power down"]
        assert {"condition": "others", "reason": "rebalance would act in the group"} in down["held"]


async def test_one_plan_per_group_and_repairs_first(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The group that gives the room is left alone, too."""
    world = initial_world(broken())
    eager = replace(EAGER, start=1e-9, stop=1e-9)
    async with working(
        tmp_path, world=world, redistribute=REDISTRIBUTE, rebalance=eager, squeeze=SQUEEZE
    ) as daemon:
        done = await rounds(daemon, "rebalance", "squeeze", "redistribute")
        assert told(done)[0] == ("redistribute", "begun")
        later = [each for each in done if each.remedy != "redistribute"]
        assert {each.outcome for each in later} == {"skipped"}
        assert len(list(daemon.plans.all)) == 1
        await daemon.over()


async def test_rounds_survive_a_restart(autojump_clock: MockClock, tmp_path: Path) -> None:
    slow = replace(EAGER, hold=3)
    async with working(tmp_path, rebalance=slow) as daemon:
        for _ in range(2):
            await trio.sleep(300)
            assert (await daemon.decided()).outcome == "skipped"
        await trio.sleep(300)
    async with working(tmp_path, rebalance=slow) as again:
        assert (await again.decided()).outcome == "begun"


async def test_lost_n1_triggers_a_round(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Of a node that others' secondaries have filled; once, until it is lost anew."""
    quiet = replace(EAGER, every_seconds=1e6, mode="shadow")
    cluster = grouped().cluster
    async with working(tmp_path, world=initial_world(cluster), rebalance=quiet) as daemon:
        await trio.sleep(60)
        assert daemon.decisions == []
        world = daemon.luxid.jobs.world
        two = replace(next(row for row in cluster.nodes if row.name == "two"), f_mem=100)
        daemon.luxid.jobs.change(world.with_nodes([two]))
        await daemon.sync.poll_all()
        assert (await daemon.next(0)).trigger == "group default has lost N+1 redundancy"
        count = len(daemon.decisions)
        await trio.sleep(600)
        assert len(daemon.decisions) == count


async def test_uses_new_settings_in_the_next_round(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with working(tmp_path, world=idle(), squeeze=replace(SQUEEZE, never=("a", "b", "c"))) as daemon:
        assert told(await rounds(daemon, "squeeze"))[1] == ("power down", "skipped")
        change(daemon.settings, **all_off(squeeze=SQUEEZE))
        assert told(await rounds(daemon, "squeeze"))[1] == ("power down", "begun")
        await daemon.over()
        change(daemon.settings, **all_off())
        assert await rounds(daemon, "squeeze") == []


def left(daemon: Working, name: str, *roles: Any) -> None:
    """What a run of hsqueeze that was cut off has left of a node."""
    tagging = opcode("TAGS_SET", kind="node", name=name, tags=[SQUEEZING])
    daemon.luxid.jobs.submit([[tagging, *roles]])


def squeezed(daemon: Working) -> set[str]:
    """The nodes on which work has not been finished."""
    return {row.name for row in daemon.luxid.jobs.world.cluster.nodes if SQUEEZING in row.tags}


async def test_powers_down_nodes_that_an_earlier_run_left_drained(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """It does not wait for finish, which has been considered in every round."""
    shadow = replace(SQUEEZE, mode="shadow")
    async with working(tmp_path, world=idle(), polls=5.0, squeeze=shadow) as daemon:
        left(daemon, "a", role("a", drained=True))
        for _ in range(2):
            await trio.sleep(100)
            done = await rounds(daemon, "squeeze")
            assert told(done)[1:] == [("power down", "would act"), ("finish", "skipped")]
        change(daemon.settings, **all_off(squeeze=SQUEEZE))
        done = await rounds(daemon, "squeeze")
        assert told(done)[1:] == [("power down", "begun"), ("finish", "skipped")]
        await daemon.over()
        assert offline(daemon)
        assert not daemon.luxid.jobs.world.drained
        assert not squeezed(daemon)


@pytest.mark.parametrize("mode", ["shadow", "propose", "act"])
async def test_finishes_leftovers_when_no_node_can_be_spared(
    autojump_clock: MockClock, tmp_path: Path, mode: str
) -> None:
    """Also when the day's budget is spent; nodes that somebody else has drained stay drained."""
    settings = replace(SQUEEZE, mode=mode, never=("a", "b", "c"), moves_per_day=0)
    async with working(tmp_path, world=idle(), polls=5.0, squeeze=settings) as daemon:
        left(daemon, "a", role("a", drained=True))
        left(daemon, "b", role("b", offline=True))
        await trio.sleep(10)
        *_, done = await rounds(daemon, "squeeze")
        outcome = {"shadow": "would act", "propose": "proposed", "act": "begun"}[mode]
        assert (done.remedy, done.outcome, done.powered) == ("finish", outcome, ("a", "b"))
        if mode == "act":
            assert (await daemon.over()).state is PlanState.DONE
            assert not squeezed(daemon)
            assert (offline(daemon), daemon.luxid.jobs.world.drained) == ({"b"}, frozenset())
            await trio.sleep(10)
            assert "finish" not in {each.remedy for each in await rounds(daemon, "squeeze")}
        else:
            assert squeezed(daemon) == {"a", "b"}


async def test_stops_when_leftovers_have_changed(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = replace(SQUEEZE, mode="propose", never=("a", "b", "c"))
    async with working(tmp_path, world=idle(), polls=5.0, squeeze=settings) as daemon:
        left(daemon, "a", role("a", drained=True))
        await trio.sleep(10)
        await rounds(daemon, "squeeze")
        (plan,) = daemon.plans.all
        untagging = opcode("TAGS_DEL", kind="node", name="a", tags=[SQUEEZING])
        daemon.luxid.jobs.submit([[untagging]])
        await trio.sleep(10)
        await daemon.plans.begin(plan, "stop", False)
        await daemon.over()
        assert "the leftovers of an earlier hsqueeze have changed" in str(plan.error)
        assert daemon.luxid.jobs.world.drained == {"a"}


async def test_drained_nodes_hold_policies_back(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Those that an hsqueeze has drained hold back the other policies only."""
    policies: Any = {"rebalance": EAGER, "redistribute": REDISTRIBUTE, "squeeze": SQUEEZE}
    async with working(tmp_path, world=idle(), polls=5.0, **policies) as daemon:
        daemon.luxid.jobs.submit([[role("a", drained=True)]])
        await daemon.next(0)
        await trio.sleep(10)
        assert {each.reason for each in await rounds(daemon, *policies)} == {"nodes are drained: a"}
        left(daemon, "a")
        await trio.sleep(10)
        held = [each for each in await rounds(daemon, *policies) if each.reason == "nodes are drained: a"]
        assert {each.policy for each in held} == {"rebalance", "redistribute"}


async def test_a_round_of_all_policies_observes_the_cluster_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    off: Any = {name: replace(each, mode="shadow", every_seconds=1e5) for name, each in all_off().items()}
    async with working(tmp_path, world=idle(), polls=600.0, **off) as daemon:
        await rounds(daemon)
        before = len(daemon.luxid.times("QueryConfigValues"))
        remedies = {each.remedy for each in await rounds(daemon, *off)}
        assert len(remedies) >= 4
        assert len(daemon.luxid.times("QueryConfigValues")) == before + 1
