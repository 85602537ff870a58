"""The ledger beside the event loop: its calls block, so they are made in a thread, one at a time.

A database that cannot be used is tried again a moment later; until then nobody waits for it. That it cannot
be used, and that it can again, is logged here, once.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import trio

from htoolsd.ledger.records import ConflictError, LedgerError, UnavailableError
from htoolsd.ledger.urls import shown

if TYPE_CHECKING:
    from htoolsd.ledger.ledger import Ledger

_log = structlog.get_logger()

T = TypeVar("T")
Work = Callable[["Ledger"], T]

_REST = 5.0  # seconds from a failure until the database is tried again
_EXPIRY = 10.0  # seconds between two looks for claims whose time has come
_COUNTING = 1.0  # seconds that the status waits for


class Worker:
    """Has work done on the ledger at a URL, which is opened when there is work."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ledger: Ledger | None = None
        self._turn = trio.CapacityLimiter(1)
        self.error: str | None = None  # why the database cannot be used
        self._again = 0.0  # when it may be tried again
        self._conflicts = 0
        self._ending = False

    async def do(self, work: Work[T]) -> T:
        """The result of work, done in the thread after all that was asked for before.

        Whoever is cancelled meanwhile does not wait for work that has begun; it may still be done. Raises
        LedgerError.
        """
        return await trio.to_thread.run_sync(self._done, work, abandon_on_cancel=True, limiter=self._turn)

    async def run(self) -> None:
        """Release claims whose time has come. Runs until cancelled; then the database is closed."""
        try:
            while True:
                await self._expire()
                await trio.sleep(_EXPIRY)
        finally:
            self._ending = True
            if self._turn.available_tokens:  # otherwise the work that is being done closes it
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._close, limiter=self._turn)

    async def _expire(self) -> None:
        try:
            released = await self.do(lambda ledger: ledger.release_expired(time.time()))
        except LedgerError:
            return  # until the next time
        except Exception:  # a defect of ours; the daemon goes on without
            _log.exception("claims do not expire")
            return
        for each in released:
            _log.info("claim has expired", consumer=each.name)

    async def status(self) -> dict[str, Any]:
        """Which database, why it cannot be used, how much is in it, how often somebody else was first."""
        counts: Mapping[str, int | None] = dict.fromkeys(("providers", "claims", "beyond"))
        with trio.move_on_after(_COUNTING) as waiting, suppress(UnavailableError):
            counts = await self.do(lambda ledger: ledger.counts())
        error = f"no answer within {_COUNTING:g} s" if waiting.cancelled_caught else self.error
        return {"database": shown(self._url), "error": error, **counts, "conflicts": self._conflicts}

    def _done(self, work: Work[T]) -> T:
        try:
            return self._tried(work)
        finally:
            if self._ending:
                self._close()

    def _tried(self, work: Work[T]) -> T:
        if self.error is not None and time.monotonic() < self._again:
            raise UnavailableError(self.error)
        try:
            if self._ledger is None:
                from htoolsd.ledger.ledger import Ledger  # takes a while: the daemon is ready before

                self._ledger = Ledger(self._url)
            result = work(self._ledger)
        except ConflictError:
            self._conflicts += 1
            raise
        except UnavailableError as error:
            if self.error is None:
                _log.error("ledger cannot be used", error=str(error))
            self.error = str(error)
            self._again = time.monotonic() + _REST
            self._close()
            raise
        if self.error is not None:
            _log.info("ledger is used again")
            self.error = None
        return result

    def _close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
