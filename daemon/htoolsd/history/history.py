"""What the daemon has decided and done, kept beside its work.

Whoever notes something never waits: entries are written by a task of their own, in a thread, a moment later.
While the disk does not take them they are kept in memory, as many as there is room for.
"""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
import trio

from ganeti_htools.model.errors import HtoolsError
from htoolsd.history.database import Database
from htoolsd.history.entries import Document, Entry, Wanted

_log = structlog.get_logger()

T = TypeVar("T")

MOST = 10_000  # entries in memory
_PAUSE = 0.5  # seconds between two writes; what was noted since the last one is lost by kill -9
_AGAIN = 10.0  # seconds until a disk that refused is tried again
_FORGET = 3600.0  # seconds between looks at age and size
_LAST = 2.0  # seconds that the last write may take
_DAY = 86400.0


class History:
    """All entries, in the file at ``path``; see :meth:`limit`."""

    def __init__(self, path: str, days: float, mib: int) -> None:
        self._path = path
        self._database: Database | None = None
        self._noted = deque[Entry]()
        self._writing = 0
        self._news = trio.Event()
        self._turn = trio.CapacityLimiter(1)
        self._forgotten = -_FORGET
        self._lost = 0
        self._error: str | None = None
        self.limit(days, mib)

    def limit(self, days: float, mib: int) -> None:
        """Entries are kept so many days, as long as the file takes no more than so many MiB."""
        self._days, self._mib = days, mib

    def note(self, entry: Entry) -> None:
        """Keep an entry. Nothing is waited for."""
        self._noted.append(entry)
        self._keep_to_bound()
        self._news.set()

    def status(self) -> dict[str, Any]:
        """How it is: entries that are not on disk yet, those that were lost, and why."""
        waiting = len(self._noted) + self._writing
        return {"path": self._path, "waiting": waiting, "lost": self._lost, "error": self._error}

    async def run(self) -> None:
        """Write what is noted. Runs until cancelled; then what is left is written."""
        try:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                await self._write()
                if self._error is not None:
                    self._news.set()
                await trio.sleep(_PAUSE if self._error is None else _AGAIN)
        finally:
            with trio.move_on_after(_LAST, shield=True):
                await self._write(last=True)

    async def find(self, wanted: Wanted) -> list[Document]:
        """The newest entries that are asked for, in order."""
        await self._write()
        if self._error is None:
            found = await self._aside(lambda database: database.find(wanted))
            if found is not None:
                return found
        here = [document for entry in self._noted if wanted.has(document := entry.document())]
        return here[max(0, len(here) - wanted.most) :]

    async def _write(self, last: bool = False) -> None:
        batch = tuple(self._noted)
        if not batch:
            return
        self._noted.clear()
        self._writing += len(batch)

        def write(database: Database) -> bool:
            database.add(batch)
            now = time.monotonic()
            if now >= self._forgotten + _FORGET:
                database.forget(time.time() - self._days * _DAY, self._mib << 20)
                self._forgotten = now
            return True

        written = None
        try:
            written = await self._aside(write, last)
        finally:
            self._writing -= len(batch)
            if written is None:
                self._noted.extendleft(reversed(batch))
                self._keep_to_bound()

    async def _aside(self, work: Callable[[Database], T], last: bool = False) -> T | None:
        """The result of work on the database, in a thread; None if it cannot be done.

        A disk that hangs does not keep the ``last`` work from being given up.
        """

        def run() -> T:
            if self._database is None:
                os.makedirs(os.path.dirname(self._path), 0o750, exist_ok=True)
                self._database = Database(self._path)
            return work(self._database)

        try:
            result = await trio.to_thread.run_sync(run, abandon_on_cancel=last, limiter=self._turn)
        except (sqlite3.Error, OSError, HtoolsError) as error:
            if self._error is None:
                _log.error("history is kept in memory only", error=str(error))
            self._error = str(error)
            if self._database is not None:
                self._database.close()
                self._database = None
            return None
        if self._error is not None:
            _log.info("history is written again")
            self._error = None
        return result

    def _keep_to_bound(self) -> None:
        while len(self._noted) > MOST:
            self._noted.popleft()
            self._lost += 1
