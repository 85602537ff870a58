"""The socket's name in the file system: one daemon listens on it."""

import errno
import fcntl
import grp
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ganeti_htools.model.errors import HtoolsError

_PATIENCE = 5.0  # seconds to wait for another daemon that takes the same name, which takes it milliseconds


class StartError(HtoolsError):
    """Why the daemon cannot start."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening Unix socket, and its name in the file system."""

    socket: socket.socket
    path: str
    identity: tuple[int, int]

    @property
    def named(self) -> bool:
        """Whether the name is still there, and still the socket's."""
        with suppress(OSError):
            return _identity(self.path) == self.identity
        return False

    def show(self) -> None:
        """Touch the socket's file: clients wait for a daemon that did so a moment ago."""
        with suppress(OSError):
            if self.named:
                os.utime(self.path)

    def remove(self) -> None:
        """Remove the name, unless it is gone or somebody else's by now. Raises OSError."""
        # A daemon that is about to take the name removes it itself.
        with suppress(FileNotFoundError, StartError), _alone(self.path, 0):
            if _identity(self.path) == self.identity:
                os.unlink(self.path)


def listen(path: str, group: str) -> Listener:
    """Listen at ``path``, for the user and ``group`` (empty: the process's own). Raises StartError."""
    try:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with _alone(path, _PATIENCE), ExitStack() as undo:
            _remove_stale(path)
            sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            before = os.umask(0o117)
            try:
                sock.bind(path)
            finally:
                os.umask(before)
            undo.callback(os.unlink, path)
            os.chown(path, -1, group_number(group))
            sock.listen(128)  # only now can anybody connect
            undo.pop_all()
            return Listener(sock, path, _identity(path))
    except OSError as err:
        raise StartError(f"{path}: {err.strerror or err}") from None


def group_number(group: str) -> int:
    """The number of a group, -1 for no name. Raises StartError."""
    try:
        return grp.getgrnam(group).gr_gid if group else -1
    except KeyError:
        raise StartError(f"there is no group '{group}'") from None


@contextmanager
def _alone(path: str, patience: float) -> Iterator[None]:
    """Runs a block while nobody else takes or gives up the name ``path``. Raises StartError, OSError.

    Without this lock another daemon could begin to listen between the look at a stale socket and its removal.

    The locked file is never removed, because that could happen while another process holds the lock.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(f"{path}.lock", flags, 0o600)
    try:
        end = time.monotonic() + patience
        while not locked(descriptor):
            if time.monotonic() >= end:
                raise StartError(f"{path}: another htoolsd is about to listen there")
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def locked(descriptor: int) -> bool:
    """Whether the file could be locked; it is then locked until it is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens on. Raises StartError if somebody does, OSError."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise StartError(f"{path}: exists and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        refused = probe.connect_ex(path)
    if refused == errno.ECONNREFUSED:
        os.unlink(path)
    elif refused in (0, errno.EAGAIN):
        raise StartError(f"already running: somebody listens on {path}")
    elif refused != errno.ENOENT:
        raise OSError(refused, os.strerror(refused))
