"""Decisions without the daemon: ask the daemon again, or become the one-shot program.

The executable "htoolsd" loads this module only if the daemon gives no decision. Many processes may load it at
the same time, so it imports only what loads at once.
"""

from __future__ import annotations

import os
import time
from _socket import AF_UNIX, SOCK_DGRAM, socket
from errno import EADDRINUSE
from fcntl import F_DUPFD, fcntl
from os import path

TYPE_CHECKING = False  # importing typing would take longer than all else here
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

Decision = tuple[bytes, bytes, int]  # stdout, stderr and exit status

# From this directory to the one-shot program: in a checkout, and installed by `make install` or a package.
HAILS = ("../.venv/bin/hail", "../../htoolsd/bin/hail")
# Interpreters that may have it as a module: of the prefix, where pip has installed it, and of the system. A
# bin/hail of the prefix may be Ganeti's.
PREFIX_PYTHON, PYTHON = "../../../bin/python3", "/usr/bin/python3"
# Beside the socket. A running daemon touches this file now and then. If somebody keeps its socket, it sets
# the time to 0 when it ends: a refusal then means that it is not about to return.
SIGN = ".lock"
# Also beside the socket, if somebody keeps that: a datagram socket that is open while a daemon starts, and
# until it has had time to answer those who waited.
START = ".starting"
SYSTEM_LOG = "/dev/log"
PAUSE = 0.1  # seconds between questions
RECENTLY = 15  # seconds
# For these shares of the timeout, the executable only asks again: while a daemon is busy or was killed
# recently, and after a daemon has ended recently. It does not wait for a daemon that ended earlier.
BUSY, GONE = 0.5, 0.2
STARTING = 3.0  # while the next daemon starts: it needs less of the processor than two decisions without it
LAST_RESORT = 6.0  # timeouts after which this process decides without a slot


class Call(Protocol):
    """A decision asked of the daemon, as the executable declares it."""

    path: str
    arguments: list[str]
    began: float
    timeout: float

    def ask(self) -> None:
        """Send the request."""

    def answer(self) -> Decision:
        """Wait for the decision."""


def decide(call: Call, problem: Exception) -> Decision:
    """Ask again until there is a decision, or until this process may become the program that decides.

    A decision without the daemon takes a core for as long as many decisions of the daemon. It also keeps the
    daemon from coming back. So there are at most as many at a time as there are cores; all others ask again.
    """
    disconnections = 0
    while True:
        disconnections += isinstance(problem, (BrokenPipeError, ConnectionAbortedError, ConnectionResetError))
        # A request that has ended the daemon twice is not sent again.
        share = None if disconnections > 1 else patience(call, problem)
        spent = (time.monotonic() - call.began) / call.timeout
        if (spent >= (share or 0) and take_slot(call.path)) or spent >= LAST_RESORT:
            without = f"the daemon and its claims{unknown_data(call.path)}"
            report(f"{reason(call, problem)}; deciding without {without}", call.path)
            return become_hail(call.arguments)
        try:
            if not isinstance(problem, (TimeoutError, ProcessLookupError)):
                time.sleep(PAUSE / (1 + 2 * spent))  # the longer a process has waited, the more often it asks
                if share is None:
                    continue
                call.ask()
            return call.answer()
        except Exception as error:
            problem = error


def patience(call: Call, problem: Exception) -> float | None:
    """Return for which share of the timeout to only ask again; None if asking again is useless."""
    starting = STARTING if is_open(call.path + START) else None
    match refusal_kind(problem):
        case "busy":
            return BUSY
        case "stopping":
            return starting or 1.0  # the next question shows whether another daemon is about to start
    match problem:
        case BlockingIOError():  # so many wait; for whom shows the socket
            return BUSY if alive_recently(call.path + SIGN) else 0.0
        case TimeoutError():
            return starting or 1.0
        case ProcessLookupError():  # the daemon has ended, and somebody keeps the socket for the next one
            return starting or (1.0 if alive_recently(call.path + SIGN) else 0.0)
        case ConnectionRefusedError():
            return BUSY if changed_recently(call.path + SIGN) else 0.0
        case ConnectionError():
            return BUSY
        case FileNotFoundError(filename=None):  # the directory shows when the socket was removed
            return GONE if changed_recently(path.dirname(call.path) or ".") else 0.0
    return None


def refusal_kind(problem: Exception) -> str | None:
    """Return the kind of the daemon's refusal; None for all other problems."""
    return getattr(problem, "kind", None)


def changed_recently(name: str) -> bool:
    """Whether a file was modified in the last seconds."""
    return abs(time.time() - times(name)[0]) < RECENTLY


def alive_recently(name: str) -> bool:
    """Whether a sign of life was given in the last seconds. The sign of a daemon's end counts, too."""
    return abs(time.time() - times(name)[1]) < RECENTLY


def is_open(name: str) -> bool:
    """Whether a process has a datagram socket open; the kernel tells as soon as it has ended."""
    try:
        probe = socket(AF_UNIX, SOCK_DGRAM)
        probe.connect(name)
    except OSError:
        return False
    probe.close()
    return True


def times(name: str) -> tuple[float, float]:
    """Return when a file was modified, and when anything about it was changed; 0 if it is gone."""
    try:
        found = os.stat(name)
    except OSError:
        return 0.0, 0.0
    return found.st_mtime, found.st_ctime


def take_slot(name: str) -> bool:
    """Try to take one of a few names, and keep it until this process ends, also as another program.

    The names are abstract sockets, so no directory has to be writable. Another user could take all of them,
    which only delays decisions: see LAST_RESORT.
    """
    for number in range(len(os.sched_getaffinity(0))):
        try:
            slot = socket(AF_UNIX, SOCK_DGRAM)
            slot.bind(b"\0htoolsd%d%b" % (number, name.encode(errors="surrogateescape")[-90:]))
            fcntl(slot.fileno(), F_DUPFD, 3)  # inherited by the program; never replaces a closed stderr
            return True
        except OSError as error:
            if error.errno != EADDRINUSE:
                return True  # waiting would not help
    return False


def reason(call: Call, problem: Exception) -> str:
    """Describe why the daemon did not decide."""
    if refusal_kind(problem) is not None:
        return str(problem)
    match problem:
        case TimeoutError():
            return f"{call.path}: no answer within {call.timeout:g} s"
        case ProcessLookupError():
            return f"{call.path}: the daemon has ended"
        case OSError():
            return f"{problem.filename or call.path}: {problem.strerror or problem}"
    return f"{call.path}: the answer makes no sense ({type(problem).__name__})"


def unknown_data(name: str) -> str:
    """Describe what only the daemon knows, by files beside its socket; empty if it knows nothing more."""
    data = (".untagged", "inventories that are in no tag"), (".loaded", "measured load")
    return "".join([f", and without {what}" for mark, what in data if path.exists(name + mark)])


def report(text: str, name: str) -> None:
    """Write a line to stderr and to the system log, and count it in the file beside the daemon's socket.

    The daemon shows the size of this file as the number of decisions without it.
    """
    line = "".join([c if c.isprintable() else "?" for c in " ".join(text.split())]).encode()
    print_error(line)
    try:
        log = socket(AF_UNIX, SOCK_DGRAM)
        log.setblocking(False)  # a line that the log has no room for is lost
        stamp = time.strftime("%b %e %H:%M:%S").encode()
        log.sendto(b"<28>%b htoolsd[%d]: %b" % (stamp, os.getpid(), line[:1000]), SYSTEM_LOG)
    except OSError:
        pass
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        counter = os.open(name + ".alone", flags, 0o660)
        os.write(counter, b".")
        os.close(counter)
    except OSError:
        pass


def print_error(line: bytes) -> None:
    """Write a line to stderr, which may be closed."""
    try:
        os.write(2, b"htoolsd: %b\n" % line)
    except OSError:
        pass


def become_hail(arguments: list[str]) -> Decision:
    """Replace this process by the one-shot program. Returns an error only if there is none."""
    directory = path.dirname(path.realpath(__file__))
    installed = [name for name in (path.join(directory, hail) for hail in HAILS) if os.access(name, os.X_OK)]
    commands = [[name] for name in (os.environ.get("HTOOLSD_HAIL"), *installed) if name]
    # Settings of another Python are not for ours. HTOOLSD_HAIL may name this executable: it is tried once.
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HTOOLSD_HAIL"))
    }
    prefix_python = path.join(directory, PREFIX_PYTHON)
    pythons = [prefix_python, PYTHON] if os.access(prefix_python, os.X_OK) else [PYTHON]
    modules = [[name, "-I", "-m", "ganeti_htools.cli.hail"] for name in pythons]
    for command in [*commands, *modules]:
        try:
            os.execve(command[0], command + arguments, environment)
        except OSError as error:
            print_error(f"{command[0]}: {error.strerror}".encode(errors="replace"))
    return b"", b"", 1
