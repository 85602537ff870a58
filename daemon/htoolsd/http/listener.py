"""The HTTP listener: where it listens, who may ask, and what they get."""

import socket
from collections.abc import Collection
from functools import partial
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.luxi.framing import Decoder
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.pages.style import POLICY
from htoolsd.api.metrics import MetricsMethods
from htoolsd.api.parts import HttpStatus
from htoolsd.api.report import ReportMethods
from htoolsd.api.status import StatusMethods
from htoolsd.config.http import Address, HttpSettings, address, read_token
from htoolsd.config.settings import Settings
from htoolsd.http.requests import HTML, Answer, Request, refuse_action, refuse_host, refuse_token
from htoolsd.metrics.metric import CONTENT_TYPE
from htoolsd.socket.acceptor import Acceptor
from htoolsd.socket.access import Access
from htoolsd.socket.clients import Clients, ConnectedClient
from htoolsd.socket.incoming import Incoming
from htoolsd.socket.listening import listen
from htoolsd.socket.peer import SocketPeer
from htoolsd.socket.roles import Role
from htoolsd.tasks import note_defect
from htoolsd.threads import effect

_log = structlog.get_logger()

_PAGE_POLICY = f"{POLICY}; frame-ancestors 'none'"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_RETRY = 10.0  # seconds between attempts to listen
_ANSWER_SECONDS = 30.0  # for the figures
_LOG_EVERY = 60.0  # seconds between lines about requests without the token


class HttpListener:
    """Serves the page about the cluster, the metrics and the health, with the limits of the socket.

    ``state`` has the error while it cannot listen.
    """

    def __init__(
        self,
        settings: Settings,
        access: Access,
        status: StatusMethods,
        metrics: MetricsMethods,
        page: ReportMethods,
        state: HttpStatus,
    ) -> None:
        self._settings = settings
        self._clients = Clients(settings, access)
        self._access = access
        self._metrics = metrics
        self._status = status
        self._page = page
        self._state = state
        self._refused = -inf

    async def run(self) -> None:
        """Serve until cancelled. Requests under way are answered after a change of the settings.

        The token is read again whenever the configuration is.
        """
        async with open_nursery() as clients:
            while True:
                changed, used, self._state.error = self._settings.changed, self._settings.now.http, None
                async with open_nursery() as nursery:
                    if used.listen:
                        nursery.start_soon(self._listen, used, clients)
                    await changed.wait()
                    while self._settings.now.http == used and not used.token_file:
                        await self._settings.changed.wait()
                    nursery.cancel_scope.cancel()

    async def _listen(self, settings: HttpSettings, clients: trio.Nursery) -> None:
        where, logged = address(settings.listen), ""
        while True:
            try:
                await self._serve(settings, where, clients)
            except (HtoolsError, OSError) as error:
                text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                if text != logged:
                    _log.error("HTTP not listening", listen=settings.listen, error=text)
                logged = self._state.error = text
            await trio.sleep(_RETRY)

    async def _serve(self, settings: HttpSettings, where: Address, clients: trio.Nursery) -> None:
        """Accept clients until cancelled. Raises HtoolsError, OSError."""
        token = await effect(read_token, settings.token_file) if where.host else None
        names = {*_LOCAL, *(name.lower() for name in settings.hosts), _in_url(where.host)} - {""}
        serve = partial(self._client, names, token)
        if token is None:
            listen_again = partial(listen, where.path, "")
            acceptor = Acceptor(listen_again(), listen_again)
            self._note_listening(settings)
            try:
                await acceptor.serve(serve, clients)
            finally:
                acceptor.close()
        listener = trio.SocketListener(_bind(where))
        self._note_listening(settings)
        async with open_nursery():
            await trio.serve_listeners(serve, [listener], handler_nursery=clients)

    def _note_listening(self, settings: HttpSettings) -> None:
        self._state.error = None
        _log.info("HTTP listening", listen=settings.listen)

    async def _client(self, names: Collection[str], token: bytes | None, stream: trio.SocketStream) -> None:
        from htoolsd.http.conversation import converse  # importing h11 takes time, and few daemons need it

        now = self._settings.now
        peer = SocketPeer(stream.socket)
        client = ConnectedClient(peer, Incoming(Decoder(0)), since=trio.current_time())

        async def answer(request: Request) -> Answer:
            client.listening = None  # from now on it does not give way to others
            if token is None:
                refused = refuse_host(request, names) or self._refuse_role(peer, request)
            else:
                refused = refuse_host(request, names) or self._refuse_token(request, token)
            return refused or refuse_action(request) or await self._answer(request)

        with trio.CancelScope() as client.listening:
            try:
                self._clients.enter(client)
                await converse(peer, now.idle_seconds, now.write_seconds, answer)
            except (RefusalError, OSError):
                pass  # there are too many clients, or it has left
            except Exception as defect:  # it ends one conversation
                note_defect("http", defect)
            finally:
                self._clients.leave(client)
                peer.close()

    def _refuse_role(self, peer: SocketPeer, request: Request) -> Answer | None:
        try:
            self._access.check(peer.credentials, Role.READ, f"HTTP {request.path[:80]}")
        except RefusalError as error:
            return Answer(403, f"{error}\n")
        return None

    def _refuse_token(self, request: Request, token: bytes) -> Answer | None:
        refused = refuse_token(request, token)
        if refused and trio.current_time() - self._refused >= _LOG_EVERY:
            self._refused = trio.current_time()
            _log.warning("HTTP request without the token", path=request.path[:80])
        return refused

    async def _answer(self, request: Request) -> Answer:
        with trio.move_on_after(_ANSWER_SECONDS):
            if request.path == "/":
                try:
                    return Answer(
                        200, await self._page.html(), HTML, {"Content-Security-Policy": _PAGE_POLICY}
                    )
                except HtoolsError as error:
                    return Answer(503, f"{error}\n")
            if request.path == "/metrics":
                return Answer(
                    200, await self._metrics.text(self._settings.now.http.exporter_names), CONTENT_TYPE
                )
            return health(await self._status.report())
        return Answer(503, f"no answer within {_ANSWER_SECONDS:g} s\n")


def health(status: dict[str, Any]) -> Answer:
    """Return the health in a line: bad when ``htoolsctl check`` would be CRITICAL."""
    lines = status["attention"]
    critical = [each["text"] for each in lines if each["severity"] == "critical"]
    if critical:
        return Answer(503, f"{critical[0]}\n")
    return Answer(200, f"ok, {len(lines)} warning{'s' * (len(lines) != 1)}\n" if lines else "ok\n")


def _in_url(host: str) -> str:
    return f"[{host.lower()}]" if ":" in host else host


def _bind(where: Address) -> trio.socket.SocketType:
    """Return a socket that listens at a loopback address. Raises OSError."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((where.host, where.port))
        bound.listen(128)
        return trio.socket.from_stdlib_socket(bound)
    except BaseException:
        bound.close()
        raise
