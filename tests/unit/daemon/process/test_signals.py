"""Signals that the daemon heeds."""

import signal

import pytest
import trio

from htoolsd.process.signals import heed

pytestmark = pytest.mark.usefixtures("heeding")


async def heard(*numbers: signal.Signals) -> list[str]:
    """What is called for each of these signals."""
    send, receive = trio.open_memory_channel[str](len(numbers))
    async with trio.open_nursery() as nursery:
        await nursery.start(heed, lambda: send.send_nowait("stop"), lambda: send.send_nowait("reload"))
        calls = []
        for number in numbers:
            signal.raise_signal(number)
            calls.append(await receive.receive())
        nursery.cancel_scope.cancel()
    return calls


async def test_each_signal_has_its_meaning_every_time() -> None:
    hangup, end, interrupt = signal.SIGHUP, signal.SIGTERM, signal.SIGINT
    assert await heard(hangup, end, hangup, interrupt, end) == ["reload", "stop", "reload", "stop", "stop"]


async def test_an_interrupt_that_was_ignored_from_the_start_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        send, receive = trio.open_memory_channel[str](2)
        async with trio.open_nursery() as nursery:
            await nursery.start(heed, lambda: send.send_nowait("stop"), lambda: send.send_nowait("reload"))
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGHUP)
            assert await receive.receive() == "reload"
            nursery.cancel_scope.cancel()
    finally:
        signal.signal(signal.SIGINT, before)


async def test_afterwards_signals_mean_what_they_did() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    await heard(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == before
