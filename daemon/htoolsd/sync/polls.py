"""Whether luxid can be reached, and how the polls went."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

_log = structlog.get_logger()


@dataclass(slots=True)
class Luxi:
    """What is known of luxid. ``since`` is seconds of the epoch."""

    path: str
    state: Literal["not tried yet", "reachable", "unreachable", "not asked"] = "not tried yet"
    since: float = field(default_factory=time.time)
    error: str | None = None

    def found(
        self, state: Literal["reachable", "unreachable", "not asked"], error: str | None = None
    ) -> None:
        """Note the present state of luxid, and why."""
        if (state, error) == (self.state, self.error):
            return
        if state != self.state:
            self.state, self.since = state, time.time()
        self.error = error
        say = _log.warning if state == "unreachable" else _log.info
        say("luxi", state=state, error=error, path=self.path)


@dataclass(slots=True)
class Polls:
    """Statistics of the polls for one kind of data. ``error`` is what went wrong the last time."""

    done: int = 0
    failed: int = 0
    error: str | None = None
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=100))  # milliseconds

    def status(self) -> dict[str, Any]:
        """The counts, and milliseconds."""
        last = self.recent[-1] if self.recent else None
        return {"done": self.done, "failed": self.failed, "error": self.error, "last_ms": last}
