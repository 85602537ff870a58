"""A client of luxid, Ganeti's master daemon, under trio: one request at a time, each with its answer."""

import errno
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any

import trio

from ganeti_htools.luxi.framing import Decoder, FramingError, decode, encode
from ganeti_htools.model.errors import HtoolsError, on_one_line

PATIENCE = 180.0  # seconds for a request and its answer, as in Ganeti's own clients
FIRST_PAUSE, LAST_PAUSE = 1.0, 30.0  # seconds before the next connection after a failure; doubling

_LARGEST = 1 << 28  # bytes of an answer
_CHUNK = 1 << 18
_QUEUE_FULL = 0.05  # seconds until the next attempt to connect

_NO_ANSWER = (OSError, ValueError, trio.BrokenResourceError, trio.ClosedResourceError, FramingError)


class LuxiError(HtoolsError):
    """A request failed."""

    def __init__(self, text: str) -> None:
        super().__init__(on_one_line(text))


class NoAnswerError(LuxiError):
    """luxid could not be asked, or its reply was not an answer.

    ``sent``: luxid may have received the request, and may have carried it out.
    """

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class AnswerError(NoAnswerError):
    """An answer of an unexpected shape, after which it is unknown what luxid has done."""

    def __init__(self, text: str) -> None:
        super().__init__(text, sent=True)


class RefusedError(LuxiError):
    """luxid answered with an error.

    ``kind`` is the name of Ganeti's exception, empty if there is none; ``arguments`` are its arguments.
    """

    def __init__(self, text: str, kind: str, arguments: Sequence[object]) -> None:
        super().__init__(text)
        self.kind = kind
        self.arguments = tuple(arguments)


class LuxiClient:
    """One connection to luxid, made when needed, for any number of tasks in turn.

    luxid closes connections that are silent for some minutes. A request that finds the connection closed
    uses a new one; this is safe because luxid acts on complete messages only. Each request makes at most one
    connection, after a pause if the last request got no answer. Callers may repeat a request without a pause.
    """

    def __init__(self, path: str, connect: Callable[[str], Awaitable[trio.abc.Stream]] | None = None) -> None:
        self.path = path
        self._connect = connect or reach
        self._stream: trio.abc.Stream | None = None
        self._turn = trio.Lock()
        self._pause = 0.0
        self._not_before = 0.0

    def another(self) -> "LuxiClient":
        """Return a client of the same luxid with a connection of its own."""
        return LuxiClient(self.path, self._connect)

    async def __aenter__(self) -> "LuxiClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._hang_up()

    async def call(
        self,
        method: str,
        args: Sequence[object] = (),
        patience: float = PATIENCE,
        read: Callable[[bytes], Awaitable[object]] | None = None,
        expect: Callable[[Any], object] | None = None,
    ) -> Any:
        """Return the result of a request within ``patience`` seconds, waiting included.

        ``read`` parses the bytes of the answer, where that takes long or is not needed. ``expect`` converts
        the result. Both raise AnswerError for an unexpected answer, which ends the connection.

        Raises NoAnswerError, RefusedError; FramingError for arguments that cannot be sent.
        """
        message = encode({"method": method, "args": args})
        sent = False
        with trio.move_on_after(patience) as deadline:
            async with self._turn:
                if self._pause:
                    await trio.sleep_until(self._not_before)
                try:
                    await self._send(message)
                    sent = True
                    received = await self._receive()
                    result = _result(await read(received) if read else decode(received))
                    result = expect(result) if expect else result
                except RefusedError as error:
                    self._pause = 0.0
                    if not error.kind:  # luxid closes the connection after an unknown request
                        await self._hang_up()
                    raise RefusedError(f"{method}: {error}", error.kind, error.arguments) from None
                except AnswerError:
                    await self._fail()
                    raise
                except _NO_ANSWER as error:
                    await self._fail()
                    reason = getattr(error, "strerror", None) or str(error)
                    during = method if sent else "Ganeti cannot be reached"
                    raise NoAnswerError(f"{self.path}: {during}: {reason}", sent) from error
                except trio.Cancelled:
                    # A late answer must not be taken for that of the next request.
                    await (self._fail() if deadline.cancel_called else self._hang_up())
                    raise
                self._pause = 0.0
                return result
        raise NoAnswerError(f"{self.path}: {method}: no answer within {patience:g} s", sent)

    async def _send(self, message: bytes) -> None:
        if self._stream is not None:
            try:
                await self._stream.send_all(message)
                return
            except trio.BrokenResourceError:
                await self._hang_up()
        self._stream = await self._connect(self.path)
        await self._stream.send_all(message)

    async def _receive(self) -> bytes:
        """Receive one message and nothing after it. Raises FramingError, trio.BrokenResourceError."""
        assert self._stream is not None
        decoder = Decoder(_LARGEST)
        while data := bytes(await self._stream.receive_some(_CHUNK)):
            if messages := decoder.feed(data):
                decoder.finish()
                if len(messages) > 1:
                    raise FramingError("several answers to one request")
                return messages[0]
        decoder.finish()
        raise FramingError("the connection was closed without an answer")

    async def _hang_up(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await trio.aclose_forcefully(stream)

    async def _fail(self) -> None:
        self._pause = min(2 * self._pause, LAST_PAUSE) or FIRST_PAUSE
        self._not_before = trio.current_time() + self._pause
        await self._hang_up()


async def reach(path: str) -> trio.abc.Stream:
    """Connect to a Unix socket as soon as its queue has room. Raises OSError, ValueError."""
    while True:
        stream = await trio.open_unix_socket(path)
        try:
            stream.socket.getpeername()
        except OSError as error:  # a non-blocking socket reports a full queue so
            await trio.aclose_forcefully(stream)
            if error.errno != errno.ENOTCONN:
                raise
            await trio.sleep(_QUEUE_FULL)
        else:
            return stream


def _result(answer: object) -> Any:
    """Return the result in an answer. Raises RefusedError, FramingError."""
    match answer:
        case {"success": True, "result": result}:
            return result
        case {"success": False, "result": [str(kind), list(arguments)]}:
            raise RefusedError(f"{kind}: {exception_text(arguments)}", kind, arguments)
        case {"success": False, "result": reason}:
            raise RefusedError(exception_text([reason]), "", [reason])
    raise FramingError(f"expected an answer, got {answer!r:.100}")


def exception_text(arguments: Sequence[object]) -> str:
    """Describe the arguments of a Ganeti exception: a text, perhaps with a word that classifies it."""
    first, *others = [str(argument) for argument in arguments] or [""]
    return f"{first} ({', '.join(others)})" if others else first
