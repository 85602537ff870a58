"""Forks of an interpreter that has imported all programs: importing takes longer than most tests.

A forked program has its own arguments, environment, streams and signals. Other tests start the same programs
with a new interpreter: those of streams and of signals.
"""

import atexit
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

_LENGTH = struct.Struct("!I")  # of an order
_PID = struct.Struct("!I")
_starting = threading.Lock()


class Process:
    """A forked program, used like ``subprocess.Popen``."""

    def __init__(self, pid: int, status: int, stdout: TextIOWrapper | None = None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = stdout
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status, None while the program runs."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raise subprocess.TimeoutExpired."""
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(os.read(self._status, 100))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> None:
        """Wait for the end, and close the output."""
        self.wait()
        if self.stdout is not None:
            self.stdout.close()


def start(
    program: str,
    arguments: Sequence[object],
    *,
    environment: Mapping[str, str] = os.environ,
    directory: str = "",
    given: int | None = None,
    output: int | None = None,
    error: int | None = None,
) -> Process:
    """Run ``htoolsd``, ``htools-simulator`` or the Python script of that path, here or in a directory.

    Its standard input is the descriptor ``given``, by default empty. Its standard output goes to the
    descriptor ``output``, by default to a pipe. Its standard error goes to the descriptor ``error``, by
    default to that of this process.
    """
    ignored = [number for number in _RESTORED if signal.getsignal(number) is signal.SIG_IGN]
    order = {
        "argv": [program, *map(str, arguments)],
        "environment": dict(environment),
        "directory": directory or os.getcwd(),
        "ignored": ignored,
    }
    data = json.dumps(order).encode()
    status, theirs = os.pipe()
    read, write = os.pipe() if output is None else (None, output)
    error = 2 if error is None else error
    with open(os.devnull) as nothing:
        with _starting:
            server = _server()
            streams = nothing.fileno() if given is None else given, write, error
            socket.send_fds(server, [_LENGTH.pack(len(data))], [*streams, theirs])
            server.sendall(data)
        os.close(theirs)
        if output is None:
            os.close(write)
    (pid,) = _PID.unpack(os.read(status, _PID.size))
    return Process(pid, status, None if read is None else os.fdopen(read))


@cache
def _server() -> socket.socket:
    """Start the interpreter that forks; it ends with this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.preloaded", str(theirs.fileno())],
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# The server itself.

_RESTORED = signal.SIGINT, signal.SIGHUP
Program = Callable[[], int]


def _preload() -> dict[str, Program]:
    """Import the programs, and what they import later; return them by name."""
    import ganeti_htools.cli
    import htoolsd

    for package in htoolsd, ganeti_htools.cli:
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not each.name.endswith("__main__"):
                import_module(each.name)
    for late in "alembic.migration", "encodings.idna", "sqlalchemy.dialects.sqlite":
        import_module(late)
    from ganeti_htools.simulator import program
    from htoolsd.notify import notifier
    from htoolsd.process import service
    from htoolsd.store import worker
    from tests.support import installed_ganeti

    installed_ganeti.ignore()
    # Tests wait for a database that works again, and for notifications.
    worker._REST = worker._EXPIRY = notifier._LOOK_SECONDS = 0.5
    return {"htoolsd": service.main, "htools-simulator": program.main}


def _serve(orders: socket.socket) -> tuple[list[str], dict[str, Program]]:
    """Fork for each order; return the arguments in the child."""
    programs = _preload()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        head, descriptors, _, _ = socket.recv_fds(orders, _LENGTH.size, 4)
        _reap()
        if not head:
            os._exit(0)
        (length,) = _LENGTH.unpack(head)
        data = b""
        while len(data) < length:
            data += orders.recv(length - len(data))
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    *streams, status = descriptors
    child = os.fork()
    if child:
        _monitor(child, status)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    orders.detach()
    os.closerange(3, max(descriptors) + 20)
    order: dict[str, Any] = json.loads(data)
    for number in _RESTORED:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in order["ignored"] else usual)
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    os.chdir(order["directory"])
    return order["argv"], programs


def _reap() -> None:
    """Wait for the monitors that have ended: their times count as ours."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _monitor(child: int, status: int) -> NoReturn:
    """Report the identifier of a process, and its exit status."""
    os.dup2(status, 0)
    os.closerange(1, status + 20)
    os.write(0, _PID.pack(child))
    ended = os.waitpid(child, 0)[1]
    try:
        os.write(0, b"%d" % os.waitstatus_to_exitcode(ended))
    finally:
        os._exit(0)


def main() -> int:
    """Run what is ordered, in a child."""
    sys.argv, programs = _serve(socket.socket(fileno=int(sys.argv[1])))
    if (program := programs.get(sys.argv[0])) is not None:
        return program()
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
