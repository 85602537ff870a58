"""Signs of life."""

from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from htoolsd.api.decisions import Decisions
from htoolsd.process import watching
from htoolsd.process.watching import SHOW_SECONDS, show, watch
from htoolsd.socket.door import Door


class Recorder:
    """Stands for a door, and for decisions; notes the times of calls."""

    def __init__(self, healthy: bool = True) -> None:
        self.healthy = healthy
        self.times: list[float] = []

    def note(self) -> None:
        self.times.append(trio.current_time())

    show = give_up_late = note


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(watching, "notify", lines.append)
    return lines


async def until(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    with trio.move_on_after(seconds):
        await work()


async def test_the_socket_shows_that_the_daemon_lives(autojump_clock: MockClock) -> None:
    door = Recorder()
    await until(2 * SHOW_SECONDS + 1, lambda: show(cast(Door, door)))
    assert door.times == [0, SHOW_SECONDS, 2 * SHOW_SECONDS]


@pytest.mark.parametrize(("healthy", "expected"), [(True, ["WATCHDOG=1"] * 3), (False, [])])
async def test_the_watchdog_is_fed_while_decisions_end(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    told: list[str],
    healthy: bool,
    expected: list[str],
) -> None:
    monkeypatch.setattr(watching, "watchdog", lambda: 3.0)
    decisions = Recorder(healthy)
    await until(2.5, lambda: watch(cast(Decisions, decisions)))
    assert told == expected
    assert decisions.times == [0, 1, 2]


async def test_without_a_watchdog_nobody_is_told(autojump_clock: MockClock, told: list[str]) -> None:
    decisions = Recorder()
    await until(2.5, lambda: watch(cast(Decisions, decisions)))
    assert told == []
    assert len(decisions.times) == 3
