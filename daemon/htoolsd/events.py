"""The stream of events: what has happened in the daemon, for all parts that act on it.

``publish`` hands an event to every follower before it returns, and all followers get events in one order. A
follower only changes memory and wakes its own task, which does the work. So a sender never waits, and there
is no queue between sender and follower that could lose an event. A follower that queues work bounds its own
queue, and counts what it drops. A defect of a follower reaches neither the sender nor the other followers.
"""

from collections import deque
from typing import Protocol

from htoolsd.tasks import note_defect


class DaemonEvent:
    """Something that has happened. Subclasses say what."""

    __slots__ = ()


class Follower(Protocol):
    """A part that acts on events."""

    def note(self, event: DaemonEvent) -> None:
        """Take note of an event, without waiting. Events that do not matter here are ignored."""


class EventStream:
    """The stream. Its followers are those of the whole life of the daemon."""

    def __init__(self, *followers: Follower) -> None:
        self._followers = followers
        self._waiting = deque[DaemonEvent]()

    def follow(self, *followers: Follower) -> None:
        """Add followers, which get later events after those before them."""
        self._followers += followers

    def publish(self, event: DaemonEvent) -> None:
        """Hand an event to all followers. An event of a follower comes after the present one."""
        self._waiting.append(event)
        if len(self._waiting) > 1:
            return
        while self._waiting:
            for follower in self._followers:
                try:
                    follower.note(self._waiting[0])
                except Exception as defect:
                    note_defect(f"events for {type(follower).__name__}", defect)
            self._waiting.popleft()
