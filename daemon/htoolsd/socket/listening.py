"""The listening socket and its name in the file system, on which only one daemon listens."""

import errno
import fcntl
import grp
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ganeti_htools import machine
from ganeti_htools.client.protocol import SIGN_OF_LIFE
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sockets import NamedSocket, bind, identity, listener

_BACKLOG = 128  # clients that wait to be accepted
_PATIENCE = 5.0  # seconds to wait for another daemon that takes the same name; taking it lasts milliseconds


class StartError(HtoolsError):
    """An error for which the daemon cannot start."""


@dataclass(frozen=True, slots=True)
class ListeningSocket(NamedSocket):
    """A listening Unix socket. A ``kept`` socket is also open elsewhere, so it outlives the process.

    Clients read the times of the file beside the socket, which only the daemon can change. The change time
    is the last sign of life. So is the modification time, unless a daemon with a kept socket ended in order:
    then it is 0.
    """

    kept: bool = False

    def touch(self) -> None:
        """Give a sign of life. Clients wait for a daemon that did so a moment ago."""
        if self.named:
            _give_sign(self.path)

    def leave(self) -> None:
        """Remove the name, unless it is gone or belongs to another socket; of a kept socket, only mark it.

        Raises OSError.
        """
        if self.kept:
            _give_sign(self.path, (0, 0))
            return
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
            _admit(path, group)
            bound.socket.listen(_BACKLOG)  # only now can anybody connect
            undo.pop_all()
            return ListeningSocket(bound.socket, path, bound.identity)
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            raise StartError(f"already running: another process listens on {path}") from None
        raise StartError(f"{path}: {err.strerror or err}") from None


def adopt(descriptor: int, path: str, group: str) -> ListeningSocket:
    """Listen on an open socket with the name ``path``, which stays open elsewhere. Raises StartError."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as err:
        raise StartError(f"descriptor {descriptor}: {err.strerror}; expected a socket") from None
    with ExitStack() as undo:
        undo.enter_context(sock)
        sock.set_inheritable(False)
        if (sock.family, sock.type) != (socket.AF_UNIX, socket.SOCK_STREAM) or sock.getsockname() != path:
            raise StartError(f"descriptor {descriptor}: is not the Unix socket {path}")
        try:
            sock.listen(_BACKLOG)  # from now on clients see that this process listens
            if not _leads_here(path):
                raise StartError(f"descriptor {descriptor}: {path} is not the name of this socket any more")
            if os.lstat(path).st_uid == os.geteuid():  # otherwise its owner decides
                _admit(path, group)
            found = ListeningSocket(sock, path, identity(path), kept=True)
        except OSError as err:
            raise StartError(f"{path}: {err.strerror or err}") from None
        undo.pop_all()
        return found


def _admit(path: str, group: str) -> None:
    """Let ``group`` (empty: everybody) connect. Raises OSError, StartError."""
    os.chown(path, -1, group_number(group))
    os.chmod(path, 0o660 if group else 0o666)


def _leads_here(path: str) -> bool:
    """Whether this process listens at ``path``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        error = probe.connect_ex(path)
        # EAGAIN: so many wait that nothing can be seen
        return error == errno.EAGAIN or (not error and listener(probe) == os.getpid())


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
    descriptor = _open_lock(path)
    try:
        end = machine.steady() + patience
        while not locked(descriptor):
            if machine.steady() >= end:
                raise StartError(f"{path}: another htoolsd is about to listen there")
            machine.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: str) -> int:
    """Raises OSError."""
    return os.open(path + SIGN_OF_LIFE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _give_sign(path: str, times: tuple[float, float] | None = None) -> None:
    """Set the times of the locked file, to now without ``times``. Failures are ignored."""
    with suppress(OSError):
        descriptor = _open_lock(path)
        try:
            os.utime(descriptor, times)
        finally:
            os.close(descriptor)


def locked(descriptor: int) -> bool:
    """Whether the file could be locked; the lock lasts until the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
