"""The events of the history that wait to be announced, and the outcome of the last call."""

from collections import deque
from typing import Any

import structlog
import trio

from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent
from htoolsd.history.entries import HistoryEntry
from htoolsd.notify.events import Event, event_of

_log = structlog.get_logger()

WAITING = 1000  # events of the history that wait


class Outbox:
    """Events that wait to be announced (``waiting``; ``dropped`` ones are counted), and the last outcome.

    ``news`` is set when an event comes; another one follows.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.waiting = deque[Event]()
        self.dropped = 0
        self.delivered: float | None = None
        self.error: str | None = None
        self.news = trio.Event()

    def note(self, event: DaemonEvent) -> None:
        """Have plans and decisions of policies announced, without waiting."""
        if self._settings.now.notify.way is None or not isinstance(event, HistoryEntry):
            return
        if (notification := event_of(event)) is None:
            return
        self.waiting.append(notification)
        self.news.set()
        if len(self.waiting) > WAITING:
            self.waiting.popleft()
            if not self.dropped:
                _log.warning("notifications dropped", waiting=WAITING)
            self.dropped += 1

    def status(self) -> dict[str, Any]:
        """Return the way, the numbers of events that wait and that were dropped, the last call, its error."""
        return {
            "way": self._settings.now.notify.way,
            "waiting": len(self.waiting),
            "dropped": self.dropped,
            "delivered": self.delivered,
            "error": self.error,
        }
