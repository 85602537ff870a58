import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from htoolsd.sync import DEADLINE, LAST_RETRY, RECHECK, Luxi, connect, watch


class Luxid:
    """Is there, or not, as the test wants it."""

    def __init__(self) -> None:
        self.looked: list[float] = []
        self.error: str | None = None
        self.hangs = False

    async def connect(self, path: str) -> None:
        assert path == "/luxi"
        self.looked.append(trio.current_time())
        if self.hangs:
            await trio.sleep_forever()
        if self.error is not None:
            raise OSError(1, self.error)


async def test_what_is_known_follows_what_happens(autojump_clock: MockClock) -> None:
    luxi, luxid = Luxi("/luxi"), Luxid()
    assert (luxi.state, luxi.error) == ("not tried yet", None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, luxi, luxid.connect)
        await trio.testing.wait_all_tasks_blocked()
        assert (luxi.state, luxi.error) == ("reachable", None)
        luxid.error = "Connection refused"
        await trio.sleep(RECHECK)
        await trio.testing.wait_all_tasks_blocked()
        assert (luxi.state, luxi.error) == ("unreachable", "Connection refused")
        lost = luxi.since
        luxid.error = "Permission denied"
        await trio.sleep(LAST_RETRY)
        assert (luxi.state, luxi.error, luxi.since) == ("unreachable", "Permission denied", lost)
        luxid.error, luxid.hangs = None, True
        await trio.sleep(LAST_RETRY + DEADLINE)
        assert (luxi.state, luxi.error) == ("unreachable", "no connection within 5 s")
        luxid.hangs = False
        await trio.sleep(LAST_RETRY + DEADLINE)
        assert (luxi.state, luxi.error) == ("reachable", None)
        assert luxi.since >= lost
        nursery.cancel_scope.cancel()


async def test_a_luxid_that_is_away_is_asked_for_less_and_less_often(autojump_clock: MockClock) -> None:
    luxi, luxid = Luxi("/luxi"), Luxid()
    luxid.error = "No such file or directory"
    with trio.move_on_after(200):
        await watch(luxi, luxid.connect)
    assert luxid.looked == [0, 1, 3, 7, 15, 31, 63, 123, 183]


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "luxi"))
        yield sock


async def test_connecting_to_a_real_socket(listening: socket.socket) -> None:
    path = listening.getsockname()
    with pytest.raises(ConnectionRefusedError):
        await connect(path)
    listening.listen(0)
    await connect(path)
    with pytest.raises(FileNotFoundError):
        await connect(path + "x")


async def test_a_socket_that_takes_nobody_is_not_reachable(listening: socket.socket) -> None:
    listening.listen(0)
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(listening.getsockname())
        with pytest.raises(OSError):  # noqa: PT011  # which one is the kernel's choice
            await connect(listening.getsockname())
