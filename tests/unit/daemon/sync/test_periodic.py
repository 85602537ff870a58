from math import inf

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from htoolsd.sync.periodic import Beat


async def work(beat: Beat, begun: list[float], seconds: float = 0.0, period: float = inf) -> None:
    while True:
        await beat.begin()
        begun.append(trio.current_time())
        beat.by(trio.current_time() + period)
        await trio.sleep(seconds)
        beat.end()


async def test_at_first_at_once_and_then_at_the_earliest_of_the_times_wanted(
    autojump_clock: MockClock,
) -> None:
    beat, begun = Beat(), list[float]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, beat, begun, 0.0, 100.0)
        await trio.sleep(10)
        beat.by(50)
        beat.by(70)
        await trio.sleep(10)
        beat.by(30)
        await trio.sleep(200)
        assert begun == [0, 30, 130]
        nursery.cancel_scope.cancel()


async def test_who_waits_gets_one_that_began_later(autojump_clock: MockClock) -> None:
    beat, begun, waited = Beat(), list[float](), list[float]()

    async def wait() -> None:
        await beat.again()
        waited.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, beat, begun, 10.0)
        await trio.sleep(4)
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.sleep(3)
        nursery.start_soon(wait)
        await trio.sleep(100)
        assert (begun, waited) == ([0, 10], [20, 20, 20, 20])
        nursery.cancel_scope.cancel()


async def test_nobody_waits_for_what_was_given_up(autojump_clock: MockClock) -> None:
    beat, begun = Beat(), list[float]()
    await beat.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat.again)
        await wait_all_tasks_blocked()
        beat.give_up()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, beat, begun)
        await trio.sleep(1)
        await beat.again()
        assert begun == [0, 1]
        nursery.cancel_scope.cancel()
