"""The daemon's log: its destination and its form."""

import os
import select
import socket
import sys
from contextlib import suppress

import orjson
import structlog
from structlog.typing import EventDict, Processor

from ganeti_htools.model.errors import on_one_line

_JOURNAL = "/run/systemd/journal/socket"  # of systemd-journald.service(8)
# Priorities of syslog by level of structlog.
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}


class NonBlockingLog:
    """A file-like object that writes lines to a descriptor, and never waits or fails.

    The daemon goes on when nobody reads its log. A line without any room is lost; the number of lost lines is
    logged later. Of a line without room for all of it, the rest is written before any other line.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._lost = 0
        self._rest = b""  # of a line that was begun

    def write(self, line: bytes) -> None:
        """Write a line, or count it as lost."""
        if self._lost and self._put(orjson.dumps({"event": "log lines lost", "lines": self._lost}) + b"\n"):
            self._lost = 0
        if self._lost or not self._put(line):
            self._lost += 1

    def flush(self) -> None:
        """Do nothing: nothing else is buffered."""

    def _put(self, line: bytes) -> bool:
        """Return whether a line was written, or is begun."""
        if self._write(self._rest):
            return False
        begun = self._write(line) != line
        if not begun:
            self._rest = b""
        return begun

    def _write(self, data: bytes) -> bytes:
        """Write what there is room for, keep the rest, and return it."""
        # A ready descriptor has room for PIPE_BUF bytes, so the write does not block.
        while data and self._room.poll(0):
            try:
                data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
            except OSError:
                break
        self._rest = data
        return data


class JournalLog(NonBlockingLog):
    """Sends each line to the journal as a datagram (systemd's native protocol): it arrives whole, or is lost.

    A line begins with its priority, as on stderr.
    """

    def __init__(self) -> None:
        self._lost = 0

    def _put(self, line: bytes) -> bool:
        """Return whether the journal took a line."""
        priority, text = (line[1:2], line[3:]) if line.startswith(b"<") else (b"6", line)
        fields = b"PRIORITY=%b\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=htoolsd\nMESSAGE=%b\n"
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(fields % (priority, text.rstrip()), socket.MSG_DONTWAIT, _JOURNAL)
            return True
        return False


def configure() -> None:
    """Log to stderr: key=value at a terminal, otherwise one JSON object per line.

    If stderr is the journal, lines begin with their priority (``sd-daemon(3)``), and go to the journal's
    socket where there is one.
    """
    outlet = NonBlockingLog(sys.stderr.fileno())
    ending: list[Processor] = [structlog.processors.format_exc_info, _line]
    if _to_journal():
        ending[-1] = _with_priority
        if os.path.exists(_JOURNAL):
            outlet = JournalLog()
    if sys.stderr.isatty():
        ending = [structlog.dev.ConsoleRenderer(), _encoded]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _harmless,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *ending,
        ],
        logger_factory=structlog.BytesLoggerFactory(outlet),  # type: ignore[arg-type]
    )


def print_error(text: str) -> None:
    """Print the error that ends the program, on one line of stderr."""
    priority = f"<{_PRIORITIES['error']}>" if _to_journal() else ""
    print(f"{priority}htoolsd: {text}", file=sys.stderr)


def _to_journal() -> bool:
    """Whether stderr is connected to the journal (``JOURNAL_STREAM``, ``systemd.exec(5)``)."""
    found = os.fstat(sys.stderr.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _harmless(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Keep text from clients and files on one line, and cut it to a reasonable length."""
    return {key: _shown(value) for key, value in event.items()}


def _shown(value: object) -> object:
    match value:
        case str():
            return on_one_line(value)
        case list() | tuple():
            return type(value)(map(_shown, value))
    return value


def _line(_logger: object, _method: str, event: EventDict) -> bytes:
    return orjson.dumps(event, default=str)


def _with_priority(logger: object, method: str, event: EventDict) -> bytes:
    return b"<%d>%b" % (_PRIORITIES[event["level"]], _line(logger, method, event))


def _encoded(_logger: object, _method: str, line: object) -> bytes:
    return str(line).encode(errors="backslashreplace")
