"""The ledger beside the event loop. Its calls block, so threads make them.

Claims of decisions have a thread and a connection of their own: they do not wait for the thread that follows
the cluster. A file has one thread, since SQLite lets only one connection write.

Every wait has a limit. Work that takes longer is interrupted, and the database counts as unavailable. It is
tried again after a few seconds; until then nobody waits for it. The log has one line when it becomes
unavailable, and one when it is available again.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import HtoolsError
from htoolsd.config.ledger import display_url, is_file
from htoolsd.damaged_files import DATABASE_ERRORS
from htoolsd.store.expiry import ClaimEnds
from htoolsd.store.records import ConflictError, DamagedError, LedgerError, UnavailableError

if TYPE_CHECKING:  # importing SQLAlchemy takes long
    from htoolsd.store.ledger import Ledger

_log = structlog.get_logger()

T = TypeVar("T")
Work = Callable[["Ledger"], T]

LIMIT = 5.0  # seconds that callers wait for a result
_REST = 5.0  # seconds from a failure until the database is tried again
_EXPIRY = 15.0  # seconds between two searches for expired claims
_COUNTING = 1.0  # seconds that the status waits for the counts
_OPENING = 30.0  # seconds after the start in which the database may not be open yet
_CLOSING = 2.0  # seconds that the end of the daemon waits for the database


class Outages:
    """The threads that cannot use the database: the log has a line before the first and after the last."""

    def __init__(self) -> None:
        self._threads = set[LedgerThread]()
        self._lock = threading.Lock()

    def note(self, thread: "LedgerThread", error: str | None) -> None:
        """Note that a thread cannot use the database, or that it can again (None)."""
        with self._lock:
            before = bool(self._threads)
            if error is not None:
                self._threads.add(thread)
                if not before:
                    _log.error("ledger unavailable", error=error)
            else:
                self._threads.discard(thread)
                if before and not self._threads:
                    _log.info("ledger available again")


class LedgerThread:
    """A thread with a connection of its own, which is opened for the first work.

    ``error`` is the reason why the database is unavailable. ``opened`` is the number of connections so far:
    after a new one, the content may be another.
    """

    def __init__(self, url: str, outages: Outages) -> None:
        self._url = url
        self._outages = outages
        self._ledger: Ledger | None = None
        self._turn = trio.CapacityLimiter(1)
        self._retry_at = 0.0  # of machine.steady
        self._late_at = 0.0  # of machine.steady, for the work in the thread
        self._interrupted = False  # the work in the thread, which fails of it
        self._ending = False
        self.error: str | None = None
        self.conflicts = 0
        self.opened = 0

    async def do(self, work: Work[T], limit: float = LIMIT, probe: bool = True) -> T:
        """Return the result of work, which the thread does after all earlier work.

        A cancelled caller does not wait for work that has begun; such work may still be completed. Raises
        LedgerError: UnavailableError after ``limit`` seconds, and at once for a database that is known to be
        unavailable. Only calls that ``probe`` try such a database again.
        """
        self._refuse(probe)
        with trio.move_on_after(limit):
            return await machine.run_sync(self._run, work, limit, abandon_on_cancel=True, limiter=self._turn)
        within = f"{limit:g} s" if limit >= 1 else f"{limit * 1000:.0f} ms"
        error = UnavailableError(f"no answer within {within}")
        if not self._turn.available_tokens and machine.steady() >= self._late_at and not is_file(self._url):
            self._note(str(error))
            if (ledger := self._ledger) is not None:
                self._interrupted = True
                ledger.interrupt()
        raise error

    async def close(self) -> None:
        """Close the connection: now, or when the present work has ended."""
        self._ending = True
        if self._turn.available_tokens:
            with trio.move_on_after(_CLOSING, shield=True):
                await machine.run_sync(self._close, abandon_on_cancel=True, limiter=self._turn)

    def _refuse(self, probe: bool = True) -> None:
        """Raise UnavailableError for a database that is not tried now."""
        if self.error is not None and (not probe or machine.steady() < self._retry_at):
            raise UnavailableError(self.error)

    def _note(self, error: str | None) -> None:
        if error is not None:
            self._retry_at = machine.steady() + _REST
        self.error = error
        self._outages.note(self, error)

    def _run(self, work: Work[T], limit: float) -> T:
        self._refuse()
        self._late_at = machine.steady() + 0.9 * limit
        self._interrupted = False
        try:
            return self._try(work)
        finally:
            if self._ending:
                self._close()

    def _try(self, work: Work[T]) -> T:
        try:
            if self._ledger is None:
                from htoolsd.store.ledger import Ledger  # imported late, so that the daemon is ready earlier

                self._ledger = Ledger(self._url)
                self.opened += 1
            self._ledger.check_file()
            result = work(self._ledger)
        except ConflictError:
            self.conflicts += 1
            raise
        except UnavailableError as error:
            self._note(self.error if self._interrupted else str(error))
            self._close()
            if isinstance(error, DamagedError) and is_file(self._url):
                from htoolsd.store.damaged_ledger import replace_damaged

                with suppress(OSError, LedgerError, *DATABASE_ERRORS):
                    replace_damaged(self._url)
            raise
        if self.error is not None:
            self._note(None)
        return result

    def _close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None


class LedgerWorker(LedgerThread):
    """The thread for all work on the ledger at a URL but claims of decisions.

    Those have the thread ``claims``; only with a ``shared`` database it is another one. ``ends`` are those of
    claims made by hand.
    """

    def __init__(self, url: str) -> None:
        outages = Outages()
        super().__init__(url, outages)
        self.shared = not is_file(url)
        self.claims = LedgerThread(url, outages) if self.shared else self
        self.ends = ClaimEnds()
        self._defect = ""
        self._started = machine.steady()

    async def run(self) -> None:
        """Release expired claims until cancelled; then close the database."""
        try:
            while True:
                await self._release_expired()
                await trio.sleep(_EXPIRY)
        finally:
            for thread in {self, self.claims}:
                await thread.close()

    async def status(self) -> dict[str, Any]:
        """Return the database, its error, and the numbers of providers, claims and conflicts."""
        counts: Mapping[str, int | None] = dict.fromkeys(("providers", "claims", "over_capacity"))
        error = None
        try:
            with trio.move_on_after(_COUNTING) as waiting, suppress(LedgerError):
                counts = await self.do(lambda ledger: ledger.counts(), probe=False)
            if waiting.cancelled_caught and (self.opened or machine.steady() - self._started > _OPENING):
                error = f"no answer within {_COUNTING:g} s"
        except Exception as defect:  # of ours, or of the database; the status reports it
            error = self._note_defect(defect)
        return {
            "database": display_url(self._url),
            "error": self.error or self.claims.error or error,
            **counts,
            "conflicts": sum(thread.conflicts for thread in {self, self.claims}),
        }

    async def _release_expired(self) -> None:
        try:
            claims = await self.do(lambda ledger: ledger.expiring())
            due = self.ends.due(claims, machine.now(), trio.current_time())
            released = await self.do(lambda ledger: ledger.release_unless_renewed(due)) if due else ()
        except LedgerError:
            return  # until the next time
        except Exception as defect:  # of ours; the daemon goes on without
            self._note_defect(defect)
            return
        for each in released:
            _log.info("claim expired", consumer=each.name)

    def _note_defect(self, defect: Exception) -> str:
        """Log a defect unless it was the last one, and return it as text."""
        text = str(HtoolsError(f"{type(defect).__name__}: {defect}"))
        if text != self._defect:
            _log.error("ledger work failed", exc_info=defect)
        self._defect = text
        return text
