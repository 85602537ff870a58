"""A luxid without a socket; tests decide every byte of its answers."""

import errno
import os
from typing import Any

import orjson
import trio
import trio.testing


class Connection:
    """luxid's side of a connection."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self._stream = stream

    async def hear(self) -> bytes:
        """Return the next request with its terminator; less if the client has closed the connection."""
        message = b""
        while not message.endswith(b"\x03"):
            byte = bytes(await self._stream.receive_some(1))
            if not byte:
                break
            message += byte
        return message

    async def say(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def answer(self, result: Any, success: bool = True) -> None:
        await self.say(orjson.dumps({"success": success, "result": result}) + b"\x03")

    async def close(self) -> None:
        await self._stream.aclose()


class MemoryLuxid:
    """Accepts connections, or raises the next error in ``refusals``. ``attempts`` are times."""

    def __init__(self) -> None:
        self.refusals: list[int] = []
        self.attempts: list[float] = []
        self._send, self._receive = trio.open_memory_channel[Connection](100)

    async def connect(self, path: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.attempts.append(trio.current_time())
        if self.refusals:
            number = self.refusals.pop(0)
            raise OSError(number, os.strerror(number), path)
        ours, theirs = trio.testing.memory_stream_pair()
        self._send.send_nowait(Connection(theirs))
        return ours

    async def accept(self) -> Connection:
        """Return the next connection."""
        return await self._receive.receive()


REFUSED, ABSENT = errno.ECONNREFUSED, errno.ENOENT
