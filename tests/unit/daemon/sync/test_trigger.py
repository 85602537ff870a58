from math import inf

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from htoolsd.sync.trigger import Trigger


async def work(trigger: Trigger, begun: list[float], seconds: float = 0.0, period: float = inf) -> None:
    while True:
        await trigger.begin()
        begun.append(trio.current_time())
        trigger.by(trio.current_time() + period)
        await trio.sleep(seconds)
        trigger.end()


async def test_work_begins_at_the_earliest_requested_time(
    autojump_clock: MockClock,
) -> None:
    trigger, begun = Trigger(), list[float]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, trigger, begun, 0.0, 100.0)
        await trio.sleep(10)
        trigger.by(50)
        trigger.by(70)
        await trio.sleep(10)
        trigger.by(30)
        await trio.sleep(200)
        assert begun == [0, 30, 130]
        nursery.cancel_scope.cancel()


async def test_rerun_waits_for_work_that_begins_later(autojump_clock: MockClock) -> None:
    trigger, begun, waited = Trigger(), list[float](), list[float]()

    async def wait() -> None:
        await trigger.rerun()
        waited.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, trigger, begun, 10.0)
        await trio.sleep(4)
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.sleep(3)
        nursery.start_soon(wait)
        await trio.sleep(100)
        assert (begun, waited) == ([0, 10], [20, 20, 20, 20])
        nursery.cancel_scope.cancel()


async def test_give_up_releases_waiting_tasks(autojump_clock: MockClock) -> None:
    trigger, begun = Trigger(), list[float]()
    await trigger.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trigger.rerun)
        await wait_all_tasks_blocked()
        trigger.give_up()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, trigger, begun)
        await trio.sleep(1)
        await trigger.rerun()
        assert begun == [0, 1]
        nursery.cancel_scope.cancel()
