"""The history: decisions, plans and decisions of policies, written by a task of its own.

Noting an entry never waits: a thread writes it a moment later. While the disk refuses writes, entries stay in
memory, as many as fit.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import HtoolsError
from htoolsd.config.settings import Settings
from htoolsd.damaged_files import DATABASE_ERRORS
from htoolsd.events import DaemonEvent
from htoolsd.history.database import HistoryDatabase, Sample
from htoolsd.history.entries import Document, HistoryEntry, HistoryQuery

_log = structlog.get_logger()

T = TypeVar("T")

MAX_IN_MEMORY = 10_000  # entries
_PAUSE = 0.5  # seconds between two writes; kill -9 loses the entries since the last one
_RETRY = 10.0  # seconds after a failed write
_FORGET_EVERY = 3600.0  # seconds between deletions of old entries
_LAST_SECONDS = 2.0  # for the last write
_DAY = 86400.0


class History:
    """All entries, in the file at ``path``, as far back as the settings say."""

    def __init__(self, path: str, settings: Settings) -> None:
        self._settings = settings
        self._path = path
        self._database: HistoryDatabase | None = None
        self._noted = deque[HistoryEntry]()
        self._batch: tuple[HistoryEntry, ...] = ()  # what a thread writes
        self._news = trio.Event()
        self._turn = trio.CapacityLimiter(1)
        self._forgotten = -_FORGET_EVERY
        self._lost = 0
        self._error: str | None = None

    def note(self, event: DaemonEvent) -> None:
        """Note an event that the history records, without waiting."""
        if isinstance(event, HistoryEntry):
            self._noted.append(event)
            self._drop_excess()
            self._news.set()

    def status(self) -> dict[str, Any]:
        """Return the numbers of entries that wait to be written, are lost and are damaged, and the error."""
        waiting, database = len(self._noted) + len(self._batch), self._database
        return {
            "path": self._path,
            "waiting": waiting,
            "lost": self._lost,
            "damaged": len(database.damaged) if database is not None else 0,
            "error": self._error,
        }

    async def run(self) -> None:
        """Write noted entries until cancelled; then write the rest."""
        try:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                await self._write()
                if self._error is not None:
                    self._news.set()
                await trio.sleep(_PAUSE if self._error is None else _RETRY)
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                await self._write()

    async def find(self, query: HistoryQuery) -> list[Document]:
        """Return the entries of a query, in order."""
        await self._write()
        if self._error is None:
            found = await self._in_thread(lambda database: database.find(query))
            if found is not None:
                return found
        noted = [document for entry in self._noted if query.matches(document := entry.to_json())]
        return noted[max(0, len(noted) - query.most) :]

    async def samples(self) -> list[Sample] | None:
        """Return the samples of resources, the oldest first; None if the database cannot be used."""
        return await self._in_thread(lambda database: database.samples())

    async def add_samples(self, samples: Sequence[Sample], oldest: int) -> None:
        """Write samples if the database can be used (:meth:`.HistoryDatabase.add_samples`)."""
        await self._in_thread(lambda database: database.add_samples(samples, oldest))

    async def _write(self) -> None:
        while self._batch or self._noted:
            if not self._batch:
                self._batch = tuple(self._noted)
                self._noted.clear()
            batch = self._batch

            def write(database: HistoryDatabase, batch: tuple[HistoryEntry, ...] = batch) -> bool:
                if self._batch is not batch:  # the thread of another caller, which may have left, wrote it
                    return True
                database.add(batch)
                now = machine.steady()
                if now >= self._forgotten + _FORGET_EVERY:
                    kept = self._settings.now
                    database.forget(machine.now() - kept.history_days * _DAY, kept.history_mib << 20)
                    self._forgotten = now
                self._batch = ()
                return True

            if await self._in_thread(write) is None:
                if self._batch is batch:
                    self._batch = ()
                    self._noted.extendleft(reversed(batch))
                    self._drop_excess()
                return

    async def _in_thread(self, work: Callable[[HistoryDatabase], T]) -> T | None:
        """Return the result of work on the database, in a thread; None if the database cannot be used.

        A cancelled caller does not wait for its end, since the disk may hang.
        """

        def run() -> T:
            if self._database is None:
                os.makedirs(os.path.dirname(self._path), 0o750, exist_ok=True)
                self._database = HistoryDatabase(self._path)
            try:
                return work(self._database)
            except DATABASE_ERRORS as error:
                self._database.replace_damaged(error)
                return work(self._database)

        try:
            result = await machine.run_sync(run, abandon_on_cancel=True, limiter=self._turn)
        except (*DATABASE_ERRORS, OSError, HtoolsError) as error:
            if self._error is None:
                _log.error("history cannot be written; it is kept in memory", error=str(error))
            self._error = str(error)
            if self._database is not None:
                self._database.close()
                self._database = None
            return None
        if self._error is not None:
            _log.info("history is written again")
            self._error = None
        return result

    def _drop_excess(self) -> None:
        while len(self._noted) > MAX_IN_MEMORY:
            self._noted.popleft()
            self._lost += 1
