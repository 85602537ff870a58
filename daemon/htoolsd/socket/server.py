"""The server: one answer for each call of a client, within limits of size and time."""

from contextlib import AbstractContextManager, suppress
from functools import partial

import structlog
import trio
from structlog.contextvars import bind_contextvars

from ganeti_htools import machine
from ganeti_htools.client.protocol import Call, Refusal, RefusalError
from ganeti_htools.luxi.framing import Decoder
from ganeti_htools.model.errors import untraced
from ganeti_htools.nursery import open_nursery
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.history.entries import Called
from htoolsd.socket.access import Access
from htoolsd.socket.clients import Clients, ConnectedClient
from htoolsd.socket.incoming import Incoming
from htoolsd.socket.messages import decode_call, failure, success
from htoolsd.socket.methods import Methods
from htoolsd.socket.peer import PassedFile, Peer, caller, describe_caller, give_sign
from htoolsd.socket.roles import Role

_log = structlog.get_logger()

_THREAD_BYTES = 1 << 13  # bytes; longer messages are parsed in a thread. A hundred of this length take 20 ms
_SHOWN = 80  # characters of a method's name in the log


def _log_refusal(error: RefusalError, **about: str) -> None:
    """Log a refusal. BUSY is a warning, because the executable then decides by itself, which is slow."""
    if error.kind is Refusal.ROLE:  # the check has logged it
        return
    log = _log.warning if error.kind is Refusal.BUSY else _log.info
    log("refused", **about, error=error.kind, message=str(error))


class Server:
    """Answers clients until stopped.

    A caller without any role gets one answer, to a short message, and leaves no line per call in the log.
    ``events`` get the calls that may have changed something.
    """

    def __init__(self, methods: Methods, settings: Settings, access: Access, events: EventStream) -> None:
        self._clients = Clients(settings, access)
        self._settings = settings
        self._methods = methods
        self._access = access
        self._events = events
        self._stopping = False
        self._parsing = trio.CapacityLimiter(1)  # one long message at a time, because parsers hold the GIL

    @property
    def connections(self) -> int:
        """The number of clients."""
        return len(self._clients)

    def caller_may(self, role: Role) -> bool:
        """Whether the present caller has a role."""
        return self._access.roles.of(caller.get()) >= role

    def waiting(self) -> AbstractContextManager[bool]:
        """Count the present call as one that waits for a change. See :meth:`Clients.waiting`."""
        return self._clients.waiting(caller.get().uid)

    def stop(self) -> None:
        """Refuse all further calls. Calls under way are finished."""
        self._stopping = True
        self._clients.stop_listening()

    async def serve(self, peer: Peer) -> None:
        """Serve one client until it leaves."""
        bind_contextvars(client=peer.credentials.pid, uid=peer.credentials.uid)  # in this task only
        caller.set(peer.credentials)
        give_sign.set(partial(self._give_sign, peer))
        known = self._is_known(peer)
        longest = self._settings.now.message_mib << 20 if known else _THREAD_BYTES
        client = ConnectedClient(peer, Incoming(Decoder(longest)))
        try:
            self._clients.enter(client)
            await self._converse(client)
        except RefusalError as err:  # the message was not a call, so the connection is closed
            refusal = untraced(err)
            if known:
                _log_refusal(refusal)
            else:
                refusal = self._access.refusal(peer.credentials, Role.READ, "connection")
            with suppress(OSError, trio.TooSlowError):
                await self._send(peer, failure(refusal.kind, str(refusal)))
        except OSError as err:
            if known:
                _log.info("client left", error=err.strerror)
        except trio.TooSlowError:
            _log.warning("client does not read its answer")
        finally:
            self._clients.leave(client)
            client.incoming.close_file()

    async def _converse(self, client: ConnectedClient) -> None:
        while (message := await self._next(client)) is not None:
            call = await self._parse(message)
            answer = await self._answer_unless_gone(client.peer, call, client.incoming.file)
            client.incoming.answered(message)
            if answer is None:
                _log.info("client left before its answer", method=call.method[:_SHOWN])
                return
            await self._send(client.peer, answer)
            if not self._is_known(client.peer):
                return

    def _is_known(self, peer: Peer) -> bool:
        return self._access.roles.of(peer.credentials) is not Role.NONE

    async def _next(self, client: ConnectedClient) -> bytes | None:
        """Return the next message, None when the client has left. Raises RefusalError, OSError."""
        incoming = client.incoming
        idle = self._settings.now.idle_seconds
        with trio.move_on_after(idle) as client.listening:
            client.since = trio.current_time()
            while not incoming.messages and not self._stopping:
                data, files = await client.peer.receive()
                incoming.add(data, files)
                if not data:
                    return None
                self._clients.check_unanswered(client)
        client.listening = None
        if self._stopping:
            raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
        if client not in self._clients:
            raise RefusalError(Refusal.BUSY, "the idle connection was closed to make room for others")
        if not incoming.messages:
            raise RefusalError(Refusal.MESSAGE, f"no complete message within {idle:g} s")
        return incoming.messages.popleft()

    async def _parse(self, message: bytes) -> Call:
        """Raises RefusalError."""
        if len(message) <= _THREAD_BYTES:
            return decode_call(message)
        return await machine.run_sync(decode_call, message, limiter=self._parsing)

    async def _answer_unless_gone(self, peer: Peer, call: Call, file: PassedFile | None) -> bytes | None:
        answer = None
        async with open_nursery() as nursery:

            async def cancel_when_gone() -> None:
                await peer.vanished()
                nursery.cancel_scope.cancel()

            nursery.start_soon(cancel_when_gone)
            answer = await self._answer(peer, call, file)
            nursery.cancel_scope.cancel()
        return answer

    async def _answer(self, peer: Peer, call: Call, file: PassedFile | None) -> bytes:
        try:
            return success(await self._run(peer, call, file))
        except RefusalError as err:
            _log_refusal(untraced(err), method=call.method[:_SHOWN])
            return failure(err.kind, str(err))
        except Exception as err:  # a defect must not end the daemon
            _log.exception("call failed", method=call.method)
            first_line = str(err).partition("\n")[0]
            return failure(Refusal.INTERNAL, f"{type(err).__name__}: {first_line}")

    async def _run(self, peer: Peer, call: Call, file: PassedFile | None) -> object:
        """Raises RefusalError."""
        method, refused = self._methods.find(call.method), False
        role = Role.READ if method is None else method.role
        self._access.check(peer.credentials, role, call.method[:_SHOWN])
        try:
            return await self._methods.run(call.method, call.args, file)
        except RefusalError:
            refused = True
            raise
        finally:  # a client that has left, or a defect, may leave a change behind
            if method is not None and method.recorded and not refused:
                now, by = machine.now(), describe_caller()
                self._events.publish(Called(now, method.name, call.args, by))

    async def _give_sign(self, peer: Peer) -> None:
        """Send a tab, which JSON allows before an answer."""
        with suppress(OSError, trio.TooSlowError):
            await self._send(peer, b"\t")

    async def _send(self, peer: Peer, data: bytes) -> None:
        """Raises OSError, TooSlowError."""
        with trio.fail_after(self._settings.now.write_seconds):
            await peer.send(data)
