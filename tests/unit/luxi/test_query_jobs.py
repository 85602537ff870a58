"""Questions that Ganeti answers by jobs: none is left in the queue."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.luxi import job_queries, opcodes
from ganeti_htools.luxi.client import LuxiError
from ganeti_htools.luxi.query_jobs import results_of
from tests.support.simulated import Simulated, simulated
from tests.support.worlds import role, world

UNITS = opcodes.query_storage("lvm-vg", ["one", "two"])
DISKS = opcodes.query_disks(["stuck"])


async def keep(master: Simulated, client: Any, seconds: float) -> None:
    """Have a job hold the locks of a node."""
    master.jobs.behaviour.seconds = seconds
    await job_queries.submit(client, [[role("one", drained=True)]])


async def test_returns_results_of_all_opcodes(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        groups, disks = await results_of(client, [UNITS, DISKS], "units", 60)
        assert groups == [["one", "xenvg", 9000, 8000], ["two", "xenvg", 9000, 8500]]
        assert list(disks) == ["stuck"]
        [job] = master.jobs.unarchived()
        assert [op.opcode["priority"] for op in job.ops] == [10, 10]
        assert job.ops[0].opcode["comment"].startswith("asks for units, run ")


async def test_job_waiting_for_locks_is_awaited(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        await keep(master, client, 50)
        assert await results_of(client, [UNITS], "units", 120)
        assert master.states() == ["success", "success"]


async def test_job_that_waits_too_long_is_cancelled(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        await keep(master, client, 500)
        with pytest.raises(LuxiError, match="job 2, which asks for units, has not ended within 60 s"):
            await results_of(client, [UNITS], "units", 60)
        assert master.states() == ["running", "canceled"]


async def test_job_is_cancelled_with_its_caller(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        await keep(master, client, 500)
        with trio.move_on_after(5):
            await results_of(client, [UNITS], "units", 60)
        assert master.states() == ["running", "canceled"]


async def test_failed_job_has_its_reason(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (_, client):
        for work, text in (
            (opcodes.query_disks(["nobody"]), "INSTANCE_QUERY_DATA: .*Instance 'nobody' not known"),
            (opcodes.query_storage("lvm-vg", ["nobody"]), "NODE_QUERY_STORAGE: .*Node 'nobody' not known"),
        ):
            with pytest.raises(LuxiError, match=f"^job ., which asks for units: {text}"):
                await results_of(client, [UNITS, work], "units", 60)


async def test_closed_queue_is_reported(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.drained = True
        with pytest.raises(LuxiError, match="Queue drained"):
            await results_of(client, [UNITS], "units", 60)
