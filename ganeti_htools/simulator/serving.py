"""Conversations on Unix sockets, and what can go wrong with them."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import trio

from ganeti_htools.luxi.framing import Decoder, FramingError, decode, encode
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sockets import bind

LONGEST = 100 << 20  # bytes of a request
IDLE = 3600.0  # seconds that a client may say nothing
WRITE = 60.0  # seconds to take an answer

Answer = Callable[[bytes], Awaitable[tuple[bytes, bool]]]


@dataclass(slots=True)
class Trouble:
    """What is made to go wrong.

    ``seconds`` pass before every answer; the next ``cuts`` answers are cut off half-way; the next ``drops``
    requests are not heard, and their connection ends; ``odd`` has by method what is told instead of the next
    results.
    """

    seconds: float = 0.0
    cuts: int = 0
    drops: int = 0
    odd: dict[str, list[Any]] = field(default_factory=dict)

    def told(self, message: bytes, said: bytes) -> bytes:
        """What is sent in place of an answer."""
        odd = self.odd.get(_method(message)) if self.odd else None
        return encode({"success": True, "result": odd.pop(0)}) if odd else said


def _method(message: bytes) -> str:
    try:
        match decode(message):
            case {"method": str(method)}:
                return method
    except FramingError:
        pass
    return ""


async def converse(stream: trio.abc.Stream, answer: Answer, trouble: Trouble) -> None:
    """Answer one client until it leaves, keeps silent for too long, or sends what cannot be read."""
    decoder = Decoder(LONGEST)
    async with stream:
        with suppress(FramingError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            while True:
                with trio.fail_after(IDLE):
                    data = await stream.receive_some()
                if not data:
                    return
                for message in decoder.feed(bytes(data)):
                    if trouble.drops > 0:
                        trouble.drops -= 1
                        return
                    said, goes_on = await answer(message)
                    if not await _say(stream, trouble.told(message, said), trouble) or not goes_on:
                        return


async def _say(stream: trio.abc.Stream, said: bytes, trouble: Trouble) -> bool:
    """Send text; whether all of it could be sent."""
    await trio.sleep(trouble.seconds)
    cut = trouble.cuts > 0
    if cut:
        trouble.cuts -= 1
    with trio.fail_after(WRITE):
        await stream.send_all(said[: len(said) // 2] if cut else said)
    return not cut


@contextmanager
def listening(path: str) -> Iterator[trio.SocketListener]:
    """A Unix socket at ``path``, as long as it is needed; nobody else's is removed. Raises HtoolsError."""
    try:
        bound = bind(path)
    except OSError as error:
        raise HtoolsError(f"{path}: {error.strerror or error}") from None
    with bound.socket as sock:
        try:
            sock.listen(128)
            sock.setblocking(False)
            yield trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        finally:
            with suppress(OSError):
                bound.unlink()
