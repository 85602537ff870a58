"""Telling the service manager how the daemon is (``sd_notify(3)``)."""

import os
import socket
from contextlib import suppress


def notify(*lines: str) -> None:
    """Send lines like ``READY=1``, if a service manager asks for them. It may well not listen."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto("\n".join(lines).encode(), address)
