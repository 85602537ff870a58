"""The daemon's place in the file system: one daemon per state directory, one per socket."""

import errno
import fcntl
import grp
import os
import socket
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from ganeti_htools.model.errors import HtoolsError


class StartError(HtoolsError):
    """Why the daemon cannot start."""


def lock(state_dir: str) -> int:
    """Make the state directory and lock it until the returned descriptor is closed. Raises StartError.

    The kernel drops the lock with the process, however that ends.
    """
    path = Path(state_dir, "lock")
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as err:
        raise StartError(f"{err.filename}: {err.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StartError(f"already running: another htoolsd uses {state_dir}") from None
    return descriptor


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening Unix socket, and its name in the file system."""

    socket: socket.socket
    path: str
    identity: tuple[int, int]

    def show(self) -> None:
        """Let the file tell that the daemon lives; clients wait for one that did so a moment ago."""
        with suppress(OSError):
            if _identity(self.path) == self.identity:
                os.utime(self.path)

    def remove(self) -> None:
        """Remove the name, unless it is gone or somebody else's by now."""
        with suppress(FileNotFoundError):
            if _identity(self.path) == self.identity:
                os.unlink(self.path)


def listen(path: str, group: str) -> Listener:
    """Listen at ``path``, for the user and ``group`` (empty: the process's own). Raises StartError."""
    try:
        with ExitStack() as undo:
            Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _remove_stale(path)
            sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            before = os.umask(0o117)
            try:
                sock.bind(path)
            finally:
                os.umask(before)
            listener = Listener(sock, path, _identity(path))
            undo.callback(listener.remove)
            if group:
                os.chown(path, -1, grp.getgrnam(group).gr_gid)
            sock.listen(128)  # only now can anybody connect
            undo.pop_all()
            return listener
    except KeyError:
        raise StartError(f"{path}: there is no group '{group}'") from None
    except OSError as err:
        raise StartError(f"{path}: {err.strerror or err}") from None


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
