"""Maintenance on a simulated Ganeti: what changes meanwhile, who is first, who is killed on the way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from random import Random

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.execution.events import Event, News
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.client import LuxiError
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.maintenance_tags import Home, home_tag, home_tags, maintenance_of, run_tag
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.maintenance.hmaintain import HMAINTAIN, MaintainOptions
from ganeti_htools.planning.maintenance.roll import RollOptions, roll_of
from ganeti_htools.simulator.world import World, initial_world
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.seeds import one_by_one
from tests.support.simulated import simulated
from tests.support.squeezing import Caller

TOGETHER = "htools:together:set"
EXT, DRBD, PLAIN = DiskTemplate.EXT, DiskTemplate.DRBD, DiskTemplate.PLAIN
ANN = "20200101T000000Z:ann@boss:7"
BOB = "20200101T000001Z:bob@boss:8"
START = MaintainOptions(nodes=("one",), run=ANN)
END = replace(START, action="end")


def world() -> World:
    """The master and four nodes; on each an instance of each kind."""
    names = ("boss", "one", "two", "three", "four")
    rows = [
        row
        for place, name in enumerate(names)
        for row in (
            instance(f"pool-{name}", EXT, name),
            instance(f"mirrored-{name}", DRBD, name, names[place - 1]),
            instance(f"local-{name}", PLAIN, name, mem=100),
        )
    ]
    start = initial_world(by_hand.cluster(dict.fromkeys(names, 20_000), rows))  # the first is the master
    return replace(start, addresses={name: f"address of {name}" for name in names})


@asynccontextmanager
async def ganeti() -> AsyncIterator[Caller]:
    async with simulated(world()) as (master, client):
        yield Caller(master, client, tool=HMAINTAIN)


def places(cluster: Cluster) -> dict[str, tuple[str, str | None]]:
    return {row.name: (row.pnode, row.snode) for row in cluster.instances}


def moves_of(run: Run) -> list[tuple[str, str]]:
    """The instances that moved, with the jobset and the place of their job."""
    return [(task.job.step.instance, task.place) for task in run.tasks if task.job.step]


def row_of(caller: Caller, name: str) -> Instance:
    found = caller.world.instance(name)
    assert found is not None
    return found


def check_restored(caller: Caller) -> None:
    """Everything is as at the beginning: places, tags, drained nodes."""
    assert places(caller.world.cluster) == places(world().cluster)
    assert not caller.world.drained
    assert not any(row.tags for row in caller.world.cluster.nodes)
    assert not any(row.tags for row in caller.world.cluster.instances)


@pytest.mark.parametrize("empty", [False, True])
async def test_what_leaves_comes_home(autojump_clock: MockClock, empty: bool) -> None:
    async with ganeti() as caller:
        assert (await caller.squeeze(replace(START, empty=empty))).ending is Ending.DONE
        there = [row.name for row in caller.world.cluster.instances if "one" in (row.pnode, row.snode)]
        assert there == ["local-one"] if empty else ["mirrored-one", "local-one", "mirrored-two"]
        assert caller.world.drained == {"one"}
        assert not maintenance_of(caller.tags("one")).runs
        assert (await caller.squeeze(END)).ending is Ending.DONE
        check_restored(caller)


@pytest.mark.parametrize("empty", [False, True])
async def test_set_leaves_in_one_jobset_and_comes_home(autojump_clock: MockClock, empty: bool) -> None:
    """Each member would find the most room elsewhere by itself."""
    async with ganeti() as caller:
        cluster = caller.world.cluster
        kinds = [("pool-one", EXT), ("mirrored-one", DRBD), ("other", DRBD), ("third", EXT)]
        members = [
            replace(instance(name, kind, "one", "boss" if kind is DRBD else None), tags=(TOGETHER,))
            for name, kind in kinds
        ]
        others = [row for row in cluster.instances if row.name not in {row.name for row in members}]
        caller.master.jobs.change(
            replace(caller.world, cluster=replace(cluster, instances=(*others, *members)))
        )
        before = places(caller.world.cluster)
        run = await caller.squeeze(replace(START, empty=empty))
        assert run.ending is Ending.DONE
        jobsets = {name: place.split("/")[0] for name, place in moves_of(run)}
        assert len({jobsets[name] for name, _ in kinds}) == 1
        after = places(caller.world.cluster)
        assert {after[name][0] for name, _ in kinds} == {"boss"}
        assert len({after[name] for name, kind in kinds if kind is DRBD}) == 1
        assert empty != ("one" in after["other"])
        assert (await caller.squeeze(END)).ending is Ending.DONE
        assert places(caller.world.cluster) == before


@pytest.mark.parametrize(
    ("nodes", "regular", "promoting"),
    [
        (("one",), ("three", "four"), ("one",)),
        (("three",), ("three", "four"), ()),
        (("one", "three"), ("four",), ("one", "three")),
        (("one", "three"), (), ()),
    ],
)
async def test_others_become_candidates_at_once_where_too_few_would_remain(
    autojump_clock: MockClock, nodes: tuple[str, ...], regular: tuple[str, ...], promoting: tuple[str, ...]
) -> None:
    """No job fails, and Ganeti locks all nodes for no other."""
    pool = 3
    start = replace(world(), regular=frozenset(regular), candidate_pool=pool)
    async with simulated(start) as (master, client):
        caller = Caller(master, client, tool=HMAINTAIN)
        run = await caller.squeeze(replace(START, nodes=nodes, check_redundancy=False))
        assert (run.ending, [task.error for task in run.tasks if task.error]) == (Ending.DONE, [])
        opcodes = [op for task in run.tasks for op in task.job.opcodes]
        assert [op["node_name"] for op in opcodes if op.get("auto_promote")] == [*promoting]
        assert caller.world.drained == {*nodes}


async def test_emptied_node_is_offline_until_its_daemon_answers(autojump_clock: MockClock) -> None:
    async with ganeti() as caller:
        cluster = caller.world.cluster
        rows = tuple(row for row in cluster.instances if row.name != "local-one")
        caller.master.jobs.change(replace(caller.world, cluster=replace(cluster, instances=rows)))
        await caller.squeeze(START)
        assert (await caller.squeeze(replace(START, action="offline"))).ending is Ending.DONE
        assert (caller.world.offline, caller.world.drained) == (frozenset({"one"}), frozenset())
        caller.master.jobs.change(replace(caller.world, silent=frozenset({"one"})))
        with pytest.raises(HtoolsError, match="offline for its maintenance"):
            await caller.squeeze(END)
        online = replace(END, action="online")
        assert (await caller.squeeze(online)).ending is Ending.FAILED
        caller.master.jobs.change(replace(caller.world, silent=frozenset()))
        assert (await caller.squeeze(online)).ending is Ending.DONE
        assert (caller.world.offline, caller.world.drained) == (frozenset(), frozenset({"one"}))
        assert (await caller.squeeze(END)).ending is Ending.DONE
        assert not any(row.tags for row in caller.world.cluster.nodes)


async def test_what_is_not_drained_or_has_instances_stays_online(autojump_clock: MockClock) -> None:
    async with ganeti() as caller:
        for nodes in ("boss",), ("two",):
            await caller.squeeze(replace(START, nodes=nodes))
            await caller.squeeze(replace(START, action="offline", nodes=nodes))
        assert "local-two" in {row.name for row in caller.world.cluster.instances if row.pnode == "two"}
        assert (caller.world.offline, caller.world.drained) == (frozenset(), frozenset({"two"}))


async def test_end_with_balancing(autojump_clock: MockClock) -> None:
    """It fills the node again, and nothing of the maintenance is left."""
    async with ganeti() as caller:
        await caller.squeeze(replace(START, empty=True))
        assert (await caller.squeeze(replace(END, balance=True))).ending is Ending.DONE
        assert {row.name for row in caller.world.cluster.instances if row.pnode == "one"} > {"local-one"}
        assert not any(row.tags for row in caller.world.cluster.instances)
        assert not any(row.tags for row in caller.world.cluster.nodes)


async def test_node_that_somebody_else_drained_stays_drained(autojump_clock: MockClock) -> None:
    async with ganeti() as caller:
        caller.master.jobs.change(replace(caller.world, drained=frozenset({"one"})))
        await caller.squeeze(START)
        await caller.squeeze(END)
        assert caller.world.drained == {"one"}
        assert caller.tags("one") == ()
        assert row_of(caller, "pool-one").pnode != "one"
        assert home_tags(row_of(caller, "pool-one").tags)
        caller.master.jobs.change(replace(caller.world, drained=frozenset()))
        await caller.squeeze(END)
        check_restored(caller)


async def test_instance_that_was_moved_by_hand_comes_home(autojump_clock: MockClock) -> None:
    async with ganeti() as caller:
        await caller.squeeze(START)
        (other,) = {"boss", "four"} - {row_of(caller, "pool-one").pnode} or {"two"}
        caller.master.jobs.submit([[{**opcodes.migrate("pool-one", other), "reason": []}]])
        await caller.settle()
        assert row_of(caller, "pool-one").pnode == other
        await caller.squeeze(END)
        check_restored(caller)


async def test_end_of_several_nodes_of_which_one_has_ended(autojump_clock: MockClock) -> None:
    async with ganeti() as caller:
        await caller.squeeze(START)
        run = await caller.squeeze(replace(END, nodes=("one", "two")))
        assert run.ending is Ending.DONE
        check_restored(caller)


async def test_end_without_mark_reopens_node_that_start_without_mark_left(autojump_clock: MockClock) -> None:
    """Both have the same empty mark, so it does not tell what this run has done."""
    async with ganeti() as caller:
        await caller.squeeze(replace(START, run=""))
        left = opcodes.tag_node("one", [run_tag("")])
        caller.master.jobs.submit([[{**left, "reason": []}]])
        await caller.settle()
        run = await caller.squeeze(replace(END, run=""))
        assert run.ending is Ending.DONE
        check_restored(caller)


async def test_home_that_was_removed_is_forgotten(autojump_clock: MockClock) -> None:
    async with ganeti() as caller:
        gone = opcodes.tag_instance("pool-two", [home_tag(Home("removed"))])
        caller.master.jobs.submit([[{**gone, "reason": []}]])
        await caller.squeeze(START)
        plan = HMAINTAIN.plan(HMAINTAIN.state_of(await caller.read(), END), END, lambda _text: None)
        assert plan.without_home == ["pool-two"]
        await caller.squeeze(END)
        check_restored(caller)


async def test_instance_that_came_meanwhile_leaves_too(autojump_clock: MockClock) -> None:
    """It was decided before the node was tagged, and created while moves were planned."""
    async with ganeti() as caller:
        created = list[int]()

        def react(event: Event) -> None:
            if isinstance(event, News) and not created:
                created.append(1)
                cluster = caller.world.cluster
                rows = (*cluster.instances, instance("new", EXT, "one"))
                caller.master.jobs.change(replace(caller.world, cluster=replace(cluster, instances=rows)))

        caller.react = react
        run = await caller.squeeze(START)
        assert run.ending is Ending.DONE
        assert row_of(caller, "new").pnode != "one"
        assert len(home_tags(row_of(caller, "new").tags)) == 1


async def test_second_administrator_is_refused(autojump_clock: MockClock) -> None:
    """Whoever planned before the other's mark was there sees it before the first job."""
    async with ganeti() as caller:
        proposal = HMAINTAIN.propose(await caller.read(), replace(START, run=BOB), lambda _text: None)
        check = proposal.review("replan", lambda *_: None)
        assert await caller.cut_off(2, START)
        await caller.settle()
        with pytest.raises(HtoolsError, match=f"another run is at work on node one: {ANN}"):
            check(await caller.read(), proposal.jobs, 0)
        with pytest.raises(Exception, match="--take-over goes on in its place"):
            await caller.squeeze(replace(START, run=BOB))


@pytest.mark.parametrize(("own", "goes_on"), [(ANN, True), (BOB, False)])
async def test_of_two_at_once_the_first_goes_on(autojump_clock: MockClock, own: str, goes_on: bool) -> None:
    async with ganeti() as caller:
        other = {ANN: BOB, BOB: ANN}[own]
        marked = list[int]()

        def react(event: Event) -> None:
            if isinstance(event, News) and event.task.over and not marked:
                marked.append(1)
                tag = opcodes.tag_node("one", [f"{MAINTENANCE}:run:{other}"])
                caller.master.jobs.submit([[{**tag, "reason": []}]])

        caller.react = react
        run = await caller.squeeze(replace(START, run=own))
        assert run.ending is (Ending.DONE if goes_on else Ending.CHANGED)
        assert maintenance_of(caller.tags("one")).runs == (other,)
        assert goes_on or run.reason == f"another run began first on node one: {ANN}"


async def interrupt_luxid(caller: Caller, chance: Random) -> None:
    """Let luxid go and come back again and again."""
    while True:
        await trio.sleep(chance.uniform(5, 60))
        await caller.master.go()
        await trio.sleep(chance.uniform(1, 30))
        caller.master.there = True


async def carried_out(caller: Caller, options: MaintainOptions, chance: Random) -> None:
    """Carry out a plan, however often who does so is killed, or finds no luxid."""
    for number in count(1):
        own = replace(options, run=f"20200101T0000{number:02}Z:ann@boss:7", take_over=number > 1)
        cut = caller.cut_off if chance.random() < 0.7 else caller.cut_off_unanswered
        try:
            if number < 8 and await cut(chance.randint(1, 6), own):
                pass
            elif (await caller.squeeze(own)).ending is Ending.DONE:
                return
        except LuxiError:
            await trio.sleep(1)
        await caller.settle()  # the next run waits for jobs of earlier ones


@pytest.mark.parametrize("seed", one_by_one(12))
async def test_next_run_goes_on_after_any_kill(autojump_clock: MockClock, seed: int) -> None:
    """Tool and daemon carry out plans by the same code; whoever does is killed at random moments, and so is
    luxid.
    """
    chance = Random(seed)
    nodes = tuple(chance.sample(("one", "two", "three", "boss"), chance.choice((1, 1, 2))))
    start = MaintainOptions(
        nodes=nodes, empty=len(nodes) > 1 or chance.random() < 0.5, check_redundancy=False
    )
    async with ganeti() as caller, trio.open_nursery() as nursery:
        nursery.start_soon(interrupt_luxid, caller, chance)
        await carried_out(caller, start, chance)
        left = [row for row in caller.world.cluster.instances if row.pnode in nodes]
        assert {row.template for row in left} == {PLAIN}
        assert caller.world.drained == {*nodes} - {"boss"}
        await carried_out(caller, replace(start, action="end", empty=False), chance)
        nursery.cancel_scope.cancel()
        check_restored(caller)


ROLL = RollOptions(
    nodes=(),
    group=None,
    node_tags=None,
    ignore_non_redundant=True,
    start=MaintainOptions(check_redundancy=False),
)


async def run_cut_off(caller: Caller, options: MaintainOptions, chance: Random, kills: int) -> bool:
    """Carry out a plan; whether it came to its end. ``kills`` may still happen."""
    cut = caller.cut_off if chance.random() < 0.7 else caller.cut_off_unanswered
    try:
        if kills > 0 and chance.random() < 0.4:
            return not await cut(chance.randint(1, 6), options)
        return (await caller.squeeze(options)).ending is Ending.DONE
    except LuxiError:
        return False


async def roll_once(caller: Caller, run: str, chance: Random, kills: int) -> tuple[list[str], bool]:
    """Go through the batches as the tool does, perhaps killed on the way. Returns the nodes on which work was
    done, and whether the roll is over.
    """
    worked = list[str]()
    while (roll := roll_of(await caller.read(), ROLL, lambda _text: None)).batches:
        batch = roll.batches[0]
        start = replace(ROLL.start, nodes=batch.nodes, run=run, roll=roll.name or run.rpartition(":")[0])
        if batch.stage != "done":
            taken = replace(start, take_over=batch.stage == "begun")
            if not await run_cut_off(caller, taken, chance, kills):
                return worked, False
            left = [row for row in caller.world.cluster.instances if row.pnode in batch.nodes]
            assert {row.template for row in left} == {PLAIN}
            worked += batch.nodes
        end = replace(start, action="end", take_over=batch.stage == "done")
        if not await run_cut_off(caller, end, chance, kills):
            return worked, False
    forget = replace(ROLL.start, action="forget", nodes=roll.done, run=run)
    return worked, await run_cut_off(caller, forget, chance, kills)


@pytest.mark.parametrize("seed", one_by_one(8))
async def test_roll_goes_on_after_any_kill(autojump_clock: MockClock, seed: int) -> None:
    """Every node but the master has its turn, and all is as before."""
    chance, worked, over = Random(seed), list[str](), False
    async with ganeti() as caller, trio.open_nursery() as nursery:
        nursery.start_soon(interrupt_luxid, caller, chance)
        for number in count(1):
            try:
                nodes, over = await roll_once(
                    caller, f"20200101T0000{number:02}Z:ann@boss:7", chance, 8 - number
                )
                worked += nodes
            except LuxiError:
                await trio.sleep(1)
            await caller.settle()  # the next run waits for jobs of earlier ones
            if over:
                break
        nursery.cancel_scope.cancel()
        assert {*worked} == {"one", "two", "three", "four"}
        check_restored(caller)


async def test_set_with_a_new_member_does_not_come_home_without_it(autojump_clock: MockClock) -> None:
    """The member is created after the plan."""
    async with ganeti() as caller:
        cluster = caller.world.cluster
        pair = [replace(instance(name, EXT, "one"), tags=(TOGETHER,)) for name in ("pool-one", "third")]
        others = [row for row in cluster.instances if row.name != "pool-one"]
        caller.master.jobs.change(replace(caller.world, cluster=replace(cluster, instances=(*others, *pair))))
        assert (await caller.squeeze(START)).ending is Ending.DONE
        now = await caller.read()
        proposal = HMAINTAIN.propose(now, END, lambda _text: None)
        check = proposal.review("stop", lambda *_texts: None)
        assert check(now, proposal.jobs, 0).obstacle is None
        new = replace(instance("new", EXT, places(now)["third"][0]), tags=(TOGETHER,))
        why = check(replace(now, instances=(*now.instances, new)), proposal.jobs, 0).obstacle
        assert why == "instance pool-one: it stays together with others (htools:together:set)"
