"""The listening socket and its name in the file system, on which only one daemon listens."""

import errno
import fcntl
import grp
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sockets import NamedSocket, bind

_PATIENCE = 5.0  # seconds to wait for another daemon that takes the same name; taking it lasts milliseconds


class StartError(HtoolsError):
    """An error for which the daemon cannot start."""


class ListeningSocket(NamedSocket):
    """A listening Unix socket."""

    __slots__ = ()

    def touch(self) -> None:
        """Touch the socket's file. Clients wait for a daemon that did so a moment ago."""
        with suppress(OSError):
            if self.named:
                os.utime(self.path)

    def remove(self) -> None:
        """Remove the name, unless it is gone or belongs to another socket. Raises OSError."""
        # A daemon that is about to take the name removes it itself.
        with suppress(FileNotFoundError, StartError), _locked_name(self.path, 0):
            self.unlink()


def listen(path: str, group: str) -> ListeningSocket:
    """Listen at ``path``, for the user and ``group`` (empty: for everybody). Raises StartError."""
    try:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with _locked_name(path, _PATIENCE), ExitStack() as undo:
            bound = bind(path)
            undo.enter_context(bound.socket)
            undo.callback(os.unlink, path)
            os.chown(path, -1, group_number(group))
            if not group:
                os.chmod(path, 0o666)
            bound.socket.listen(128)  # only now can anybody connect
            undo.pop_all()
            return ListeningSocket(bound.socket, path, bound.identity)
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            raise StartError(f"already running: another process listens on {path}") from None
        raise StartError(f"{path}: {err.strerror or err}") from None


def group_number(group: str) -> int:
    """Return the number of a group, -1 for an empty name. Raises StartError."""
    try:
        return grp.getgrnam(group).gr_gid if group else -1
    except KeyError:
        raise StartError(f"there is no group '{group}'") from None


@contextmanager
def _locked_name(path: str, patience: float) -> Iterator[None]:
    """Run a block while no other daemon takes or gives up the name ``path``. Raises StartError, OSError.

    Without this lock another daemon could begin to listen after the look at a stale socket and before its
    removal. The locked file is never removed, because another process may hold the lock at that moment.
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
    """Whether the file could be locked; the lock lasts until the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
