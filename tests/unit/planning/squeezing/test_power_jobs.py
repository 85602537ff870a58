"""Nodes powered down and up on the simulated Ganeti, step by step, also when a step fails."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest
from trio.testing import MockClock

from ganeti_htools.execution.events import Away, Event, Submitting
from ganeti_htools.execution.run import Ending
from ganeti_htools.execution.wording import summary
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.plan import OnChange
from ganeti_htools.planning.squeezing import power_jobs
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.simulator.world import with_role
from tests.support.simulated import simulated
from tests.support.squeezing import OUTGROWN, TIGHT, Caller, asleep, outgrown, titles, world
from tests.support.worlds import instance

MORE_THAN_THERE_IS = SqueezeOptions(minimal_resources=1000.0, target_resources=1000.0)
AUTO = "htools:standby:auto"


async def test_nodes_go_down_and_come_up_again(autojump_clock: MockClock) -> None:
    """In the order that Ganeti wants, each step once the one before has ended."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        run = await caller.squeeze()
        assert run.ending is Ending.DONE
        assert titles(run) == [
            *("drain two", "drain three"),
            *("tag two", "tag three"),
            *("mark two offline", "mark three offline"),
            "power off two, three",
            *("untag two", "untag three"),
        ]
        assert caller.world.offline == caller.world.silent == {"two", "three"}
        assert caller.hosts() == {"boss", "one"}
        assert caller.tags("two") == caller.tags("three") == (AUTO,)
        assert summary(run)[1:] == [f"  node {name} is offline and powered off" for name in ("two", "three")]

        again = await caller.squeeze()
        assert (again.ending, again.tasks) == (Ending.DONE, [])

        run = await caller.squeeze(TIGHT)
        assert titles(run) == [
            "power on two",
            "mark two online",
            "untag two",
        ]
        assert (run.ending, run.moved) == (Ending.DONE, 2)
        assert caller.world.offline == caller.world.silent == {"three"}
        assert caller.tags("two") == ()


async def test_replacement_comes_up_before_the_replaced_node_goes_down(autojump_clock: MockClock) -> None:
    """What a node that is powered up replaces goes down in the same run, and then nothing is left to do."""
    async with simulated(asleep(outgrown(), "large")) as (master, client):
        caller = Caller(master, client, before=outgrown())
        run = await caller.squeeze(OUTGROWN)
        assert (run.ending, run.changes) == (Ending.DONE, [])
        assert titles(run) == [
            *("power on large", "mark large online", "untag large"),
            *("drain small", "tag small", "mark small offline", "power off small", "untag small"),
        ]
        assert run.moved
        assert caller.world.offline == caller.world.silent == {"small"}
        assert caller.hosts() == {"boss", "large"}
        assert (caller.tags("small"), caller.tags("large")) == ((AUTO,), ())
        assert not (await caller.squeeze(OUTGROWN)).tasks


@pytest.mark.parametrize("title", ["mark large online", "drain small", "mark small offline"])
async def test_next_run_powers_down_the_remaining_node(autojump_clock: MockClock, title: str) -> None:
    """Whatever fails; nothing is done twice but what has failed."""
    failing = f"NODE_SET_PARAMS.{title.split()[-2] if title.startswith('mark') else 'small'}"
    async with simulated(asleep(outgrown(), "large")) as (master, client):
        caller = Caller(master, client, before=outgrown())
        caller.react = until_submitting(title, lambda: master.jobs.behaviour.fail(failing, 1))
        assert (await caller.squeeze(OUTGROWN)).ending is Ending.FAILED
        caller.react = lambda _event: None
        assert (await caller.squeeze(OUTGROWN)).ending is Ending.DONE
        assert caller.world.offline == caller.world.silent == {"small"}
        assert not caller.world.drained
        assert caller.hosts() == {"boss", "large"}
        assert not (await caller.squeeze(OUTGROWN)).tasks


async def test_smaller_node_replaces_none(autojump_clock: MockClock) -> None:
    """Its figures are seen once it is there, and the rest of the plan is made anew."""
    start = asleep(outgrown(), "large")
    large = replace(start.cluster.nodes[-1], t_mem=9000.0, f_mem=9000)
    async with simulated(start.with_nodes([large])) as (master, client):
        caller = Caller(master, client, before=outgrown())
        run = await caller.squeeze(OUTGROWN)
        assert run.ending is Ending.DONE
        assert run.changes
        assert caller.world.offline == frozenset()


async def test_standby_tag_of_others_stays(autojump_clock: MockClock) -> None:
    tags = ("htools:standby:x",)
    start = world().with_nodes(replace(row, tags=tags) for row in world().cluster.nodes[2:])
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        assert "tag two" not in titles(await caller.squeeze())
        assert caller.world.offline == {"two", "three"}
        assert caller.tags("two") == caller.tags("three") == tags
        assert (await caller.squeeze(TIGHT)).ending is Ending.DONE
        assert caller.world.offline == {"three"}
        assert caller.tags("two") == tags


def until_submitting(title: str, deed: Callable[[], None]) -> Callable[[Event], None]:
    """Do something when jobs are about to be submitted of which this is the first."""

    def react(event: Event) -> None:
        if isinstance(event, Submitting) and event.tasks[0].job.title == title:
            deed()

    return react


@pytest.mark.parametrize(
    ("step", "failing"),
    [
        ("drain two", "TAGS_SET"),
        ("drain two", "NODE_SET_PARAMS.three"),
        ("drain two", "INSTANCE_MIGRATE"),
        ("tag two", "TAGS_SET"),
        ("mark two offline", "NODE_SET_PARAMS"),
    ],
)
async def test_stopped_run_undrains_its_nodes(autojump_clock: MockClock, step: str, failing: str) -> None:
    """And another run, once nothing fails any more, completes it."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.react = until_submitting(step, lambda: master.jobs.behaviour.fail(failing, 1))
        run = await caller.squeeze()
        assert run.ending is Ending.FAILED
        assert "failed as ordered" in run.reason
        assert not caller.world.drained
        told = dict(line.split(" is ") for line in summary(run) if line.startswith("  node "))
        assert set(told) == {"  node two", "  node three"}
        assert {"online, not drained", "online, not drained any more"} & set(told.values())
        caller.react = lambda _event: None
        assert (await caller.squeeze()).ending is Ending.DONE
        assert caller.world.offline == caller.world.silent == {"two", "three"}
        assert caller.tags("two") == caller.tags("three") == (AUTO,)


async def test_stopped_run_leaves_offline_nodes_offline(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)

        def fail_offline(event: Event) -> None:
            if isinstance(event, Submitting) and event.tasks[0].job.title == "mark two offline":
                master.jobs.behaviour.fail("NODE_SET_PARAMS.three", 1)

        caller.react = fail_offline
        run = await caller.squeeze()
        assert run.ending is Ending.FAILED
        assert caller.world.offline == {"two"}
        assert not caller.world.drained
        told = ["  node two is offline, not powered off", "  node three is online, not drained any more"]
        assert summary(run)[-2:] == told


async def test_failed_power_off_is_reported(autojump_clock: MockClock) -> None:
    """Ganeti says that the job has succeeded."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.power("stuck", "three")
        run = await caller.squeeze()
        assert run.ending is Ending.FAILED
        assert run.reason.endswith(
            "(power off two, three): the out-of-band program failed for three;"
            " Out-of-band RPC failed on node 'three': program failed as ordered"
        )
        assert caller.world.silent == {"two"}
        assert summary(run)[-2:] == [
            "  node two is offline and powered off",
            "  node three is offline, not powered off",
        ]


async def test_failed_power_on_ends_the_run(autojump_clock: MockClock) -> None:
    """Those of one node or of both; where each then stands is told."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        await caller.squeeze()
        for stuck, told in {
            ("two", "three"): ["offline, not powered on", "offline, not powered on"],
            ("three",): ["powered on, still offline", "offline, not powered on"],
        }.items():
            caller.power("stuck", *stuck)
            run = await caller.squeeze(MORE_THAN_THERE_IS)
            assert run.ending is Ending.FAILED
            assert caller.world.offline == {"two", "three"}
            assert summary(run)[-2:] == [f"  node two is {told[0]}", f"  node three is {told[1]}"]


async def test_nodes_without_programs_keep_their_power(autojump_clock: MockClock) -> None:
    """It is known beforehand, and said once; all else is done, down and up."""
    async with simulated(replace(world(), unpowered=frozenset({"two", "three"}))) as (master, client):
        caller = Caller(master, client)
        run = await caller.squeeze()
        assert run.ending is Ending.DONE
        assert caller.world.offline == {"two", "three"}
        assert caller.said == ["No out-of-band program for two, three: the power is left as it is"]
        assert summary(run)[1:] == ["  node two is offline", "  node three is offline"]
        again = await caller.squeeze(TIGHT)
        assert again.ending is Ending.DONE
        assert caller.world.offline == {"three"}
        assert caller.tags("two") == ()
        assert caller.said[1:] == ["No out-of-band program for two: the power is left as it is"]
        assert not any("power" in title for title in titles(run) + titles(again))
        assert not caller.world.silent


async def test_missing_program_leaves_the_power_as_it_is(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)

        def remove(event: Event) -> None:
            if isinstance(event, Submitting) and event.tasks[0].job.title == "mark two offline":
                caller.power("unpowered", "two", "three")

        caller.react = remove
        run = await caller.squeeze()
        assert run.ending is Ending.DONE
        note = "no out-of-band program for three, two: the power is left as it is"
        assert [task.note for task in run.tasks if task.note] == [note]


@pytest.mark.parametrize("comes", [True, False])
async def test_slow_node_is_awaited(autojump_clock: MockClock, comes: bool) -> None:
    """Its node daemon is waited for, and said to be; before it answers nothing is submitted."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        await caller.squeeze()
        master.jobs.behaviour.boot_seconds = inf
        reasons = []

        def listen(event: Event) -> None:
            if isinstance(event, Away):
                reasons.append(event.reason)
                if comes:
                    caller.power("silent", "three")

        caller.react = listen
        run = await caller.squeeze(TIGHT)
        silence = "the node daemon does not answer on two"
        assert titles(run).count("mark two online") == comes
        if comes:
            assert reasons == [f"Waiting: {silence}", None]
            assert (run.ending, run.moved) == (Ending.DONE, 2)
            assert caller.tags("two") == ()
        else:
            assert (run.ending, run.reason) == (Ending.FAILED, f"{silence}; given up after 300 s")
            assert "  node two is powered on, still offline" in summary(run)
            assert AUTO in caller.tags("two")


async def test_wait_for_a_node_can_be_stopped(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        await caller.squeeze()
        master.jobs.behaviour.boot_seconds = inf
        caller.react = lambda event: caller.stop.set() if isinstance(event, Away) else None
        assert (await caller.squeeze(TIGHT)).ending is Ending.STOPPED


@pytest.mark.parametrize("comes", [True, False])
async def test_marking_online_is_retried_until_ganeti_reaches_the_node(
    autojump_clock: MockClock, comes: bool
) -> None:
    """Its daemon takes connections, but Ganeti refuses to mark it online; it is asked again."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        await caller.squeeze()
        master.jobs.change(replace(caller.world, addresses={}))
        master.jobs.behaviour.boot_seconds = inf
        tries = 0

        def boot() -> None:
            nonlocal tries
            tries += 1
            if comes and tries == 5:
                caller.power("silent", "three")

        caller.react = until_submitting("mark two online", boot)
        run = await caller.squeeze(TIGHT)
        if comes:
            assert (run.ending, run.moved, tries) == (Ending.DONE, 2, 5)
        else:
            assert (run.ending, tries) == (Ending.FAILED, 40)
            assert "fails to report its version" in run.reason
            assert AUTO in caller.tags("two")


async def test_a_node_that_is_offline_again_is_not_powered_on_twice(autojump_clock: MockClock) -> None:
    start = world().with_nodes(replace(row, tags=("htools:standby:x",)) for row in world().cluster.nodes[2:])
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        await caller.squeeze()

        def mark() -> None:
            master.jobs.change(with_role(caller.world, "two", offline=True, drained=False))

        caller.react = until_submitting("untag two", mark)
        run = await caller.squeeze(TIGHT)
        assert run.ending is Ending.CHANGED
        assert run.reason == "powered up, but still offline or drained: two"


@pytest.mark.parametrize("wish", ["replan", "stop"])
async def test_new_plan_undrains_nodes_of_the_old_one(autojump_clock: MockClock, wish: OnChange) -> None:
    """An instance that nobody may move comes to a node that is to be emptied; nor could it be lost."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)

        def use(event: Event) -> None:
            if isinstance(event, Submitting) and event.tasks[0].job.title == "tag two":
                cluster = caller.world.cluster
                rows = (*cluster.instances, instance("new", DiskTemplate.PLAIN, "two"))
                master.jobs.change(replace(caller.world, cluster=replace(cluster, instances=rows)))

        caller.react = use
        run = await caller.squeeze(on_change=wish)
        assert run.ending is (Ending.DONE if wish == "replan" else Ending.CHANGED)
        assert not caller.world.drained
        assert not caller.world.offline
        assert titles(run)[-2:] == ["undrain two", "undrain three"]


@pytest.mark.parametrize("regular", ["one", "two"])
async def test_other_nodes_are_promoted_if_candidates_are_too_few(
    autojump_clock: MockClock, regular: str
) -> None:
    """Of the nodes that go, or stay, one is none."""
    async with simulated(replace(world(), regular=frozenset({regular}), candidate_pool=2)) as (
        master,
        client,
    ):
        run = await Caller(master, client).squeeze()
        assert run.ending is Ending.DONE
        assert master.jobs.world.offline == {"two", "three"}
        assert master.jobs.world.missing_candidates("two") == 0
        drains = [task for task in run.tasks if task.job.title.startswith("drain")]
        promoting = {task.job.title: task.job.opcodes[-1]["auto_promote"] for task in drains}
        refused = {task.job.title for task in drains if task.error}
        assert refused == {title for title, promotes in promoting.items() if promotes}
        assert bool(refused) is (regular == "one")


def test_drain_promotes_only_after_ganetis_error() -> None:
    job = power_jobs.drain("one")
    assert job.retry is not None
    assert job.retry("OpPrereqError: something else") is None
    other = job.retry("OpPrereqError: Not enough master candidates, please pass auto promote option")
    assert other is not None
    assert (job.opcodes[-1]["auto_promote"], other.opcodes[-1]["auto_promote"]) == (False, True)
    assert other.retry is not None
    assert other.retry("OpPrereqError: Not enough master candidates") is None
    assert other.undo == job.undo


@pytest.mark.parametrize("results", [None, [], [[]], [[1]], "x", [None], [[[0, "one"]]]])
def test_results_of_another_shape_are_an_error(results: object) -> None:
    verdict = power_jobs.judge_power(results)
    assert verdict.error is not None or results == [[]]
