"""Nodes powered down and up on the simulated Ganeti, step by step, also when a step fails."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.backends import luxi
from ganeti_htools.execution.events import Event, Submitting
from ganeti_htools.execution.execute import execute
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.wording import summary
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import Client
from ganeti_htools.luxi.jobs import Patience
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning import hsqueeze, power_jobs
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.proposal import OnChange
from ganeti_htools.simulator.world import World, begin
from tests.support.simulated import Simulated, simulated
from tests.support.worlds import instance, node

AUTO = "htools:standby:auto"
LOOSE = Options(minimal_resources=0.0, target_resources=1.0)
TIGHT = Options(minimal_resources=43.0, target_resources=44.0)  # 5504 MiB


def world() -> World:
    """The master and three nodes with instances on external storage, all of which two of them can take."""
    hosts = {"boss": 2, "one": 2, "two": 1, "three": 1}
    nodes = (
        node(
            name,
            t_mem=8096.0,
            f_mem=8000 - 1000 * count,
            t_cpu=32.0,
            t_spindles=8,
            master=name == "boss",
        )
        for name, count in hosts.items()
    )
    rows = (
        instance(f"{name}-{row}", DiskTemplate.EXT, name)
        for name, count in hosts.items()
        for row in range(count)
    )
    return begin(Cluster((Group("default", "uuid"),), tuple(nodes), tuple(rows)))


@dataclass
class Caller:
    """Who has a plan of hsqueeze carried out."""

    master: Simulated
    client: Client
    react: Callable[[Event], None] = lambda _event: None
    said: list[str] = field(default_factory=list)

    async def read(self) -> Cluster:
        return luxi.parse(await queries.whole_cluster(self.client))

    async def tell(self, event: Event) -> None:
        self.react(event)

    async def squeeze(self, options: Options = LOOSE, on_change: OnChange = "replan") -> Run:
        """Plan and carry out."""
        proposal = hsqueeze.propose(await self.read(), options, lambda _text: None)
        run = Run(Signature("test", "a test", "testing", f"beef{len(self.master.states())}"), proposal.jobs)
        check = proposal.review(on_change, lambda *texts: self.said.extend(texts))
        patience = Patience(answer=30, away=300, late=10)
        await execute(run, self.client, self.read, check, self.tell, trio.Event(), lambda: 1, patience)
        return run

    @property
    def world(self) -> World:
        return self.master.jobs.world

    def tags(self, name: str) -> tuple[str, ...]:
        found = self.world.node(name)
        assert found is not None
        return found.tags

    def hosts(self) -> set[str]:
        return {row.pnode for row in self.world.cluster.instances}

    def power(self, how: str, *names: str) -> None:
        self.master.jobs.change(replace(self.world, **{how: frozenset(names)}))  # type: ignore[arg-type]


def titles(run: Run) -> list[str]:
    return [task.job.title for task in run.tasks if task.job.step is None]


async def test_down_and_up(autojump_clock: MockClock) -> None:
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


async def test_a_tag_of_others_stays(autojump_clock: MockClock) -> None:
    tags = ("htools:standby:x",)
    start = world().with_nodes(replace(row, tags=tags) for row in world().cluster.nodes[2:])
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        assert not any("tag" in title for title in titles(await caller.squeeze()))
        assert caller.world.offline == {"two", "three"}
        assert not any("tag" in title for title in titles(await caller.squeeze(TIGHT)))
        assert caller.tags("two") == ("htools:standby:x",)


@pytest.mark.parametrize("failing", ["INSTANCE_MIGRATE", "TAGS_SET", "NODE_SET_PARAMS.three"])
async def test_what_was_not_finished_is_undrained(autojump_clock: MockClock, failing: str) -> None:
    """And another run, once nothing fails any more, completes it."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        master.jobs.behaviour.fail(failing, 1)
        run = await caller.squeeze()
        assert run.ending is Ending.FAILED
        assert "was told to fail" in run.reason
        assert not caller.world.drained
        assert not caller.world.offline
        assert "  node two is online, not drained any more" in summary(run)
        assert (await caller.squeeze()).ending is Ending.DONE
        assert caller.world.offline == caller.world.silent == {"two", "three"}


async def test_what_is_offline_stays_so(autojump_clock: MockClock) -> None:
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


async def test_programs_that_fail(autojump_clock: MockClock) -> None:
    """Ganeti says that the job has succeeded."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.power("stuck", "three")
        run = await caller.squeeze()
        assert run.ending is Ending.FAILED
        assert run.reason.endswith("(power off two, three): the out-of-band program failed for three")
        assert caller.world.silent == {"two"}


async def test_no_programs(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.power("unpowered", "two", "three")
        run = await caller.squeeze()
        assert run.ending is Ending.DONE
        note = "no out-of-band program for three, two: the power is left as it is"
        assert [task.note for task in run.tasks if task.note] == [note]
        assert caller.world.offline == {"two", "three"}
        assert not caller.world.silent


@pytest.mark.parametrize("comes", [True, False])
async def test_a_node_that_takes_its_time(autojump_clock: MockClock, comes: bool) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        await caller.squeeze()
        caller.power("unpowered", "two", "three")  # somebody powers it on
        tries = 0

        def boot(event: Event) -> None:
            nonlocal tries
            if isinstance(event, Submitting) and event.tasks[0].job.title == "mark two online":
                tries += 1
                if tries == 5 and comes:
                    caller.power("silent", "three")

        caller.react = boot
        run = await caller.squeeze(TIGHT)
        if comes:
            assert (run.ending, tries) == (Ending.DONE, 5)
            assert caller.tags("two") == ()
            assert run.moved == 2
        else:
            assert (run.ending, tries) == (Ending.FAILED, 40)
            assert "fails to report its version" in run.reason
            assert caller.tags("two") == (AUTO,)


@pytest.mark.parametrize("wish", ["replan", "stop"])
async def test_another_plan_does_not_leave_nodes_drained(autojump_clock: MockClock, wish: OnChange) -> None:
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


def test_only_where_ganeti_asks_for_it_others_are_promoted() -> None:
    job = power_jobs.drain("one")
    assert job.again is not None
    assert job.again("OpPrereqError: something else") is None
    other = job.again("OpPrereqError: Not enough master candidates, please pass auto promote option")
    assert other is not None
    assert (job.opcodes[0]["auto_promote"], other.opcodes[0]["auto_promote"]) == (False, True)
    assert other.again is None
    assert other.undo == job.undo


@pytest.mark.parametrize("results", [None, [], [[]], [[1]], "x", [None], [[[0, "one"]]]])
def test_results_of_another_shape(results: object) -> None:
    verdict = power_jobs.judged(results)
    assert verdict.error is not None or results == [[]]
