"""Accepts clients as long as the daemon runs, on a socket that comes back when somebody removes it."""

from collections.abc import Awaitable, Callable
from functools import partial

import structlog
import trio

from htoolsd.socket.listening import Listener, StartError, listen

_log = structlog.get_logger()

_LOOK = 1.0  # seconds until it is noticed that the socket's name is gone

Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Door:
    """A listening socket, made again when somebody has removed it."""

    def __init__(self, listener: Listener, group: str) -> None:
        self._listener = listener
        self._group = group
        self._closed = False

    async def serve(self, serve: Serve, clients: trio.Nursery) -> None:
        """Accept clients until cancelled, each in a task of its own."""
        while True:
            listening = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener.socket))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(trio.serve_listeners, serve, [listening], handler_nursery=clients))
                self._listener = await self._another()
                nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Remove the socket's name, for good."""
        if self._closed:
            return
        self._closed = True
        try:
            self._listener.remove()
        except OSError as error:
            _log.warning("socket cannot be removed", path=self._listener.path, error=error.strerror)

    def show(self) -> None:
        """Touch the socket's file, to show that the daemon lives."""
        self._listener.show()

    async def _another(self) -> Listener:
        """A new socket at the same path, made once the old one's name is gone."""
        complaint = ""
        while True:
            await trio.sleep(_LOOK)
            if self._closed or self._listener.named:
                continue
            try:
                listener = listen(self._listener.path, self._group)
            except StartError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    _log.error("socket is gone", error=complaint)
            else:
                _log.warning("socket was gone, made anew", path=listener.path)
                return listener
