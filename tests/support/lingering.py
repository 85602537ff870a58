"""Descriptors whose close takes as long as their owner likes."""

import socket
import struct
from contextlib import suppress


def lingering(seconds: int = 600) -> tuple[socket.socket, socket.socket]:
    """Return a TCP socket whose last close takes so long, and its other end, whose close ends that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        end = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    end.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            end.send(b"x" * 65536)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return end, other


def within(end: socket.socket) -> socket.socket:
    """Return a Unix socket in whose queue another socket waits, whose close is part of its own."""
    first, second = socket.socketpair()
    socket.send_fds(first, [b"x"], [end.fileno()])
    first.close()
    return second
