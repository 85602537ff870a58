"""The ledger beside the event loop. Its calls block, so a thread makes them, one at a time.

A database that is unavailable is tried again after a few seconds; until then nobody waits for it. The log has
one line when it becomes unavailable, and one when it is available again.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import trio

from htoolsd.ledger.records import ConflictError, LedgerError, UnavailableError, display_url

if TYPE_CHECKING:  # importing SQLAlchemy takes long
    from htoolsd.ledger.ledger import Ledger

_log = structlog.get_logger()

T = TypeVar("T")
Work = Callable[["Ledger"], T]

_REST = 5.0  # seconds from a failure until the database is tried again
_EXPIRY = 10.0  # seconds between two searches for expired claims
_COUNTING = 1.0  # seconds that the status waits for the counts


class LedgerWorker:
    """Runs work on the ledger at a URL. The ledger is opened for the first work."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ledger: Ledger | None = None
        self._turn = trio.CapacityLimiter(1)
        self.error: str | None = None  # why the database is unavailable
        self._retry_at = 0.0  # of time.monotonic
        self._conflicts = 0
        self._ending = False

    async def do(self, work: Work[T]) -> T:
        """Return the result of work, which the thread does after all earlier work.

        A cancelled caller does not wait for work that has begun; such work may still be completed. Raises
        LedgerError.
        """
        return await trio.to_thread.run_sync(self._run, work, abandon_on_cancel=True, limiter=self._turn)

    async def run(self) -> None:
        """Release expired claims until cancelled; then close the database."""
        try:
            while True:
                await self._release_expired()
                await trio.sleep(_EXPIRY)
        finally:
            self._ending = True
            if self._turn.available_tokens:  # otherwise the work in the thread closes it
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._close, limiter=self._turn)

    async def _release_expired(self) -> None:
        try:
            released = await self.do(lambda ledger: ledger.release_expired(time.time()))
        except LedgerError:
            return  # until the next time
        except Exception:  # a defect of ours; the daemon goes on without
            _log.exception("expired claims not released")
            return
        for each in released:
            _log.info("claim expired", consumer=each.name)

    async def status(self) -> dict[str, Any]:
        """Return the database, its error, and the numbers of providers, claims and conflicts."""
        counts: Mapping[str, int | None] = dict.fromkeys(("providers", "claims", "beyond"))
        with trio.move_on_after(_COUNTING) as waiting, suppress(UnavailableError):
            counts = await self.do(lambda ledger: ledger.counts())
        error = f"no answer within {_COUNTING:g} s" if waiting.cancelled_caught else self.error
        return {"database": display_url(self._url), "error": error, **counts, "conflicts": self._conflicts}

    def _run(self, work: Work[T]) -> T:
        try:
            return self._try(work)
        finally:
            if self._ending:
                self._close()

    def _try(self, work: Work[T]) -> T:
        if self.error is not None and time.monotonic() < self._retry_at:
            raise UnavailableError(self.error)
        try:
            if self._ledger is None:
                from htoolsd.ledger.ledger import Ledger  # imported late, so that the daemon is ready earlier

                self._ledger = Ledger(self._url)
            result = work(self._ledger)
        except ConflictError:
            self._conflicts += 1
            raise
        except UnavailableError as error:
            if self.error is None:
                _log.error("ledger unavailable", error=str(error))
            self.error = str(error)
            self._retry_at = time.monotonic() + _REST
            self._close()
            raise
        if self.error is not None:
            _log.info("ledger available again")
            self.error = None
        return result

    def _close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
