"""Messages to the service manager (``sd_notify(3)``): the state of the daemon, and signs of life."""

import os
import socket
from contextlib import suppress
from math import inf

import trio

from htoolsd.api.decisions import Decisions


def notify(*lines: str) -> None:
    """Send lines like ``READY=1`` if there is a service manager. Failures are ignored."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto("\n".join(lines).encode(), address)


def watchdog_seconds() -> float:
    """Return the longest interval that the service manager allows between two ``WATCHDOG=1``."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return inf
    return int(usec) / 1e6 or inf


async def watch(decisions: Decisions) -> None:
    """Give up decisions that take too long, and send signs of life, until cancelled.

    Without signs of life the service manager restarts the daemon: when the event loop hangs, or decisions do.
    """
    patience = watchdog_seconds()
    pause = min(patience / 3, 1.0)
    while True:
        decisions.give_up_late()
        if decisions.healthy and patience < inf:
            notify("WATCHDOG=1")
        await trio.sleep(pause)
