"""Signals to the daemon, and reloads of the configuration."""

import signal

import pytest
import structlog
import trio

from ganeti_htools.model.errors import DataError
from htoolsd.api.parts import ReloadStatus
from htoolsd.config.config import Config
from htoolsd.process.signals import handle_signals, reloader
from tests.support.settings import settings

pytestmark = pytest.mark.usefixtures("heeding")


async def calls_of(*numbers: signal.Signals) -> list[str]:
    """Return the names of the functions that are called for these signals."""
    send, receive = trio.open_memory_channel[str](len(numbers))
    async with trio.open_nursery() as nursery:
        await nursery.start(
            handle_signals, lambda: send.send_nowait("stop"), lambda: send.send_nowait("reload")
        )
        calls = []
        for number in numbers:
            signal.raise_signal(number)
            calls.append(await receive.receive())
        nursery.cancel_scope.cancel()
    return calls


async def test_handles_each_signal_every_time() -> None:
    hangup, end, interrupt = signal.SIGHUP, signal.SIGTERM, signal.SIGINT
    assert await calls_of(hangup, end, hangup, interrupt, end) == ["reload", "stop", "reload", "stop", "stop"]


async def test_ignores_sigint_if_it_was_ignored_at_the_start() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        send, receive = trio.open_memory_channel[str](2)
        async with trio.open_nursery() as nursery:
            await nursery.start(
                handle_signals, lambda: send.send_nowait("stop"), lambda: send.send_nowait("reload")
            )
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGHUP)
            assert await receive.receive() == "reload"
            nursery.cancel_scope.cancel()
    finally:
        signal.signal(signal.SIGINT, before)


async def test_restores_signal_handlers_at_the_end() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    await calls_of(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == before


def test_uses_each_new_configuration_except_a_wrong_one() -> None:
    files: list[Config | DataError] = [
        Config(stop_seconds=1.0),
        DataError("wrong"),
        Config(stop_seconds=2.0, socket="/elsewhere"),
    ]
    used, known = list[Config](), settings()

    def read() -> Config:
        found = files.pop(0)
        if isinstance(found, DataError):
            raise found
        return found

    status, errors = ReloadStatus(), []
    reload = reloader(known, read, status)
    with structlog.testing.capture_logs() as log:
        for _ in range(3):
            reload()
            used.append(known.now)
            errors.append(status.error)
    assert (errors, status.waiting) == ([None, "wrong", None], ["socket"])
    assert [each.stop_seconds for each in used] == [1.0, 1.0, 2.0]
    assert used[-1].socket == Config().socket
    assert [line["event"] for line in log] == [
        "configuration reloaded",
        "configuration not reloaded",
        "configuration reloaded",
        "changed keys need a restart",
    ]
    assert log[-1]["keys"] == ["socket"]
