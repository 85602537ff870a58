"""The machine of the world: clock, chance, threads, processes, files and environment of each host."""

import builtins
import errno
import gc
import os
import signal
import socket
import sqlite3
import sys
import time
from collections import UserDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from importlib import import_module
from io import BufferedReader, BytesIO, TextIOWrapper
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import structlog
import trio

from ganeti_htools import files, machine
from htoolsd.api import status
from htoolsd.helper import program
from htoolsd.process import service
from htoolsd.process.lock import lock
from htoolsd.socket import peer
from tests.world.world import World

if TYPE_CHECKING:
    from tests.world.host import Host

Result = TypeVar("Result")
PID = 4242  # of all callers
_LATE = 0.03  # the part of threads that take some time


class KilledError(BaseException):
    """The daemon is killed; nothing that it still does has an effect."""


@dataclass(eq=False)
class Life:
    """One daemon from its start to its end."""

    host: "Host"
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)
    ready: trio.Event = field(default_factory=trio.Event)
    killed: bool = False
    signals: trio.MemorySendChannel[int] | None = None
    streams: list[trio.SocketStream] = field(default_factory=list)  # its connections to others
    locks: list[int] = field(default_factory=list)


present = ContextVar["Life | None"]("present", default=None)  # the daemon whose code runs


def check_alive() -> None:
    """Raise KilledError in a daemon that is killed."""
    life = present.get()
    if life is not None and life.killed:
        raise KilledError


class _Clock:
    """The module ``time``, as ganeti_htools.machine uses it."""

    localtime, strftime = staticmethod(time.localtime), staticmethod(time.strftime)

    def __init__(self, world: World) -> None:
        self._world = world
        self.time, self.monotonic = world.now, trio.current_time

    def time_ns(self) -> int:
        return int(self._world.now() * 1e9)

    def sleep(self, seconds: float) -> None:
        self._world.clock.jump(seconds)


class _Environment(UserDict[str, str]):
    """The environment of the daemon whose code runs."""

    def __init__(self, real: "os._Environ[str]") -> None:
        self._real = real

    @property
    def data(self) -> Any:  # type: ignore[override]
        life = present.get()
        return self._real if life is None else life.host.environment


class Machine:
    """What replaces the machine while :func:`installed`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._threads, self._late = world.chance("threads"), world.setting("faults", 1.0) > 0

    async def run_sync(
        self,
        work: Callable[..., Result],
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> Result:
        """Work at once, or a while later: then the caller may be gone already."""
        check_alive()
        if (life := present.get()) is not None and life.host.defect_in:
            life.host.defect_in -= 1
            if not life.host.defect_in:
                raise RuntimeError("a defect from the world")
        if not (self._late and self._threads.random() < _LATE):
            if limiter is None:
                await trio.lowlevel.checkpoint()
                return work(*args)
            async with limiter:
                return work(*args)
        token, ended = object(), trio.Event()
        found: list[tuple[Any, BaseException | None]] = []
        if limiter is not None:
            await limiter.acquire_on_behalf_of(token)

        async def work_late() -> None:
            await trio.sleep(self._threads.choice((0.01, 0.3, 3.0)))
            try:
                check_alive()
                found.append((work(*args), None))
            except BaseException as error:
                found.append((None, error))
            if limiter is not None:
                limiter.release_on_behalf_of(token)
            ended.set()

        self._world.nursery.start_soon(work_late)
        with trio.CancelScope(shield=not abandon_on_cancel):
            await ended.wait()
        if not abandon_on_cancel:
            await trio.lowlevel.checkpoint_if_cancelled()
        result, error = found[0]
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    async def run_process(self, command: Sequence[str], **options: Any) -> CompletedProcess[bytes]:
        """Do the work of the helper; there are no other programs."""
        check_alive()
        if "htoolsd.helper.program" not in command:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        await trio.sleep(self._threads.choice((0.2, 0.2, 2.0)))
        if self._late and self._threads.random() < _LATE:
            return CompletedProcess(command, -signal.SIGPROF, b"", b"")
        output = TextIOWrapper(BytesIO())
        with patch.object(sys, "stdout", output):
            values = program.decode(BufferedReader(BytesIO(options["stdin"])))
            import_module(command[-2]).work(*values)
            output.flush()
        return CompletedProcess(command, 0, output.buffer.getvalue(), b"")

    async def open_process(self, command: Sequence[str], **_options: Any) -> trio.Process:
        """There are no programs."""
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])

    def random_bytes(self, count: int) -> bytes:
        """Return random bytes from the seed."""
        return self._world.chance("random").randbytes(count)


class _Connection(sqlite3.Connection):
    """A database on the disk of a host: its transactions fail as the disk does."""

    def cursor(self, *_args: Any, **_options: Any) -> Any:
        return super().cursor(_Cursor)

    def execute(self, *args: Any) -> Any:
        _write_row(args[0])
        return super().execute(*args)

    def commit(self) -> None:
        check_alive()
        super().commit()


class _Cursor(sqlite3.Cursor):
    def execute(self, *args: Any) -> Any:
        _write_row(args[0])
        return super().execute(*args)


def _write_row(statement: str) -> None:
    life = present.get()
    if life is None:
        return
    check_alive()
    if statement.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE", "COMMIT", "CREATE"):
        try:
            life.host.disk.write()
        except OSError as error:
            full = error.errno == errno.ENOSPC
            problem = sqlite3.OperationalError(
                "database or disk is full" if full else "attempt to write a readonly database"
            )
            problem.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_READONLY
            raise problem from None


def _open(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
    life = present.get()
    if life is not None and not mode.startswith("r"):
        check_alive()
        life.host.disk.write()
    return builtins.open(path, mode, *args, **options)


def _fsync(descriptor: int) -> None:
    """Nothing needs to be on the real disk."""
    life = present.get()
    if life is not None:
        check_alive()
        life.host.disk.write()
        life.host.disk.sync(descriptor)


def _rename(old: str, new: str) -> None:
    life = present.get()
    if life is not None:
        check_alive()
        life.host.disk.write()
        life.host.disk.rename(old, new)
    os.rename(old, new)


class _Files:
    """The module ``os``, as ganeti_htools.files uses it."""

    fsync, rename = staticmethod(_fsync), staticmethod(_rename)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _name() -> str:
    life = present.get()
    return life.host.resolver() if life is not None else "localhost"


@contextmanager
def _signals(*_numbers: int) -> Iterator[AsyncIterator[int]]:
    life = present.get()
    assert life is not None
    life.signals, received = trio.open_memory_channel[int](100)
    yield received


async def _connect(path: str) -> trio.SocketStream:
    check_alive()
    stream = await _OPEN_UNIX_SOCKET(path)
    life = present.get()
    if life is not None:
        life.streams.append(stream)
    return stream


_OPEN_UNIX_SOCKET, _CREDENTIALS_OF = trio.open_unix_socket, peer.credentials_of


def _credentials_of(sock: trio.socket.SocketType) -> peer.Credentials:
    return replace(_CREDENTIALS_OF(sock), pid=PID)


def _lock(state_dir: str) -> int:
    descriptor, life = lock(state_dir), present.get()
    assert life is not None
    life.locks.append(descriptor)
    return descriptor


async def _no_tcp(address: str, port: int) -> trio.SocketStream:
    """No node daemon can be reached."""
    raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


@contextmanager
def installed(world: World) -> Iterator[None]:
    """Replace the machine by that of the world within the block."""
    replacement, real = Machine(world), sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = real(*args, **{"factory": _Connection, **options})
        return connection

    def log(_logger: object, level: str, event: structlog.typing.EventDict) -> str:
        life = present.get()
        if (error := event.pop("exc_info", None)) is not None:
            error = sys.exc_info()[1] if error is True else error
            event["exception"] = f"{type(error).__name__}: {error}"
        if life is None or not life.killed:
            world.record("log", host=life.host.name if life else None, level=level, **event)
        raise structlog.DropEvent

    replaced: list[tuple[Any, str, Any]] = [
        (machine, "time", _Clock(world)),
        (machine, "check_cancelled", lambda: None),
        (machine, "run_in_loop", lambda _work: None),
        (machine, "start_thread", lambda work: work()),
        *(
            (machine, name, getattr(replacement, name))
            for name in ("run_sync", "run_process", "open_process")
        ),
        (machine, "random_bytes", replacement.random_bytes),
        (files, "os", _Files()),
        (os, "environ", _Environment(os.environ)),
        (socket, "getfqdn", _name),
        (sqlite3, "connect", connect),
        (sqlite3.dbapi2, "connect", connect),
        (trio, "open_signal_receiver", _signals),
        (trio, "open_unix_socket", _connect),
        (trio, "open_tcp_stream", _no_tcp),
        (peer, "credentials_of", _credentials_of),
        (service, "lock", _lock),
        (gc, "collect", lambda: 0),  # takes long, and nobody sees it
        (status, "resident_mib", lambda: 100),
    ]
    with ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(patch.object(files, "open", _open, create=True))
        before = structlog.get_config()
        structlog.configure(processors=[structlog.contextvars.merge_contextvars, log])
        try:
            yield
        finally:
            structlog.configure(**before)
