"""Rounds of repairs on the simulated Ganeti."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.engine.repair.states import Condition, initial_state
from ganeti_htools.execution.repairs import Repairs
from ganeti_htools.luxi import job_queries, opcodes
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.opcodes import Opcode, Signature
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.simulator.world import World, with_role
from tests.support.simulated import Simulated, simulated
from tests.support.worlds import world

PREFIX = "ganeti:watcher:autorepair:"
WORK = [opcodes.delay(10), opcodes.failover("mirrored")]


def broken(*tags: str) -> World:
    """The world with the primary of the mirrored instance offline."""
    found = with_role(world(), "one", offline=True, drained=False)
    instance = found.instance("mirrored")
    assert instance is not None
    return found.with_instance(replace(instance, tags=tuple(f"{PREFIX}{tag}" for tag in tags)))


SIGNATURE = Signature("harep", "a test", "repairs", "beef")
NOW = 2_000 * 10**9


async def submit(client: LuxiClient, work: Sequence[Opcode]) -> None:
    """Submit a job like a run that is cut off then."""
    await job_queries.submit(client, [SIGNATURE.sign(work, "1", NOW)])


class Round:
    """One round, and what it says."""

    def __init__(self, master: Simulated, client: LuxiClient, dry_run: bool = False) -> None:
        self.master, self.said = master, list[str]()
        self.repairs = Repairs(
            client,
            SIGNATURE,
            lambda: NOW,
            lambda *lines: self.said.extend(lines),
            self._away,
            dry_run,
        )

    async def _away(self, reason: str | None) -> None:
        raise AssertionError(reason)

    def tags(self) -> list[str]:
        instance = self.master.jobs.world.instance("mirrored")
        assert instance is not None
        return [tag.removeprefix(PREFIX) for tag in instance.tags]

    async def follow(self) -> Condition:
        tags = (f"{PREFIX}{tag}" for tag in self.tags())
        return (await self.repairs.follow("mirrored", initial_state("mirrored", tags))).condition

    async def begin(self) -> Condition:
        state = initial_state("mirrored", (f"{PREFIX}{tag}" for tag in self.tags()))
        return (await self.repairs.begin("mirrored", state, RepairType.FAILOVER, WORK)).condition


async def test_a_repair_from_its_job_to_its_outcome(autojump_clock: MockClock) -> None:
    old = "result:fix-storage:old:1:success:1"
    async with simulated(broken(old)) as (master, client):
        assert await Round(master, client).begin() is Condition.PENDING
        (tag,) = Round(master, client).tags()
        assert tag.startswith("pending:failover:")
        assert tag.endswith(":2000:1")
        assert master.states() == ["running", "success", "success"]  # the record did not wait for the repair
        assert await Round(master, client).follow() is Condition.PENDING
        await trio.sleep(20)
        last = Round(master, client)
        assert await last.follow() is Condition.HEALTHY
        (tag,) = last.tags()
        assert tag.startswith("result:failover:")
        assert tag.endswith(":2000:success:1")
        assert last.said[0] == 'Moving mirrored from "Pending repair" to "Healthy"'
        instance = master.jobs.world.instance("mirrored")
        assert instance is not None
        assert instance.pnode == "two"


@pytest.mark.parametrize("jobs", ["1", "1+99", "99"])
async def test_failed_and_unknown_jobs_are_failures(jobs: str, autojump_clock: MockClock) -> None:
    async with simulated(broken(f"pending:failover:id:1:{jobs}")) as (master, client):
        if jobs.startswith("1"):
            await submit(client, [opcodes.reinstall("mirrored")])
            await trio.sleep(5)
            assert master.states() == ["error"]
        assert await Round(master, client).follow() is Condition.FAILED
        assert Round(master, client).tags() == [f"result:failover:id:2000:failure:{jobs}"]
        assert await Round(master, client).follow() is Condition.FAILED


async def test_a_pending_repair_without_jobs_has_ended(autojump_clock: MockClock) -> None:
    async with simulated(broken("pending:failover:id:1:")) as (master, client):
        await submit(client, [opcodes.delay(1000)])
        assert await Round(master, client).follow() is Condition.HEALTHY
        assert Round(master, client).tags() == ["result:failover:id:2000:success:"]


async def test_the_job_of_a_run_that_was_cut_off_is_recorded_and_not_repeated(
    autojump_clock: MockClock,
) -> None:
    async with simulated(broken()) as (master, client):
        await submit(client, WORK)
        assert await Round(master, client).begin() is Condition.PENDING
        (tag,) = Round(master, client).tags()
        assert tag.endswith(":2000:1")
        assert len(master.states()) == 2


async def test_a_dry_run_changes_nothing(autojump_clock: MockClock) -> None:
    async with simulated(broken("pending:failover:id:1:99")) as (master, client):
        for doing in ("follow", "begin"):
            await getattr(Round(master, client, dry_run=True), doing)()
        assert master.states() == []
        assert Round(master, client).tags() == ["pending:failover:id:1:99"]


async def test_refusals_of_records_end_the_round(autojump_clock: MockClock) -> None:
    async with simulated(broken("pending:failover:id:1:")) as (master, client):
        state = initial_state("mirrored", [f"{PREFIX}pending:failover:id:1:"])
        with pytest.raises(HtoolsError, match=r"^The following jobs failed: 1=>error$"):
            await Round(master, client).repairs.follow("gone", state)
        master.jobs.drained = True
        with pytest.raises(HtoolsError, match=r"^Job submission error: .*Queue drained"):
            await Round(master, client).follow()
