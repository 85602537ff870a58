"""Single jobs: submitted, awaited, and cancelled if they wait too long.

Ganeti answers a few queries by jobs only. Such a job waits for locks and holds them, like any other.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import trio

from ganeti_htools import machine
from ganeti_htools.luxi import job_queries
from ganeti_htools.luxi.client import LuxiClient, LuxiError
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import failure
from ganeti_htools.luxi.opcodes import PRIORITIES, Opcode, Signature

_PAUSE = 1.0  # seconds before the next request after an early answer
_CANCEL_PATIENCE = 5.0  # seconds to cancel a job


async def results_of(ganeti: LuxiClient, opcodes: Sequence[Opcode], about: str, seconds: float) -> list[Any]:
    """Submit a job that only queries and return the results of its opcodes; see :func:`run_job`.

    ``about`` is part of the job's comment.
    """
    run, priority = f"{machine.now_ns():x}", PRIORITIES["low"]
    signature = Signature("htoolsd", "asks for storage", f"asks for {about}", run, priority)
    return await run_job(ganeti, opcodes, signature, seconds)


async def run_job(
    ganeti: LuxiClient, opcodes: Sequence[Opcode], signature: Signature, seconds: float
) -> list[Any]:
    """Submit a job and return the results of its opcodes.

    Raises LuxiError, also if the job is not accepted, fails, or has not ended after ``seconds``. In the last
    case, and when the caller is cancelled, the job is cancelled unless it already runs.
    """
    purpose = signature.purpose
    [number] = await job_queries.submit(ganeti, [signature.sign(opcodes, "1", machine.now_ns())])
    if isinstance(number, str):
        raise LuxiError(f"Ganeti does not take a job that {purpose}: {number}")
    ended = False
    try:
        with trio.move_on_after(seconds):
            async with ganeti.another() as listening:
                await _end(listening, number)
            ended = True
    finally:
        if not ended:
            with trio.CancelScope(shield=True), trio.move_on_after(_CANCEL_PATIENCE):
                await _cancel(ganeti, number)
    if not ended:
        raise LuxiError(f"job {number}, which {purpose}, has not ended within {seconds:g} s")
    [result] = await job_queries.each_job(ganeti, [number], ["summary", "opstatus", "opresult"], _results)
    if isinstance(result, str):
        raise LuxiError(f"job {number}, which {purpose}: {result}")
    return result


async def _end(ganeti: LuxiClient, number: int) -> None:
    """Wait until a job has ended."""
    known, serial = None, None
    while True:
        change = await job_queries.wait_for_change(ganeti, number, ["status"], known, serial)
        if change is None:
            continue
        if JobStatus(change.fields[0]).final:
            return
        if change.fields == known and not change.log:  # luxid may answer before the timeout
            await trio.sleep(_PAUSE)
        known, serial = change.fields, change.log[-1][0] if change.log else serial


async def _cancel(ganeti: LuxiClient, number: int) -> None:
    """Cancel a job over a separate connection, for the usual one may be busy."""
    with suppress(LuxiError):  # the job changes nothing and ends by itself
        async with ganeti.another() as cancelling:
            await job_queries.cancel(cancelling, number)


def _results(summary: Any, states: Any, results: Any) -> list[Any] | str:
    if isinstance(states, list) and all(state == JobStatus.SUCCESS.value for state in states):
        return list(results)
    return failure(summary, states, results)
