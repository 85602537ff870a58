"""The witness: Ganeti's own iallocator beside ours. Comparisons have a task of their own."""

import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.programs import run_program
from ganeti_htools.witness import compare
from ganeti_htools.witness.program import MOST_PRINTED, NICE, WitnessAnswer, ask_program, request_file
from ganeti_htools.witness.tally import Tally, is_alarming
from ganeti_htools.witness.verdict import WitnessVerdict
from htoolsd.config.settings import Settings
from htoolsd.threads import effect
from htoolsd.witness import record

_log = structlog.get_logger()

MOST_WAITING = 100  # comparisons
MOST_WAITING_MIB = 64  # their requests, which are in memory
_PAUSE = 0.2  # seconds until a comparison begins, so that Ganeti has its answer
_SIGN = 2.0  # seconds between two signs for the executable that waits
_MARGIN = 120.0  # seconds of a comparison beside its programs
_PROGRAMS = 4  # that one comparison may run, about


class Statement(NamedTuple):
    """A decision to compare: its id and type, the request, and both answers.

    ``our_seconds`` and ``our_error`` are of ours. ``theirs`` is None if the program has yet to run.
    """

    id: str
    request: str
    data: bytes
    arguments: tuple[str, ...]
    ours: str
    our_seconds: float
    our_error: str | None = None
    theirs: WitnessAnswer | None = None


class Witness:
    """Runs the program of the settings beside decisions, and keeps a record in a directory."""

    def __init__(self, settings: Settings, directory: str) -> None:
        self._settings = settings
        self._directory = directory
        self._tally = Tally()
        self._waiting = deque[Statement]()
        self._bytes = 0
        self._news = trio.Event()
        self._error: str | None = None

    def part(self) -> str | None:
        """Return whose answer counts in a decision that begins now; None without the witness."""
        settings = self._settings.now.witness
        if not settings.program:
            return None
        chance = int.from_bytes(machine.random_bytes(4)) / (1 << 32)
        return settings.answers if chance < settings.share else None

    async def testify(
        self, data: bytes, arguments: Sequence[str], still_waits: Callable[[], Awaitable[None]]
    ) -> WitnessAnswer:
        """Return the answer of the program, with signs for the caller meanwhile."""
        settings = self._settings.now.witness

        async def give_signs() -> None:
            while True:
                await trio.sleep(_SIGN)
                await still_waits()

        with request_file(data) as descriptor:
            async with open_nursery() as nursery:
                nursery.start_soon(give_signs)
                found = await ask_program(settings.program, descriptor, arguments, settings.timeout_seconds)
                nursery.cancel_scope.cancel()
        if found.error is not None:
            _log.warning("the witness has no answer", error=found.error)
        return found

    def observe(self, statement: Statement) -> None:
        """Have a decision compared later; it is only counted if too many wait."""
        size = len(statement.data)
        if (self._bytes and self._bytes + size > MOST_WAITING_MIB << 20) or len(
            self._waiting
        ) >= MOST_WAITING:
            self._count(statement, WitnessVerdict.NOT_COMPARED, None, None)
            return
        self._bytes += size
        self._waiting.append(statement)
        self._news.set()

    async def run(self) -> None:
        """Compare decisions, one at a time, until cancelled."""
        try:
            self._tally = await effect(record.read_tally, self._directory)
        except FileNotFoundError:
            pass
        except (OSError, HtoolsError) as error:
            _log.warning("the record of the witness cannot be read; a new one begins", error=str(error))
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._waiting:
                statement = self._waiting.popleft()
                self._bytes -= len(statement.data)
                await trio.sleep(_PAUSE)
                await self._compare(statement)

    async def _compare(self, statement: Statement) -> None:
        settings = self._settings.now.witness
        try:
            found = await self._in_process(statement, settings.program, settings.timeout_seconds)
        except (HtoolsError, ValueError, OSError) as error:
            _log.warning("decision not compared", id=statement.id, error=str(error))
            self._count(statement, WitnessVerdict.NOT_COMPARED, None, None)
            return
        verdict, explained = found["verdict"], found["explained"]
        answered = found["theirs"] is not None
        self._count(statement, verdict, explained, found["their_seconds"] if answered else None)
        finding = None
        if verdict != WitnessVerdict.SAME:
            log = _log.warning if is_alarming(verdict, explained) else _log.info
            log("the witness differs", id=statement.id, verdict=verdict, explained=explained)
            facts = {"id": statement.id, "time": machine.now(), "request": statement.request}
            ours = {"ours": statement.ours or None, "our_seconds": round(statement.our_seconds, 3)}
            finding = {**facts, "arguments": statement.arguments, **ours, **found}
        try:
            await effect(record.write, self._directory, self._tally, finding, statement.data)
            self._error = None
        except (OSError, HtoolsError) as error:
            if self._error is None:
                _log.error("the record of the witness cannot be written", error=str(error))
            self._error = str(error)

    async def _in_process(self, statement: Statement, program: str, timeout: float) -> Any:
        """Return the findings of a process of low priority. Raises HtoolsError, ValueError, OSError."""
        with request_file(statement.data) as descriptor:
            case = compare.Case(
                descriptor,
                program,
                statement.arguments,
                timeout,
                statement.ours,
                statement.our_error,
                statement.theirs,
            )
            done = await run_program(
                [*NICE, sys.executable, "-P", "-m", "ganeti_htools.witness.compare"],
                _PROGRAMS * timeout + _MARGIN,
                2 * MOST_PRINTED,
                "findings",
                stdin=compare.encode(case),
                pass_fds=[descriptor],
                # The packages may be where only the programs look for them.
                env=os.environ | {"PYTHONPATH": str(Path(compare.__file__).parents[2])},
            )
        if done.status:
            raise DataError(
                done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or "it was ended"
            )
        return orjson.loads(done.stdout)

    def _count(self, statement: Statement, verdict: str, explained: str | None, theirs: float | None) -> None:
        program = self._settings.now.witness.program
        if self._tally.program != program:
            self._tally = Tally(program)
        if self._tally.since is None:
            self._tally.since = machine.now()
        self._tally.add(statement.request, str(verdict), explained, (statement.our_seconds, theirs))

    def status(self) -> dict[str, Any]:
        """Return the settings, the counts, and why the record cannot be written."""
        settings = self._settings.now.witness
        return {
            "program": settings.program or None,
            "answers": settings.answers,
            **self._tally.to_json(),
            "error": self._error,
        }

    async def findings(self) -> list[dict[str, Any]]:
        """Return the kept differences, the oldest first. Raises OSError."""
        return await effect(record.findings, self._directory)

    async def finding(self, name: str) -> dict[str, Any] | None:
        """Return a kept difference. Raises DataError."""
        return await effect(record.finding, self._directory, name)
