"""The daemon's listening socket: a new one, or one that was passed and outlives the daemon."""

from dataclasses import replace

import structlog

from htoolsd.process.service_manager import keep
from htoolsd.process.starting import passed_sockets
from htoolsd.socket.listening import ListeningSocket, StartError, adopt, listen

_log = structlog.get_logger()


def first_socket(path: str, group: str, descriptor: int | None) -> ListeningSocket:
    """Return the socket at ``path``: of ``descriptor``, one that the service manager passed, or a new one.

    Raises StartError.
    """
    if descriptor is not None:
        return adopt(descriptor, path, group)
    for each in passed_sockets():
        try:
            return adopt(each, path, group)
        except StartError as error:
            _log.warning("passed socket is not used", error=str(error))
    return new_socket(path, group)


def new_socket(path: str, group: str) -> ListeningSocket:
    """Return a new socket at ``path``, which the service manager keeps if it can. Raises StartError."""
    listener = listen(path, group)
    return replace(listener, kept=keep(listener.socket))
