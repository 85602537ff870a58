"""The other end of a connection: bytes in both directions, and open files that the client passes."""

import errno
import os
import select
import socket
import struct
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import trio

_MAX_FILES = 4  # received with one message; the kernel closes more
_CHUNK = 1 << 18
_CREDENTIALS = struct.Struct("iII")
_SO_PEERGROUPS = 59  # of <asm-generic/socket.h>; Python's module socket lacks it
_MOST_GROUPS = 1 << 16  # of a process in Linux


class PassedFile:
    """A file descriptor from a client. It is closed once: by its taker, or without one by close()."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._taking = threading.Lock()

    def take(self) -> int | None:
        """Return the descriptor, which the caller closes; None if it is gone. Thread-safe."""
        with self._taking:
            descriptor, self._descriptor = self._descriptor, None
            return descriptor

    def close(self) -> None:
        """Close the descriptor unless it was taken."""
        descriptor = self.take()
        if descriptor is not None:
            os.close(descriptor)


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


def describe_caller() -> dict[str, int] | None:
    """Return user and process of the caller as JSON, for records; None outside of a call."""
    client = caller.get(None)
    return None if client is None else {"uid": client.uid, "pid": client.pid}


class Peer(Protocol):
    """A client's connection, for the server."""

    credentials: Credentials

    async def receive(self) -> tuple[bytes, list[PassedFile]]:
        """Return the next bytes, empty at the end, and the files that came with them. Raises OSError."""

    async def send(self, data: bytes) -> None:
        """Send all data. Raises OSError."""

    async def vanished(self) -> None:
        """Return when nobody is left to read an answer."""


class SocketPeer:
    """A client's connection at a Unix socket."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._socket = sock
        self.credentials = credentials_of(sock)

    async def receive(self) -> tuple[bytes, list[PassedFile]]:
        """See Peer."""
        data, ancillary, _, _ = await self._socket.recvmsg(
            _CHUNK, socket.CMSG_SPACE(_MAX_FILES * 4), socket.MSG_CMSG_CLOEXEC
        )
        files = []
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                count = len(payload) // 4
                files += [PassedFile(number) for number in struct.unpack(f"{count}i", payload[: count * 4])]
        return data, files

    async def send(self, data: bytes) -> None:
        """See Peer."""
        rest = memoryview(data)
        while rest:
            rest = rest[await self._socket.send(rest) :]

    async def vanished(self) -> None:
        """See Peer. A client that only ended its sending side still reads; it is not waited for further."""
        await trio.lowlevel.wait_readable(self._socket)
        hangup = select.poll()
        hangup.register(self._socket.fileno(), 0)  # POLLHUP and POLLERR are always reported
        if not hangup.poll(0):
            await trio.sleep_forever()
