"""Errors leave nurseries as themselves."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.nursery import open_nursery

Task = Callable[[], Awaitable[None]]


def failing(error: BaseException) -> Task:
    async def fail() -> None:
        raise error

    return fail


async def run(body: Task, *tasks: Task) -> None:
    async with open_nursery() as nursery:
        for task in (trio.sleep_forever, *tasks):
            nursery.start_soon(task)
        await body()


async def test_error_of_body_leaves_as_itself() -> None:
    error = KeyError("a")
    with pytest.raises(KeyError) as raised:
        await run(failing(error))
    assert raised.value is error
    assert error.__context__ is None


async def test_error_of_nested_tasks_leaves_as_itself() -> None:
    cause, error = OSError(), ValueError("b")
    error.__cause__ = cause

    async def nest() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            inner.start_soon(failing(error))

    with pytest.raises(ValueError, match="b") as raised:
        await run(trio.sleep_forever, nest)
    assert raised.value is error
    assert error.__cause__ is cause


async def test_one_of_several_errors_leaves() -> None:
    with pytest.raises(LookupError):
        await run(trio.sleep_forever, failing(KeyError()), failing(IndexError()))


async def test_error_leaves_during_cancellation(autojump_clock: MockClock) -> None:
    """Tasks beside it are cancelled by the caller's scope at that moment."""

    async def clean_up() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError

    with pytest.raises(KeyError), trio.move_on_after(1):
        await run(trio.sleep_forever, clean_up)


async def test_cancellation_is_the_callers(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1) as scope:
        await run(trio.sleep_forever, trio.sleep_forever)
    assert scope.cancelled_caught
