"""The right to act on a luxid: of several daemons on its machine, only one changes the cluster."""

import os
import struct
from contextlib import suppress
from socket import AF_UNIX, SHUT_RDWR, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

from htoolsd.disposal import dispose

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class ActingRight:
    """The right to act on the luxid with this socket. A daemon that has it keeps it until its end.

    It is the name of an abstract socket. The kernel frees the name with the process, and no directory has to
    be writable. A process of a user without power over luxid cannot take the right away.
    """

    def __init__(self, luxi: str) -> None:
        self._luxi = luxi
        self._held: tuple[bytes, socket] | None = None
        self._rival = 0

    def rival(self) -> int | None:
        """Return the process (0: unknown) that has the right; None for this one, or without a luxid."""
        name = self._name()
        if name is None:
            return None
        if self._held is not None and self._held[0] == name:
            self._answer(self._held[1])
            return None
        mine = socket(AF_UNIX, SOCK_STREAM)
        try:
            mine.bind(name)
        except OSError:
            mine.close()
            return self._holder(name)
        mine.setblocking(False)
        mine.listen()
        self.close()
        self._held = name, mine
        return None

    def close(self) -> None:
        """Give the right up."""
        if self._held is not None:
            self._held[1].shutdown(SHUT_RDWR)  # from now on nobody can connect
            self._answer(self._held[1])
            self._held[1].close()
            self._held = None

    def _name(self) -> bytes | None:
        """Return the name for the luxid: it depends on the directory and the name of luxid's socket."""
        directory, name = os.path.split(self._luxi)
        try:
            os.stat(self._luxi)
            found = os.stat(directory)
        except OSError:
            return None if self._held is None else self._held[0]  # luxid restarts
        return b"\0htoolsd acts %d %d %b" % (found.st_dev, found.st_ino, os.fsencode(name)[-50:])

    @staticmethod
    def _answer(mine: socket) -> None:
        """Accept those who wanted to know this process, so that others can ask."""
        with suppress(OSError):
            while True:
                asking, _ = mine.accept()
                _, uid, _ = _CREDENTIALS.unpack(asking.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
                dispose(uid, [asking.detach()])

    def _holder(self, name: bytes) -> int | None:
        with socket(AF_UNIX, SOCK_STREAM) as asking, suppress(OSError):
            asking.setblocking(False)
            asking.connect(name)
            pid, uid, _ = _CREDENTIALS.unpack(asking.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
            if uid not in (0, os.geteuid(), os.stat(self._luxi).st_uid):
                return None
            self._rival = pid
        return self._rival
