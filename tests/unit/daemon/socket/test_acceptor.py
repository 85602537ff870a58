"""The acceptor of clients, whatever happens to the socket's name."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from htoolsd.socket.acceptor import TOUCH_SECONDS, Acceptor
from htoolsd.socket.listening import ListeningSocket, listen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "socket"


def listening(path: Path) -> tuple[ListeningSocket, Callable[[], ListeningSocket]]:
    """A socket, and what makes the next one with its name."""
    listen_again = partial(listen, str(path), "")
    return listen_again(), listen_again


async def greet(stream: trio.SocketStream) -> None:
    async with stream:
        await stream.send_all(b"hello")


async def greeting(path: Path) -> bytes:
    async with await trio.open_unix_socket(path) as stream:
        return bytes(await stream.receive_some())


@contextmanager
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as log:
        yield log


async def test_creates_a_removed_socket_again(path: Path, autojump_clock: MockClock) -> None:
    with logged() as log:
        async with trio.open_nursery() as nursery:
            acceptor = Acceptor(*listening(path))
            nursery.start_soon(acceptor.serve, greet, nursery)
            assert await greeting(path) == b"hello"
            path.unlink()
            await trio.sleep(TOUCH_SECONDS + 1)
            assert await greeting(path) == b"hello"
            path.unlink()
            (path.parent / "socket.lock").unlink()
            path.parent.rmdir()
            await trio.sleep(TOUCH_SECONDS + 1)
            assert await greeting(path) == b"hello"
            acceptor.close()
            await trio.sleep(TOUCH_SECONDS + 1)
            assert not path.exists()
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in log] == ["socket was gone and has been created again"] * 2


async def test_leaves_the_name_to_another_process(path: Path, autojump_clock: MockClock) -> None:
    with logged() as log, socket.socket(socket.AF_UNIX) as other:
        async with trio.open_nursery() as nursery:
            acceptor = Acceptor(*listening(path))
            nursery.start_soon(acceptor.serve, greet, nursery)
            await trio.sleep(0.5)
            path.unlink()
            other.bind(str(path))
            other.listen()
            await trio.sleep(2 * TOUCH_SECONDS)
            path.unlink()
            await trio.sleep(TOUCH_SECONDS + 1)
            assert await greeting(path) == b"hello"
            nursery.cancel_scope.cancel()
    acceptor.close()
    assert [line["event"] for line in log] == [
        "socket is gone and cannot be created again",
        "socket was gone and has been created again",
    ]
    assert log[0]["error"] == f"already running: another process listens on {path}"


async def test_logs_a_name_that_cannot_be_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_listener: ListeningSocket) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(ListeningSocket, "leave", refuse)
    with logged() as log:
        async with trio.open_nursery() as nursery:
            acceptor = Acceptor(*listening(path))
            nursery.start_soon(acceptor.serve, greet, nursery)
            await greeting(path)
            acceptor.close()
            acceptor.close()
            nursery.cancel_scope.cancel()
    (line,) = log
    assert (line["event"], line["error"]) == ("socket cannot be removed", "Operation not permitted")


async def test_touches_the_socket_as_a_sign_of_life(path: Path, autojump_clock: MockClock) -> None:
    listener = listen(str(path), "")
    acceptor = Acceptor(listener, lambda: listener)
    sign = path.with_suffix(".lock")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.serve, greet, nursery)
        for _ in range(2):
            os.utime(sign, (0, 0))
            await trio.sleep(TOUCH_SECONDS + 1)
            assert sign.stat().st_mtime > 0
        nursery.cancel_scope.cancel()
    acceptor.close()
    listener.socket.close()
