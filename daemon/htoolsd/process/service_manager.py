"""Messages to the service manager (``sd_notify(3)``): state, signs of life, and sockets to keep."""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from math import inf

import trio

from htoolsd.api.decisions import Decisions
from htoolsd.sync.sync import Sync

_NAME = "FDNAME=socket"


def notify(*lines: str, files: Sequence[int] = ()) -> None:
    """Send lines like ``READY=1``, and open files, if there is a service manager. Failures are ignored."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(address)
        socket.send_fds(sock, ["\n".join(lines).encode()], files)


def keep(sock: socket.socket) -> bool:
    """Have the service manager keep a socket for the next process. Return whether it keeps sockets.

    systemd keeps a socket until the service is stopped or has failed. It sets ``FDSTORE`` from version 254
    on; the unit sets it for earlier versions.
    """
    if not os.environ.get("NOTIFY_SOCKET") or os.environ.get("FDSTORE", "0") == "0":
        return False
    notify("FDSTOREREMOVE=1", _NAME)
    notify("FDSTORE=1", _NAME, files=[sock.fileno()])
    return True


def watchdog_seconds() -> float:
    """Return the longest interval that the service manager allows between two ``WATCHDOG=1``."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return inf
    return int(usec) / 1e6 or inf


async def watch(decisions: Decisions, sync: Sync) -> None:
    """Give up decisions that take too long, and send signs of life and the state, until cancelled.

    Without signs of life the service manager restarts the daemon: when the event loop hangs, or decisions do.
    """
    patience = watchdog_seconds()
    shown = sync.summary()
    while True:
        if (summary := sync.summary()) != shown:
            shown = summary
            notify(f"STATUS={summary}")
        pause = decisions.give_up_late()
        if decisions.healthy and patience < inf:
            notify("WATCHDOG=1")
        await trio.sleep(min(patience / 3, pause))
