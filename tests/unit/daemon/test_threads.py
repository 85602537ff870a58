import threading
from collections.abc import Callable

import orjson
import pytest
import trio
import trio.testing

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.api.turn import DecisionTurn
from htoolsd.threads import Computations, Pause, Replacements, encoded, run_by_size
from tests.support.settings import settings


async def test_runs_only_much_work_in_a_thread() -> None:
    def here() -> bool:
        return trio.lowlevel.in_trio_run()

    assert await run_by_size(10, here)
    assert not await run_by_size(10**7, here)


@pytest.mark.parametrize("count", [0, 1, 500, 501, 1500])
def test_list_that_is_encoded_in_parts_is_the_same(count: int) -> None:
    objects = [{"name": str(number)} for number in range(count)]
    assert orjson.dumps(encoded(objects)) == orjson.dumps(objects)


async def test_a_replacement_waits_for_one_whose_caller_has_left() -> None:
    file, hung, written = Replacements(), threading.Event(), list[str]()

    def write() -> None:
        hung.wait()
        written.append("older")

    with trio.move_on_after(0.01):
        await file.do(write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.do, written.append, "newer")
        await trio.testing.wait_all_tasks_blocked()
        hung.set()
    assert written == ["older", "newer"]


def pausing_until(done: threading.Event) -> Callable[[Pause], None]:
    def work(pause: Pause) -> None:
        while not done.wait(0.001):
            pause("")

    return work


async def test_nothing_is_computed_while_somebody_decides() -> None:
    turn, begun, done = DecisionTurn(settings(wait_seconds=5.0)), list[bool](), threading.Event()
    computations = Computations(turn)
    async with trio.open_nursery() as nursery, turn.taken():
        nursery.start_soon(computations.run, lambda _pause: begun.append(True))
        await trio.testing.wait_all_tasks_blocked()
        assert not begun
    assert begun

    pauses = list[bool]()

    def work(pause: Pause) -> None:
        while not done.wait(0.001):
            pauses.append(True)
            pause("")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(computations.run, work)
        while not pauses:
            await trio.sleep(0.001)
        async with turn.taken():
            await trio.sleep(0.05)  # the pause that was under way
            number = len(pauses)
            await trio.sleep(0.05)
            assert len(pauses) == number
        done.set()


async def test_waits_behind_decisions_that_wait_for_their_turn() -> None:
    turn, order = DecisionTurn(settings(wait_seconds=5.0)), list[str]()
    computations = Computations(turn)

    async def decide() -> None:
        async with turn.taken():
            order.append("decision")

    async with trio.open_nursery() as nursery, turn.taken():
        nursery.start_soon(computations.run, lambda _pause: order.append("computation"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(decide)
        await trio.testing.wait_all_tasks_blocked()
    assert order == ["decision", "computation"]


async def test_goes_on_when_a_hung_decision_is_given_up() -> None:
    turn, done = DecisionTurn(settings(wait_seconds=5.0)), threading.Event()

    async def hang() -> None:
        with pytest.raises(RefusalError, match="took longer"):
            async with turn.taken():
                await trio.to_thread.run_sync(done.wait, abandon_on_cancel=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert turn.give_up(0.0)
        assert await Computations(turn).run(lambda _pause: 1) == 1
    done.set()


async def test_stop_ends_computations_under_way_and_refuses_others() -> None:
    computations, done = Computations(), threading.Event()
    refusals = list[Refusal]()

    async def compute() -> None:
        with pytest.raises(RefusalError) as refused:
            await computations.run(pausing_until(done))
        refusals.append(refused.value.kind)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compute)
        nursery.start_soon(compute)
        await trio.sleep(0.01)
        computations.stop()
    await compute()
    assert refusals == [Refusal.STOPPING] * 3


async def test_a_computation_that_takes_too_long_is_refused() -> None:
    with pytest.raises(RefusalError, match=r"not computed within 0.01 s; ask again") as refused:
        await Computations(longest=0.01).run(pausing_until(threading.Event()))
    assert refused.value.kind is Refusal.BUSY


async def test_thread_ends_with_its_caller() -> None:
    ended = threading.Event()

    def work(pause: Pause) -> None:
        try:
            pausing_until(threading.Event())(pause)
        finally:
            ended.set()

    with trio.move_on_after(0.01):
        await Computations().run(work)
    assert await trio.to_thread.run_sync(ended.wait, 5)
