"""Unix sockets and their names in the file system."""

import errno
import os
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedSocket:
    """A Unix socket and its name; ``identity`` are device and inode of the file that the name stood for."""

    socket: socket.socket
    path: str
    identity: tuple[int, int]

    @property
    def named(self) -> bool:
        """Whether the name still exists and still belongs to the socket."""
        with suppress(OSError):
            return identity(self.path) == self.identity
        return False

    def unlink(self) -> None:
        """Remove the name, unless it is gone or somebody else's by now. Raises OSError."""
        with suppress(FileNotFoundError):
            if identity(self.path) == self.identity:
                os.unlink(self.path)


def bind(path: str) -> NamedSocket:
    """Return a socket named ``path`` that only the process's user and group can connect to.

    The socket does not listen yet. A socket without a listener is replaced. Raises OSError, with EADDRINUSE
    if another process listens.
    """
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o117)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        return NamedSocket(sock, path, identity(path))
    except BaseException:
        sock.close()
        raise


def listener(sock: socket.socket) -> int:
    """Return the id of the process that listened when ``sock`` connected; 0 if its id is not visible here."""
    (pid,) = struct.unpack_from("i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def is_open(path: str) -> bool:
    """Whether a process has the datagram socket named ``path`` open."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.connect(path)
        return True
    return False


def identity(path: str) -> tuple[int, int]:
    """Return device and inode of a name. Raises OSError."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens on. Raises OSError."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.ENOTSOCK, "exists and is no socket", path)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        refused = probe.connect_ex(path)
    if refused == errno.ECONNREFUSED:
        os.unlink(path)
    elif refused in (0, errno.EAGAIN):  # EAGAIN: somebody listens, and many wait to be accepted
        raise OSError(errno.EADDRINUSE, "somebody listens there", path)
    elif refused != errno.ENOENT:
        raise OSError(refused, os.strerror(refused), path)
