"""Clients find the socket, whatever becomes of its name."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from htoolsd.socket.door import Door
from htoolsd.socket.listening import Listener, listen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "socket"


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


async def test_a_name_that_is_removed_comes_back(path: Path, autojump_clock: MockClock) -> None:
    with logged() as log:
        async with trio.open_nursery() as nursery:
            door = Door(listen(str(path), ""), "")
            nursery.start_soon(door.serve, greet, nursery)
            assert await greeting(path) == b"hello"
            path.unlink()
            await trio.sleep(2)
            assert await greeting(path) == b"hello"
            path.unlink()
            (path.parent / "socket.lock").unlink()
            path.parent.rmdir()
            await trio.sleep(2)
            assert await greeting(path) == b"hello"
            door.close()
            await trio.sleep(2)
            assert not path.exists()
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in log] == ["socket was gone, made anew"] * 2


async def test_a_name_that_is_anothers_is_left_to_him(path: Path, autojump_clock: MockClock) -> None:
    with logged() as log, socket.socket(socket.AF_UNIX) as other:
        async with trio.open_nursery() as nursery:
            door = Door(listen(str(path), ""), "")
            nursery.start_soon(door.serve, greet, nursery)
            await trio.sleep(0.5)
            path.unlink()
            other.bind(str(path))
            other.listen()
            await trio.sleep(10)
            path.unlink()
            await trio.sleep(2)
            assert await greeting(path) == b"hello"
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in log] == ["socket is gone", "socket was gone, made anew"]
    assert log[0]["error"] == f"already running: somebody listens on {path}"


async def test_a_name_that_cannot_be_removed_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_listener: Listener) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(Listener, "remove", refuse)
    with logged() as log:
        async with trio.open_nursery() as nursery:
            door = Door(listen(str(path), ""), "")
            nursery.start_soon(door.serve, greet, nursery)
            await greeting(path)
            door.close()
            door.close()
            nursery.cancel_scope.cancel()
    (line,) = log
    assert (line["event"], line["error"]) == ("socket cannot be removed", "Operation not permitted")
