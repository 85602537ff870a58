"""Whose turn it is to decide: one at a time, in a thread."""

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError

MOST_LOST = 4  # decisions that do not end; then no more are begun


class Turn:
    """Whose turn it is: one at a time, first come first served, waiting at most ``patience`` seconds.

    Given to trio as a thread's limiter, so that a turn ends when its thread does, even when nobody waits for
    the result any more. A turn can also be given up; its thread, which nobody can end, is then lost.
    """

    def __init__(self, patience: float) -> None:
        self.running_since: float | None = None
        self.patience = patience
        self.lost: set[object] = set()
        self._holder: object = None
        self._limiter = trio.CapacityLimiter(1)
        self._stopped = False
        self._waits: set[trio.CancelScope] = set()

    @property
    def waiting(self) -> int:
        """The number of decisions that wait."""
        return len(self._waits)

    def stop(self) -> None:
        """Refuse those who wait and all who come later."""
        self._stopped = True
        for scope in self._waits:
            scope.cancel()

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for the turn. Raises RefusalError."""
        if len(self.lost) >= MOST_LOST:
            raise RefusalError(Refusal.BUSY, f"{len(self.lost)} decisions do not end")
        with trio.move_on_after(0 if self._stopped else self.patience) as scope:
            self._waits.add(scope)
            try:
                await self._limiter.acquire_on_behalf_of(borrower)
            finally:
                self._waits.remove(scope)
        if scope.cancelled_caught:
            if self._stopped:
                raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
            raise RefusalError(Refusal.BUSY, f"other decisions took longer than {self.patience:g} s")
        self.running_since, self._holder = trio.current_time(), borrower

    def release_on_behalf_of(self, borrower: object) -> None:
        """End the turn."""
        if borrower in self.lost:
            self.lost.remove(borrower)
        else:
            self.running_since = None
            self._limiter.release_on_behalf_of(borrower)

    def give_up(self) -> object:
        """End the present turn and return its holder, whose thread goes on nevertheless."""
        self.lost.add(self._holder)
        self.running_since = None
        self._limiter.release_on_behalf_of(self._holder)
        return self._holder


class Attempt:
    """One decision that takes a turn: the limiter of its thread, and the scope that ends the wait for it."""

    def __init__(self, turn: Turn) -> None:
        self.scope = trio.CancelScope()
        self._turn = turn

    async def acquire_on_behalf_of(self, _borrower: object) -> None:
        await self._turn.acquire_on_behalf_of(self)

    def release_on_behalf_of(self, _borrower: object) -> None:
        self._turn.release_on_behalf_of(self)
