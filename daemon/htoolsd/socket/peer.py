"""The other end of a connection: bytes in both directions, and open files that the client passes."""

import errno
import select
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.disposal import MAX_DESCRIPTORS, dispose, is_blocked

_CHUNK = 1 << 18
_CREDENTIALS = struct.Struct("iII")
_SO_PEERGROUPS = 59  # of <asm-generic/socket.h>; Python's module socket lacks it
_MOST_GROUPS = 1 << 16  # of a process in Linux


class PassedFile:
    """A file descriptor from a client of a user. It is disposed of once: after its use, or without one."""

    def __init__(self, descriptor: int, uid: int) -> None:
        self._descriptor: int | None = descriptor
        self._uid = uid
        self._taking = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[int | None]:
        """Use the descriptor within a block, and dispose of it; None if it is gone. Thread-safe."""
        with self._taking:
            descriptor, self._descriptor = self._descriptor, None
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                dispose(self._uid, [descriptor])

    def close(self) -> None:
        """Dispose of the descriptor unless it was taken."""
        with self.taken():
            pass


@dataclass(frozen=True, slots=True)
class Credentials:
    """The process and user at the other end when it connected, from the kernel.

    ``groups`` are the supplementary groups.
    """

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def credentials_of(sock: trio.socket.SocketType) -> Credentials:
    """Return the credentials of the other end of a Unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Credentials(pid, uid, gid, _groups(sock))


def _groups(sock: trio.socket.SocketType) -> tuple[int, ...]:
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)  # Python allows no more
    except OSError as error:
        return _many_groups(sock.fileno()) if error.errno == errno.ERANGE else ()
    return struct.unpack(f"{len(raw) // 4}I", raw)


def _many_groups(descriptor: int) -> tuple[int, ...]:
    import ctypes  # seldom needed

    groups, size = (ctypes.c_uint32 * _MOST_GROUPS)(), ctypes.c_uint32(4 * _MOST_GROUPS)
    ask = ctypes.CDLL(None).getsockopt
    failed = ask(descriptor, socket.SOL_SOCKET, _SO_PEERGROUPS, groups, ctypes.byref(size))
    return () if failed else tuple(groups[: size.value // 4])


# The client whose call is answered by the current task.
caller: ContextVar[Credentials] = ContextVar("caller")
# Sends this client a sign that its answer takes longer than usual.
give_sign: ContextVar[Callable[[], Awaitable[None]]] = ContextVar("give_sign")


def describe_caller() -> dict[str, int] | None:
    """Return user and process of the caller as JSON, for records; None outside of a call."""
    client = caller.get(None)
    return None if client is None else {"uid": client.uid, "pid": client.pid}


class Peer(Protocol):
    """A client's connection, for the server."""

    credentials: Credentials

    async def receive(self) -> tuple[bytes, list[PassedFile]]:
        """Return the next bytes, empty at the end, and the files that came with them.

        Raises OSError, and RefusalError for a user whose files cannot be closed.
        """

    async def send(self, data: bytes) -> None:
        """Send all data. Raises OSError."""

    async def vanished(self) -> None:
        """Return when nobody is left to read an answer."""


class SocketPeer:
    """A client's connection at a socket."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._socket = sock
        self.credentials = credentials_of(sock)

    async def receive(self, most: int = _CHUNK) -> tuple[bytes, list[PassedFile]]:
        """See Peer. Of the bytes, receive at most so many."""
        await trio.lowlevel.wait_readable(self._socket)
        uid = self.credentials.uid
        if is_blocked(uid):
            raise RefusalError(Refusal.BUSY, f"files that user {uid} has passed cannot be closed")
        # There is room for all files: the kernel would close the others here and now.
        data, ancillary, _, _ = await self._socket.recvmsg(
            most, socket.CMSG_SPACE(MAX_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC
        )
        files = []
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                count = len(payload) // 4
                numbers = struct.unpack(f"{count}i", payload[: count * 4])
                files += [PassedFile(number, uid) for number in numbers]
        return data, files

    async def send(self, data: bytes) -> None:
        """See Peer."""
        rest = memoryview(data)
        while rest:
            rest = rest[await self._socket.send(rest) :]

    def end(self) -> None:
        """Send no more. Raises OSError."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the connection. It is disposed of with all files that are on their way."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        dispose(self.credentials.uid, [self._socket.detach()])

    async def vanished(self) -> None:
        """See Peer. A client that only ended its sending side still reads; it is not waited for further."""
        await trio.lowlevel.wait_readable(self._socket)
        hangup = select.poll()
        hangup.register(self._socket.fileno(), 0)  # POLLHUP and POLLERR are always reported
        if not hangup.poll(0):
            await trio.sleep_forever()
