"""Disposal of descriptors in threads: a close may block for as long as whoever passed them likes.

Examples are a socket that lingers over unread data, and a file of a file system that does not answer. A
socket's close includes what waits in its queue.
"""

import os
import socket
import struct
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress

from ganeti_htools import machine

MAX_DESCRIPTORS = 253  # descriptors of a message (SCM_MAX_FD of Linux)
_THREADS = 4  # of a user
_NO_LINGER = struct.pack("ii", 0, 0)

_changing = threading.Lock()
_waiting = defaultdict[int, deque[int]](deque)  # by user
_threads = Counter[int]()  # by user


def dispose(uid: int, descriptors: Iterable[int]) -> None:
    """Close descriptors that a user has passed or opened, soon. Thread-safe."""
    with _changing:
        _waiting[uid].extend(descriptors)
        more = min(len(_waiting[uid]), _THREADS - _threads[uid])
        _threads[uid] += more
    for _ in range(more):
        machine.start_thread(lambda: _close_all(uid))


def is_blocked(uid: int) -> bool:
    """Whether so many descriptors of a user wait for others whose close blocks that it may pass no more."""
    return len(_waiting[uid]) > MAX_DESCRIPTORS


def _close_all(uid: int) -> None:
    while True:
        with _changing:
            if not _waiting[uid]:
                _threads[uid] -= 1
                return
            descriptor = _waiting[uid].popleft()
        _close(descriptor)


def _close(descriptor: int) -> None:
    """Close a descriptor. A socket sends the rest of its data later, and nobody waits for that."""
    with suppress(OSError):  # it is no socket
        sock = socket.socket(fileno=descriptor)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        sock.detach()
    with suppress(OSError):
        os.close(descriptor)
