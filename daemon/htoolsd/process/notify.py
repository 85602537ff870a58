"""Telling the service manager how the daemon is (``sd_notify(3)``)."""

import os
import socket
from contextlib import suppress
from math import inf


def notify(*lines: str) -> None:
    """Send lines like ``READY=1`` if a service manager asks for them; failures are ignored."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto("\n".join(lines).encode(), address)


def watchdog() -> float:
    """The longest interval (seconds) that the service manager allows between two ``WATCHDOG=1``."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return inf
    return int(usec) / 1e6 or inf
