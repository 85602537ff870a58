"""Connections on Unix sockets, and the faults that can be ordered for them."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import trio

from ganeti_htools.luxi.framing import Decoder, FramingError, decode, encode
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sockets import bind

LONGEST = 100 << 20  # bytes of a request
IDLE = 3600.0  # seconds without a request until a connection ends
WRITE = 60.0  # seconds in which a client must read an answer

Answer = Callable[[bytes], Awaitable[tuple[bytes, bool]]]


@dataclass(slots=True)
class Faults:
    """The ordered faults.

    Every answer takes ``seconds``. The next ``cuts`` answers are cut off half-way. The next ``drops``
    requests are not read, and their connection ends. ``odd`` has, by method, the results that replace the
    next ones.
    """

    seconds: float = 0.0
    cuts: int = 0
    drops: int = 0
    odd: dict[str, list[Any]] = field(default_factory=dict)

    def replace(self, message: bytes, answer: bytes) -> bytes:
        """Return the answer to a request, or the one that replaces it."""
        odd = self.odd.get(_method(message)) if self.odd else None
        return encode({"success": True, "result": odd.pop(0)}) if odd else answer


def _method(message: bytes) -> str:
    try:
        match decode(message):
            case {"method": str(method)}:
                return method
    except FramingError:
        pass
    return ""


async def serve_client(stream: trio.abc.Stream, answer: Answer, faults: Faults) -> None:
    """Answer one client until it leaves, is idle for too long, or sends an unreadable message."""
    decoder = Decoder(LONGEST)
    async with stream:
        with suppress(FramingError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            while True:
                with trio.fail_after(IDLE):
                    data = await stream.receive_some()
                if not data:
                    return
                for message in decoder.feed(bytes(data)):
                    if faults.drops > 0:
                        faults.drops -= 1
                        return
                    text, stays_open = await answer(message)
                    if not await _send(stream, faults.replace(message, text), faults) or not stays_open:
                        return


async def _send(stream: trio.abc.Stream, answer: bytes, faults: Faults) -> bool:
    """Send an answer; return whether all of it was sent."""
    if faults.seconds:
        await trio.sleep(faults.seconds)
    cut = faults.cuts > 0
    if cut:
        faults.cuts -= 1
    with trio.fail_after(WRITE):
        await stream.send_all(answer[: len(answer) // 2] if cut else answer)
    return not cut


@contextmanager
def listen(path: str) -> Iterator[trio.SocketListener]:
    """Listen on a Unix socket at ``path`` within the block, and remove only this socket.

    Raises HtoolsError.
    """
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
