"""The recording: each decision with all that it used, on disk, written by a task of its own.

Taking note of a decision never waits. A thread writes it later, and pauses while somebody decides. A file
that another daemon has begun is not continued, so a crash damages the end of a file at most.
"""

import errno
import os
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.recording.decision import RecordedDecision, to_bytes
from ganeti_htools.recording.files import SUFFIX, encode, pieces_of
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent
from htoolsd.tasks import note_defect
from htoolsd.threads import Computations, Occupied, Pause

_log = structlog.get_logger()

MOST_WAITING = 100  # decisions
MOST_WAITING_MIB = 64  # their requests, which are in memory
_PAUSE = 0.1  # seconds until a decision is written, so that Ganeti has its answer
_LAST_SECONDS = 2.0  # for the last ones
_PARTS = 8  # of the limit, which one file may have
_RECORDS = 200  # of one file: to read the last one, all are read
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class DecisionMade(DaemonEvent):
    """A decision with all that it used."""

    decision: RecordedDecision


class Recording:
    """The files in a directory, as many and as old as the settings say."""

    def __init__(self, directory: str, settings: Settings, decisions: Occupied) -> None:
        self._directory = Path(directory)
        self._settings = settings
        self._thread = Computations(decisions)
        self._waiting = deque[RecordedDecision]()
        self._bytes = 0  # of their requests
        self._news = trio.Event()
        self._size = self._lost = 0
        self._error: str | None = None
        self._file: _File | None = None
        self._done = ""  # the last one that was written

    def note(self, event: DaemonEvent) -> None:
        """Have a decision written later; it is lost if too many wait."""
        if not isinstance(event, DecisionMade) or not self._settings.now.recording.mib:
            return
        size = len(event.decision.request)
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_WAITING_MIB << 20:
            self._lost += 1
            return
        self._bytes += size
        self._waiting.append(event.decision)
        self._news.set()

    def status(self) -> dict[str, Any]:
        """Return limit and size, how many decisions wait and are lost, and why none can be written."""
        return {
            "mib": self._settings.now.recording.mib,
            "bytes": self._size,
            "waiting": len(self._waiting),
            "lost": self._lost,
            "error": self._error,
        }

    async def run(self) -> None:
        """Write decisions until cancelled; then write the rest."""
        try:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                await trio.sleep(_PAUSE)
                await self._write_all()
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                await self._write_all()

    async def _write_all(self) -> None:
        while self._waiting:
            decision = self._waiting[0]
            try:
                await self._thread.run(partial(self._write, decision))
                self._error = None
            except Exception as error:
                if not isinstance(error, OSError | HtoolsError):
                    note_defect("recording", error)  # which must not come again with the same decision
                self._file = None
                self._lost += 1
                if self._error is None:
                    _log.error("decisions cannot be recorded", error=str(error))
                self._error = str(error)
            self._waiting.popleft()
            self._bytes -= len(decision.request)

    def _write(self, decision: RecordedDecision, pause: Pause) -> None:
        """Append a decision to the present file, or to a new one. Raises OSError, HtoolsError."""
        if decision.id == self._done:  # by a thread whose caller did not wait for its end
            return
        limits, now = self._settings.now.recording, machine.now()
        file = self._file
        if file is None or not file.has_room(now, (limits.mib << 20) // _PARTS):
            file = _File(self._directory / f"{now:014.3f}{SUFFIX}", now)
        rest = partial(pause, "")
        pieces = pieces_of(to_bytes(decision, rest), rest)
        record = encode(decision.id, decision.time, file.last, pieces, rest)
        self._make_room(file.path, (limits.mib << 20) - len(record), now - limits.days * _DAY)
        self._file = None  # should it fail
        file.append(record, pieces)
        self._file, self._done, self._size = file, decision.id, self._size + len(record)

    def _make_room(self, present: Path, most: int, since: float) -> None:
        """Remove the oldest files until at most so many bytes are left, and those that ended too early."""
        os.makedirs(self._directory, 0o700, exist_ok=True)
        paths = sorted(self._directory.glob(f"*{SUFFIX}"))
        sizes = {path: path.stat().st_size for path in paths}
        for path in paths:
            if path != present and (sum(sizes.values()) > most or path.stat().st_mtime < since):
                path.unlink()
                del sizes[path]
        self._size = sum(sizes.values())
        if self._size > most:
            raise HtoolsError("one decision takes more than the limit: raise mib of [recording]")


@dataclass(slots=True)
class _File:
    """A file that this daemon has begun, with the pieces of its last content."""

    path: Path
    begun: float
    last: list[bytes] = field(default_factory=list)
    size: int = 0
    records: int = 0

    def has_room(self, now: float, most: int) -> bool:
        """Whether the next record shall be in this file, too."""
        return self.size <= most and self.records < _RECORDS and self.begun <= now < self.begun + _DAY

    def append(self, record: bytes, pieces: list[bytes]) -> None:
        """Write a record. Raises OSError."""
        flags = os.O_WRONLY | os.O_APPEND | (0 if self.records else os.O_CREAT | os.O_EXCL)
        with open(os.open(self.path, flags, 0o600), "wb", buffering=0) as file:
            try:
                if file.write(record) != len(record):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            except OSError:
                os.truncate(file.fileno(), self.size)
                raise
        self.last, self.size, self.records = pieces, self.size + len(record), self.records + 1
