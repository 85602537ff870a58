"""Turns of decisions: one decision at a time, in a thread."""

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.config.settings import Settings

MAX_HUNG = 4  # hung decisions, after which no new decision begins


class DecisionTurn:
    """The turn to decide: first come, first served, after waiting at most ``wait_seconds``.

    It is the limiter of trio's thread, so a turn ends with its thread, even when nobody waits for the result.
    A turn can also be given up. Its thread cannot be ended, and counts as ``hung`` meanwhile.
    """

    def __init__(self, settings: Settings) -> None:
        self.running_since: float | None = None
        self._settings = settings
        self.hung: set[object] = set()
        self._holder: object = None
        self._limiter = trio.CapacityLimiter(1)
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
        while self.running_since is not None or self._waits:
            await self._undecided.park()

    def stop(self) -> None:
        """Refuse all waiting and later decisions."""
        self._stopped = True
        for scope in self._waits:
            scope.cancel()

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for the turn. Raises RefusalError."""
        if len(self.hung) >= MAX_HUNG:
            raise RefusalError(
                Refusal.BUSY, f"{len(self.hung)} decisions have hung; no new ones are accepted"
            )
        patience = self._settings.now.wait_seconds
        with trio.move_on_after(0 if self._stopped else patience) as scope:
            self._waits.add(scope)
            try:
                await self._limiter.acquire_on_behalf_of(borrower)
            finally:
                self._waits.remove(scope)
                self._undecided.unpark_all()
        if scope.cancelled_caught:
            if self._stopped:
                raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
            raise RefusalError(Refusal.BUSY, f"no turn within {patience:g} s: other decisions take too long")
        self.running_since, self._holder = trio.current_time(), borrower

    def release_on_behalf_of(self, borrower: object) -> None:
        """End the turn."""
        if borrower in self.hung:
            self.hung.remove(borrower)
        else:
            self._end(borrower)

    def give_up(self) -> object:
        """End the present turn and return its holder. The holder's thread goes on."""
        self.hung.add(self._holder)
        self._end(self._holder)
        return self._holder

    def _end(self, borrower: object) -> None:
        self.running_since = None
        self._limiter.release_on_behalf_of(borrower)
        self._undecided.unpark_all()


class DecisionAttempt:
    """One decision that takes a turn: the limiter of its thread, and the scope of the wait for the thread."""

    def __init__(self, turn: DecisionTurn) -> None:
        self.scope = trio.CancelScope()
        self._turn = turn

    async def acquire_on_behalf_of(self, _borrower: object) -> None:
        await self._turn.acquire_on_behalf_of(self)

    def release_on_behalf_of(self, _borrower: object) -> None:
        self._turn.release_on_behalf_of(self)
