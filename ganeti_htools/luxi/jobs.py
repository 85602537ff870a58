"""Jobs submitted exactly once and followed until they end, even if luxid goes away meanwhile."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import trio

from ganeti_htools.luxi import job_queries
from ganeti_htools.luxi.client import LuxiClient, LuxiError, NoAnswerError, RefusedError, exception_text
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.errors import DataError, HtoolsError

Value = TypeVar("Value")

# Called with a description of what is awaited, and with None once the wait is over.
Away = Callable[[str | None], Awaitable[None]]
# Called with the number of a job and either its new state (None: not in the queue) or a line of its log.
News = Callable[[int, JobStatus | str | None], Awaitable[None]]

_FIRST_LOOK, _LAST_LOOK = 1, 15  # seconds between polls of all jobs; doubling, as in Ganeti
_PAUSE = 1.0  # seconds between an answer and the next request
_WARNING = " - WARNING: "  # before a warning in the log of a job (mcpu.LogWarning)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for an answer, for luxid to come back, and for an unanswered submission to appear."""

    answer: float = 180.0
    away: float = 600.0
    late: float = 30.0


PATIENCE = Patience()


class GivenUpError(LuxiError):
    """Ganeti has been unreachable for too long."""


class _Absence:
    """Period in which Ganeti cannot be reached."""

    def __init__(self, patience: Patience, away: Away) -> None:
        self._patience = patience
        self._away = away
        self._since: float | None = None

    async def note(self, error: HtoolsError) -> None:
        """Count a failure. Raises GivenUpError once failures have lasted too long."""
        now = trio.current_time()
        if self._since is None:
            self._since = now
            problem = "Waiting" if isinstance(error, DataError) else "Ganeti cannot be asked, still trying"
            await self._away(f"{problem}: {error}")
        if now - self._since >= self._patience.away:
            raise GivenUpError(f"{error}; given up after {self._patience.away:g} s") from error

    async def end(self) -> None:
        if self._since is not None:
            self._since = None
            await self._away(None)


async def persistently(request: Callable[[], Awaitable[Value]], patience: Patience, away: Away) -> Value:
    """Repeat a request that changes nothing until there is an answer, and return its result.

    A DataError counts as no answer: a node that does not report may be starting. Raises GivenUpError.
    """
    absence = _Absence(patience, away)
    while True:
        try:
            result = await request()
        except (LuxiError, DataError) as error:
            await absence.note(error)
            if not isinstance(error, NoAnswerError):  # the client itself pauses before it connects again
                await trio.sleep(_PAUSE)
        else:
            await absence.end()
            return result


async def submit(
    ganeti: LuxiClient, work: Sequence[Sequence[Opcode]], patience: Patience, away: Away, unsure: bool = False
) -> list[int | str]:
    """Submit jobs. Returns the number of each, or why Ganeti did not accept it.

    The comment of its first opcode identifies a job. After a lost answer, or with ``unsure`` (the jobs may
    have been submitted before), jobs found in the queue count as submitted. Jobs that have not appeared after
    ``patience.late`` seconds are submitted again. After a GivenUpError the outcome is unknown.
    """
    comments = [opcodes[0]["comment"] for opcodes in work]
    numbers: dict[int, int | str] = {}
    absence, looking = _Absence(patience, away), trio.current_time() + patience.late if unsure else None
    while True:
        if looking is not None:
            numbers |= await find(ganeti, comments, patience, away, looking)
        missing = [place for place in range(len(work)) if place not in numbers]
        if not missing:
            await absence.end()
            return [numbers[place] for place in range(len(work))]
        try:
            answers = await job_queries.submit(ganeti, [work[place] for place in missing], patience.answer)
        except RefusedError as error:
            answers = [str(error)] * len(missing)
        except NoAnswerError as error:
            await absence.note(error)
            if error.sent:
                looking = trio.current_time() + patience.late
            continue
        numbers |= dict(zip(missing, answers, strict=True))


async def find(
    ganeti: LuxiClient, comments: Sequence[str], patience: Patience, away: Away, until: float
) -> dict[int, int]:
    """Find jobs by their comments. Returns the numbers of those in the queue, by place in ``comments``.

    Waits for the jobs until ``until`` (a time of trio's clock). Raises GivenUpError.
    """
    while True:
        found = await persistently(lambda: _in_queue(ganeti, comments, patience), patience, away)
        if len(found) == len(comments) or trio.current_time() >= until:
            return found
        await trio.sleep(min(_PAUSE, patience.late / 4))


async def _in_queue(ganeti: LuxiClient, comments: Sequence[str], patience: Patience) -> dict[int, int]:
    places = {comment: place for place, comment in enumerate(comments)}
    found: dict[int, int] = {}
    for number, opcodes in await job_queries.opcodes(ganeti, patience.answer):
        comment = opcodes[0].get("comment") if opcodes else None
        if isinstance(comment, str) and comment in places:
            found.setdefault(places[comment], number)
    return found


async def no_more() -> list[int]:
    """Add no jobs."""
    return []


async def follow(
    ganeti: LuxiClient,
    numbers: Sequence[int],
    patience: Patience,
    away: Away,
    news: News,
    more: Callable[[], Awaitable[list[int]]] = no_more,
) -> None:
    """Wait until jobs have ended, and pass on their news. Raises GivenUpError.

    Whenever jobs have ended, ``more`` adds others.
    """
    known: dict[int, JobStatus] = {}
    pending, look, serial = list(numbers), _FIRST_LOOK, None

    async def states() -> list[JobStatus | None]:
        return await job_queries.job_statuses(ganeti, pending, patience.answer)

    async def listen() -> None:
        """Follow the first job's log until its state changes or the next poll of all jobs is due."""
        nonlocal serial
        first, until = pending[0], trio.current_time() + look
        while (left := until - trio.current_time()) > 0:
            state = [known[first].value]
            try:
                change = await job_queries.wait_for_change(
                    ganeti, first, ["status"], state, serial, math.ceil(left), patience.answer
                )
            except RefusedError as error:
                if error.kind != "JobLost":
                    raise
                return
            if change is None:
                return
            if not change.log and change.fields == state:  # luxid may answer before the timeout
                await trio.sleep(min(_PAUSE, max(0.0, until - trio.current_time())))
            for entry in change.log:
                serial = entry[0]
                await news(first, str(entry[3]))
            if change.fields != state:
                return

    while True:
        before = pending
        for number, state in zip(before, await persistently(states, patience, away), strict=True):
            if state is None or state is not known.get(number):
                await news(number, state)
            if state is None or state.final:
                pending = [other for other in pending if other != number]
            else:
                known[number] = state
        if pending[:1] != before[:1]:
            serial = None
        if len(pending) < len(before) and (new := await more()):
            pending, look = [*pending, *new], _FIRST_LOOK
            continue
        if not pending:
            return
        await persistently(listen, patience, away)
        look = min(2 * look, _LAST_LOOK)


async def results(ganeti: LuxiClient, number: int, patience: Patience, away: Away) -> Any:
    """Return the results of a job's opcodes; None for an unknown job. Raises GivenUpError."""

    async def ask() -> list[Any]:
        return await job_queries.each_job(
            ganeti, [number], ["opresult"], lambda values: values, patience.answer
        )

    return (await persistently(ask, patience, away))[0]


async def warnings(ganeti: LuxiClient, number: int, patience: Patience, away: Away) -> list[str]:
    """Return the warnings in the log of a job's last opcode. Raises GivenUpError."""

    async def ask() -> list[list[str]]:
        return await job_queries.each_job(ganeti, [number], ["oplog"], _warnings, patience.answer)

    return (await persistently(ask, patience, away))[0]


def _warnings(logs: Any) -> list[str]:
    texts = [str(message) for _serial, _time, _kind, message in (logs or [()])[-1] or ()]
    return [text.partition(_WARNING)[2] for text in texts if _WARNING in text]


async def failures(
    ganeti: LuxiClient, numbers: Sequence[int], patience: Patience, away: Away
) -> dict[int, str]:
    """Return why jobs failed: the first failed opcode of each, and its error. Raises GivenUpError."""

    async def ask() -> list[str]:
        fields = ["summary", "opstatus", "opresult"]
        return await job_queries.each_job(ganeti, numbers, fields, failure, patience.answer)

    reasons = await persistently(ask, patience, away) if numbers else []
    return dict(zip(numbers, reasons, strict=True))


def failure(summary: Any, states: Any, results: Any) -> str:
    """Return why a job failed: its first failed opcode, and the error."""
    for title, state, result in zip(summary or (), states or (), results or (), strict=False):
        if state in ("error", "canceled"):
            match result:
                case [str(kind), list(arguments)]:
                    return f"{title}: {kind}: {exception_text(arguments)}"
            return f"{title}: {exception_text([result])}"
    return "Ganeti does not say why"
