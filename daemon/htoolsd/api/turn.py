"""Turns of decisions: one decision at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.config.settings import Settings
from htoolsd.threads import after_thread

MAX_HUNG = 4  # hung decisions, after which no new decision begins


@dataclass(slots=True, eq=False)
class Attempt:
    """A decision that has the turn ``since`` a time of trio's clock: the limiter of its thread, its scope."""

    since: float = field(default_factory=trio.current_time)
    thread: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class DecisionTurn:
    """The turn to decide: first come, first served, after waiting at most ``wait_seconds``.

    A turn ends with its thread, even when nobody waits for the result. It can also be given up. Its thread
    cannot be ended, and counts as ``hung`` meanwhile.
    """

    def __init__(self, settings: Settings) -> None:
        self.running: Attempt | None = None
        self.hung: set[Attempt] = set()
        self._settings = settings
        self._free = trio.Semaphore(1)
        self._stopped = False
        self._waits: set[trio.CancelScope] = set()
        self._undecided = trio.lowlevel.ParkingLot()

    @property
    def waiting(self) -> int:
        """The number of waiting decisions."""
        return len(self._waits)

    async def idle(self) -> None:
        """Return when no decision runs or waits."""
        await trio.lowlevel.checkpoint()
        while self.running is not None or self._waits:
            await self._undecided.park()

    def stop(self) -> None:
        """Refuse all waiting and later decisions."""
        self._stopped = True
        for scope in self._waits:
            scope.cancel()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[trio.CapacityLimiter]:
        """Have the turn within a block, whose threads have the limiter. Raises RefusalError."""
        await self._wait()
        attempt = self.running = Attempt()
        try:
            with attempt.scope:
                yield attempt.thread
        finally:
            after_thread(attempt.thread, partial(self._end, attempt))
        if attempt.scope.cancelled_caught:
            longest = self._settings.now.decision_seconds
            raise RefusalError(Refusal.INTERNAL, f"the decision took longer than {longest:g} s")

    async def _wait(self) -> None:
        """Wait for the turn. Raises RefusalError."""
        if len(self.hung) >= MAX_HUNG:
            raise RefusalError(
                Refusal.BUSY, f"{len(self.hung)} decisions have hung; no new ones are accepted"
            )
        patience = self._settings.now.wait_seconds
        with trio.move_on_after(0 if self._stopped else patience) as scope:
            self._waits.add(scope)
            try:
                await self._free.acquire()
            finally:
                self._waits.remove(scope)
                self._undecided.unpark_all()
        if scope.cancelled_caught:
            if self._stopped:
                raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
            raise RefusalError(Refusal.BUSY, f"no turn within {patience:g} s: other decisions take too long")

    def give_up(self, longest: float) -> bool:
        """End the present turn if it lasts for longer; return whether it did. Its thread goes on."""
        attempt = self.running
        if attempt is None or trio.current_time() - attempt.since <= longest:
            return False
        self._end(attempt)
        self.hung.add(attempt)
        attempt.scope.cancel()
        return True

    def _end(self, attempt: Attempt) -> None:
        """End a turn, or note that the thread of one that was given up has ended."""
        if attempt in self.hung:
            self.hung.remove(attempt)
            return
        self.running = None
        self._free.release()
        self._undecided.unpark_all()
