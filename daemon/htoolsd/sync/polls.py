"""The state of luxid, statistics of the polls, and what they show."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from ganeti_htools import machine
from htoolsd.events import DaemonEvent
from htoolsd.sync.model import Model

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Polled(DaemonEvent):
    """Data of Ganeti was polled, and is in the model."""

    model: Model


@dataclass(frozen=True, slots=True)
class RoleChanged(DaemonEvent):
    """This node has become the master, or is it no more."""

    master: bool | None


@dataclass(slots=True)
class LuxidState:
    """Whether luxid answers, ``since`` when (seconds of the epoch), and the last error."""

    path: str
    state: Literal["not tried yet", "reachable", "unreachable", "not asked"] = "not tried yet"
    since: float = field(default_factory=machine.now)
    error: str | None = None

    def update(
        self, state: Literal["reachable", "unreachable", "not asked"], error: str | None = None
    ) -> None:
        """Record the present state and its reason; log changes."""
        if (state, error) == (self.state, self.error):
            return
        if state != self.state:
            self.state, self.since = state, machine.now()
        self.error = error
        log = _log.warning if state == "unreachable" else _log.info
        log("luxid", state=state, error=error, path=self.path)


@dataclass(slots=True)
class PollStatistics:
    """Statistics of the polls for one kind of data. ``error`` is that of the last poll."""

    done: int = 0
    failed: int = 0
    error: str | None = None
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=100))  # milliseconds

    def status(self) -> dict[str, Any]:
        """Return the counts, the error, and the duration of the last poll in milliseconds."""
        last = self.recent[-1] if self.recent else None
        return {"done": self.done, "failed": self.failed, "error": self.error, "last_ms": last}


def log_ignored(lines: Iterable[str]) -> None:
    """Log what is wrong with data about storage."""
    for line in lines:
        _log.warning("storage data ignored", error=line)
