"""Where the daemon's log goes and how it looks."""

import os
import select
import sys

import orjson
import structlog
from structlog.typing import EventDict, Processor

from ganeti_htools.model.errors import on_one_line

# Those of syslog, by structlog's levels.
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}


class Outlet:
    """A file-like object that writes lines to a descriptor and never waits or fails.

    The daemon goes on when its log is not read or cannot be. Lines for which there is no room are lost; their
    number is logged once there is room again.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._lost = 0

    def write(self, line: bytes) -> None:
        """Write a line, or as much of it as there is room for."""
        if self._lost and self._put(orjson.dumps({"event": "log lines lost", "lines": self._lost}) + b"\n"):
            self._lost = 0
        if self._lost or not self._put(line):
            self._lost += 1

    def flush(self) -> None:
        """Nothing is buffered, so there is nothing to do."""

    def _put(self, line: bytes) -> bool:
        # A descriptor that is ready has room for at least this many bytes, so the write does not block.
        for start in range(0, len(line), select.PIPE_BUF):
            if not self._room.poll(0):
                return False
            try:
                os.write(self._descriptor, line[start : start + select.PIPE_BUF])
            except OSError:
                return False
        return True


def configure() -> None:
    """Log to stderr: key=value at a terminal, one JSON object a line otherwise.

    Where that goes to the journal, each line begins with its priority (``sd-daemon(3)``).
    """
    ending: list[Processor] = [structlog.processors.format_exc_info, _line]
    if _to_journal():
        ending[-1] = _with_priority
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
        logger_factory=structlog.BytesLoggerFactory(Outlet(sys.stderr.fileno())),  # type: ignore[arg-type]
    )


def complain(text: str) -> None:
    """Print why the program ends, on one line of stderr."""
    priority = f"<{_PRIORITIES['error']}>" if _to_journal() else ""
    print(f"{priority}htoolsd: {text}", file=sys.stderr)


def _to_journal() -> bool:
    """Whether stderr is connected to the journal (``JOURNAL_STREAM``, ``systemd.exec(5)``)."""
    found = os.fstat(sys.stderr.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _harmless(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Text from clients or files is kept on one line and cut to a reasonable length."""
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
