"""The acceptor of clients; its socket is created again when somebody removes it."""

import os
from collections.abc import Awaitable, Callable
from functools import partial

import structlog
import trio

from ganeti_htools.nursery import open_nursery
from htoolsd.disposal import dispose
from htoolsd.socket.listening import ListeningSocket, StartError

_log = structlog.get_logger()

TOUCH_SECONDS = 5  # well within LATELY of the executable

Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Acceptor:
    """Accepts clients on a listening socket. ``listen`` makes another one with its name."""

    def __init__(self, listener: ListeningSocket, listen: Callable[[], ListeningSocket]) -> None:
        self._listener = listener
        self._listen = listen
        self._closed = False

    async def serve(self, serve: Serve, clients: trio.Nursery) -> None:
        """Accept clients until cancelled; serve each in its own task."""
        while True:
            listening = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener.socket.dup()))
            async with open_nursery() as nursery:
                nursery.start_soon(partial(trio.serve_listeners, serve, [listening], handler_nursery=clients))
                following = await self._next_socket()
                nursery.cancel_scope.cancel()
            self._dispose()
            self._listener = following

    def close(self) -> None:
        """Give up the socket's name, and do not create it again. Call it again when the process ends."""
        if self._closed and not self._listener.kept:
            return
        self._closed = True
        try:
            self._listener.leave()
        except OSError as error:
            _log.warning("socket cannot be removed", path=self._listener.path, error=error.strerror)
        self._dispose()

    def _dispose(self) -> None:
        """Dispose of the socket, and of what clients have passed that nobody has accepted."""
        if self._listener.socket.fileno() >= 0:
            dispose(os.geteuid(), [self._listener.socket.detach()])

    async def _next_socket(self) -> ListeningSocket:
        """Give signs of life until the socket's name is gone, and return a new socket at the same path."""
        complaint = ""
        while True:
            if not self._closed:
                self._listener.touch()
            await trio.sleep(TOUCH_SECONDS)
            if self._closed or self._listener.named:
                continue
            try:
                listener = self._listen()
            except StartError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    _log.error("socket is gone and cannot be created again", error=complaint)
            else:
                _log.warning("socket was gone and has been created again", path=listener.path)
                return listener
