"""Conversations with clients: one call, one answer, within limits of number, size and time."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import structlog
import trio
from structlog.contextvars import bind_contextvars

from ganeti_htools.daemon.protocol import Call, Kind, RefusalError, decode_call, failure, success
from ganeti_htools.luxi.framing import Decoder, FramingError
from htoolsd.methods import Methods
from htoolsd.peer import PassedFile, Peer, caller

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client, and all of them, may take: a number, bytes, seconds."""

    connections: int
    message: int
    idle: float
    write: float


@dataclass(slots=True)
class _Incoming:
    """What was received and not yet answered."""

    decoder: Decoder
    messages: deque[bytes] = field(default_factory=deque)
    file: PassedFile | None = None

    def add(self, data: bytes, files: list[PassedFile]) -> None:
        """Raises RefusalError for what cannot become a call."""
        for file in files:
            if self.file is None:
                self.file = file
            else:
                file.close()
        if len(files) > 1 or (files and self.file is not files[0]):
            raise RefusalError(Kind.FILE, "a call takes at most one file")
        try:
            self.messages.extend(self.decoder.feed(data))
            if not data:
                self.decoder.finish()
        except FramingError as err:
            raise RefusalError(Kind.MESSAGE, str(err)) from None

    def close_file(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class Server:
    """Answers clients until it is stopped."""

    def __init__(self, methods: Methods, limits: Limits) -> None:
        self.connections = 0
        self._methods = methods
        self._limits = limits
        self._stopping = False
        self._listening: set[trio.CancelScope] = set()  # around the wait for a client's next call

    def stop(self) -> None:
        """Refuse every further call; those under way are finished."""
        self._stopping = True
        for scope in self._listening:
            scope.cancel()

    async def serve(self, peer: Peer) -> None:
        """Everything between a client's arrival and its leaving."""
        bind_contextvars(client=peer.credentials.pid, uid=peer.credentials.uid)  # of this task alone
        caller.set(peer.credentials)  # likewise
        incoming = _Incoming(Decoder(self._limits.message))
        self.connections += 1
        try:
            await self._converse(peer, incoming)
        except RefusalError as err:  # of something that was no call: the conversation ends
            _log.info("refused", error=err.kind, message=str(err))
            with suppress(OSError, trio.TooSlowError):
                await self._say(peer, failure(err.kind, str(err)))
        except OSError as err:
            _log.info("client left", error=err.strerror)
        except trio.TooSlowError:
            _log.warning("client does not read its answer")
        except Exception:  # a defect, and no reason to leave the other clients alone
            _log.exception("conversation failed")
        finally:
            self.connections -= 1
            incoming.close_file()

    async def _converse(self, peer: Peer, incoming: _Incoming) -> None:
        if self.connections > self._limits.connections:
            raise RefusalError(Kind.BUSY, f"all {self._limits.connections} connections are in use")
        while (message := await self._next(peer, incoming)) is not None:
            call = decode_call(message)
            answer = await self._answer_unless_gone(peer, call, incoming.file)
            incoming.close_file()
            if answer is None:
                _log.info("client left before its answer", method=call.method)
                return
            await self._say(peer, answer)

    async def _next(self, peer: Peer, incoming: _Incoming) -> bytes | None:
        """The next message, None when the client has left. Raises RefusalError, OSError."""
        with self._listen():
            while not incoming.messages and not self._stopping:
                data, files = await peer.receive()
                incoming.add(data, files)
                if not data:
                    return None
        if self._stopping:
            raise RefusalError(Kind.STOPPING, "htoolsd is stopping")
        if not incoming.messages:
            raise RefusalError(Kind.MESSAGE, f"no complete message within {self._limits.idle:g} s")
        return incoming.messages.popleft()

    @contextmanager
    def _listen(self) -> Iterator[None]:
        with trio.move_on_after(self._limits.idle) as scope:
            self._listening.add(scope)
            try:
                yield
            finally:
                self._listening.remove(scope)

    async def _answer_unless_gone(self, peer: Peer, call: Call, file: PassedFile | None) -> bytes | None:
        answer = None
        async with trio.open_nursery() as nursery:

            async def give_up_when_gone() -> None:
                await peer.vanished()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up_when_gone)
            answer = await self._answer(call, file)
            nursery.cancel_scope.cancel()
        return answer

    async def _answer(self, call: Call, file: PassedFile | None) -> bytes:
        try:
            return success(await self._methods.run(call.method, call.args, file))
        except RefusalError as err:
            _log.info("refused", method=call.method, error=err.kind, message=str(err))
            return failure(err.kind, str(err))
        except Exception as err:  # a defect must not end the daemon; the client can do without it
            _log.exception("call failed", method=call.method)
            first_line = str(err).partition("\n")[0]
            return failure(Kind.INTERNAL, f"{type(err).__name__}: {first_line}")

    async def _say(self, peer: Peer, data: bytes) -> None:
        """Raises OSError, TooSlowError."""
        with trio.fail_after(self._limits.write):
            await peer.send(data)
