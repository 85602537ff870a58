"""A client without a socket."""

import os
import time
from collections import deque
from pathlib import Path
from typing import Any

import orjson
import trio
import trio.testing

from htoolsd.socket.access import Access
from htoolsd.socket.peer import Credentials, PassedFile
from htoolsd.socket.roles import Role, Roles
from tests.support.programs import PATIENCE
from tests.support.settings import settings


def open_access() -> Access:
    """Access with all roles for the users of memory peers."""
    access = Access(settings())
    access.roles = Roles(dict.fromkeys(range(10), Role.ACT))
    return access


class MemoryPeer:
    """The server's side of a connection; ``client`` is the other side."""

    def __init__(self, *, lockstep: bool = False, uid: int = 2) -> None:
        self.credentials = Credentials(pid=1, uid=uid, gid=3)
        self.client: trio.abc.HalfCloseableStream
        self._stream: trio.abc.HalfCloseableStream
        if lockstep:
            self.client, self._stream = trio.testing.lockstep_stream_pair()
        else:
            self.client, self._stream = trio.testing.memory_stream_pair()
        self._gone = trio.Event()
        self._files: deque[list[PassedFile]] = deque()

    async def receive(self) -> tuple[bytes, list[PassedFile]]:
        data = bytes(await self._stream.receive_some())
        return data, self._files.popleft() if self._files else []

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            raise BrokenPipeError(32, "Broken pipe") from None

    async def vanished(self) -> None:
        await self._gone.wait()

    def pass_along(self, *descriptors: int) -> None:
        """Send files with the next bytes."""
        self._files.append([PassedFile(descriptor, 2) for descriptor in descriptors])

    async def say(self, data: bytes) -> None:
        await self.client.send_all(data)

    async def call(self, method: str, args: dict[str, object] | None = None, version: object = 1) -> None:
        await self.say(orjson.dumps({"method": method, "args": args or {}, "version": version}) + b"\x03")

    async def hear(self) -> Any:
        """Return the next answer, None if the server has closed the connection."""
        answer = b""
        while not answer.endswith(b"\x03"):
            piece = await self.client.receive_some(1)
            if not piece:
                assert answer == b""
                return None
            answer += piece
        return orjson.loads(answer[:-1])

    async def hang_up(self) -> None:
        """Close the server's side, as its owner does after ``serve``."""
        await self._stream.aclose()

    async def leave(self) -> None:
        """Close the client's side, as a killed client does."""
        self._gone.set()
        await self.client.aclose()


def open_file(path: Path, text: str = "") -> int:
    """Return the descriptor of a new file."""
    path.write_text(text)
    return os.open(path, os.O_RDONLY)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def wait_closed(descriptor: int) -> None:
    """Wait until a thread has closed a descriptor."""
    end = time.monotonic() + PATIENCE
    while is_open(descriptor):
        assert time.monotonic() < end
        time.sleep(0.001)
