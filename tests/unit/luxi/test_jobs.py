"""No job is submitted twice and none is lost, whatever happens to the connection."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.luxi import jobs
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import GivenUpError, Patience
from ganeti_htools.luxi.opcodes import Signature
from tests.support.simulated import Simulated, simulated
from tests.support.worlds import delay, migrate, opcode, world

PATIENCE = Patience(answer=30, away=300, late=10)
SIGNATURE = Signature("test", "a test", "testing", "beef")


def signed(*work: dict[str, Any]) -> list[list[Any]]:
    return [list(SIGNATURE.sign([each], f"1/{place}", 1)) for place, each in enumerate(work, 1)]


class Line:
    """Hears of a connection that is lost and found, and mends what is wrong with it."""

    def __init__(self, master: Simulated) -> None:
        self.master = master
        self.told: list[str | None] = []

    async def away(self, reason: str | None) -> None:
        self.told.append(reason)
        self.master.trouble.seconds = 0.0


async def submit(master: Simulated, client: LuxiClient, unsure: bool = False) -> tuple[Line, list[int | str]]:
    line = Line(master)
    work = signed(migrate("mirrored"), delay(5))
    return line, await jobs.submit(client, work, PATIENCE, line.away, unsure)


async def test_jobs_are_submitted(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        line, numbers = await submit(master, client)
        assert numbers == [1, 2]
        assert not line.told


@pytest.mark.parametrize("trouble", ["cuts", "drops", "seconds"])
async def test_jobs_are_submitted_once_when_answers_are_lost(autojump_clock: MockClock, trouble: str) -> None:
    """The answer is lost, the request is lost, or the answer comes too late."""
    async with simulated(world()) as (master, client):
        setattr(master.trouble, trouble, 1000 if trouble == "seconds" else 1)
        line, numbers = await submit(master, client)
        assert numbers == [1, 2]
        assert len(master.states()) == 2
        assert line.told[0] is not None
        assert line.told[-1] is None


async def test_jobs_that_appear_late_are_found(autojump_clock: MockClock) -> None:
    """A request on a connection that is gone may still be at work."""
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        master.trouble.drops = 1

        async def arrive() -> None:
            await trio.sleep(PATIENCE.late / 2)
            master.jobs.submit(signed(migrate("mirrored"), delay(5)))

        nursery.start_soon(arrive)
        _, numbers = await submit(master, client)
        assert numbers == [1, 2]
        assert len(master.states()) == 2


async def test_only_missing_jobs_are_submitted_again(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.submit([[delay(1)], signed(migrate("mirrored"))[0]])
        _, numbers = await submit(master, client, unsure=True)
        assert numbers == [2, 3]


async def test_jobs_are_submitted_when_ganeti_returns(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        await master.go()

        async def come_back() -> None:
            await trio.sleep(100)
            master.there = True

        nursery.start_soon(come_back)
        line, numbers = await submit(master, client)
        assert numbers == [1, 2]
        assert "Ganeti cannot be reached" in str(line.told[0])
        assert line.told[-1] is None


async def test_submission_gives_up_when_patience_ends(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        await master.go()
        began = trio.current_time()
        with pytest.raises(GivenUpError, match="given up after 300 s"):
            await submit(master, client)
        assert 300 <= trio.current_time() - began < 400


async def test_rejected_jobs_have_their_reason(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.drained = True
        _, numbers = await submit(master, client)
        assert [str(each) for each in numbers] == ["SubmitManyJobs: GenericError: Queue drained"] * 2
        assert not master.states()


class Heard:
    """What is told of jobs."""

    def __init__(self) -> None:
        self.states: list[tuple[int, str | None]] = []
        self.said: list[tuple[int, str]] = []

    async def news(self, number: int, told: JobStatus | str | None) -> None:
        if isinstance(told, str):
            self.said.append((number, told))
        else:
            self.states.append((number, told and told.value))


async def test_jobs_are_followed_to_their_end(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        numbers = master.jobs.submit([[delay(100)], [delay(30), delay(10)]])
        heard, line = Heard(), Line(master)
        began = trio.current_time()
        await jobs.follow(client, numbers, PATIENCE, line.away, heard.news)
        assert trio.current_time() - began == pytest.approx(100, abs=1)
        assert heard.states[-1] == (1, "success")
        assert (2, "success") in heard.states
        assert [entry for entry in heard.said if entry[0] == 1] == [(1, "TEST_DELAY(100)")]
        assert not line.told


async def test_queue_is_polled_at_growing_intervals(autojump_clock: MockClock) -> None:
    requests = 0

    async with simulated(world()) as (master, _):
        numbers = master.jobs.submit([[delay(3600)]])

        class Counting(LuxiClient):
            async def call(self, *args: Any, **more: Any) -> Any:
                nonlocal requests
                requests += 1
                return await super().call(*args, **more)

        async with Counting("/socket", master.connect) as asking:
            await jobs.follow(asking, numbers, PATIENCE, Line(master).away, Heard().news)
    assert requests < 3600 / 15 * 2 + 20


async def test_jobs_are_followed_after_a_lost_connection(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        numbers = master.jobs.submit([[delay(100)]])
        heard, line = Heard(), Line(master)

        async def restart() -> None:
            await trio.sleep(10)
            await master.go()
            await trio.sleep(60)
            master.there = True

        nursery.start_soon(restart)
        await jobs.follow(client, numbers, PATIENCE, line.away, heard.news)
        assert heard.states[-1] == (1, "success")
        assert line.told[0] is not None
        assert line.told[-1] is None


async def test_following_gives_up_when_patience_ends(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        numbers = master.jobs.submit([[delay(1000)]])
        nursery.start_soon(master.go)
        with pytest.raises(GivenUpError, match=r"/socket: .*; given up after 300 s"):
            await jobs.follow(client, numbers, PATIENCE, Line(master).away, Heard().news)


async def test_vanished_job_has_ended(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        numbers = master.jobs.submit([[delay(100)]])
        heard = Heard()

        async def forget() -> None:
            await trio.sleep(10)
            master.jobs.all()[0].archived = True

        nursery.start_soon(forget)
        await jobs.follow(client, numbers, PATIENCE, Line(master).away, heard.news)
        assert heard.states[-1] == (1, None)


async def test_failures_name_opcode_and_error(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        numbers = master.jobs.submit(
            [
                [delay(1), migrate("nobody"), delay(1)],
                [delay(1000), opcode("TAGS_SET", kind="cluster", tags=["a"])],
                [{**delay(1), "depends": [[77, []]]}],
            ]
        )
        await trio.sleep(10)
        assert master.jobs.cancel(2) == (False, "Job no longer waiting, can't cancel (informed it anyway)")
        found = await jobs.failures(client, [numbers[0], numbers[2]], PATIENCE, Line(master).away)
        assert found == {
            1: "INSTANCE_MIGRATE(nobody): OpPrereqError: Instance 'nobody' not known (unknown_entity)",
            3: "TEST_DELAY(1): OpExecError: Dependency error: Job 77 not found",
        }


ODD = [
    [[1]],
    [1],
    None,
    [7],
    [],
    {},
    "odd",
    [[True]],
    [["odd", []]],
    [[], [[1]]],
    [["queued"], [["odd"]]],
    [[[], {}]],
]


@pytest.mark.parametrize("odd", ODD)
async def test_answer_of_another_shape_is_repeated(autojump_clock: MockClock, odd: Any) -> None:
    async with simulated(world()) as (master, client):
        for method in ("SubmitManyJobs", "QueryJobs", "WaitForJobChange"):
            master.trouble.odd[method] = [odd]
        line, numbers = await submit(master, client)
        assert numbers == [1, 2]
        assert len(master.states()) == 2
        assert "SubmitManyJobs: the answer has an unexpected shape" in str(line.told[0])
        assert line.told[-1] is None
        master.trouble.odd["QueryJobs"] = [odd]
        heard = Heard()
        await jobs.follow(client, [1, 2], PATIENCE, line.away, heard.news)
        assert {(1, "success"), (2, "success")} <= set(heard.states)
        master.trouble.odd["QueryJobs"] = [odd]
        assert await jobs.failures(client, [2], PATIENCE, line.away) == {2: "Ganeti does not say why"}
        assert line.told[-1] is None
        assert not any(master.trouble.odd.values())


async def test_patience_with_answers_of_another_shape_ends(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.submit([[delay(1)]])
        master.trouble.odd["QueryJobs"] = [None] * 1000
        with pytest.raises(GivenUpError, match=r"QueryJobs: .*; given up after 300 s"):
            await jobs.follow(client, [1], PATIENCE, Line(master).away, Heard().news)


async def test_answer_without_news_is_followed_by_a_pause(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.submit([[delay(100)]])
        master.trouble.odd["WaitForJobChange"] = [[["running"], []]] * 1000
        await jobs.follow(client, [1], PATIENCE, Line(master).away, Heard().news)
        assert len(master.trouble.odd["WaitForJobChange"]) > 800
