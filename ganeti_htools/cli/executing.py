"""``-X``: a plan carried out over LUXI, told step by step, stopped by signals."""

import signal
import sys
import time
import uuid
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

from ganeti_htools import streams
from ganeti_htools.backends import luxi
from ganeti_htools.cli import files
from ganeti_htools.cli.report import script
from ganeti_htools.commandline.reading import CommandLine, Program, title
from ganeti_htools.engine.balancing.recheck import named
from ganeti_htools.execution.execute import execute
from ganeti_htools.execution.jobs import Job, Jobsets, opcodes_of
from ganeti_htools.execution.record import INTERRUPTED
from ganeti_htools.execution.review import Check
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.wording import Say, complaint, going_on, summary, teller
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import Client
from ganeti_htools.luxi.opcodes import PRIORITIES, Signature
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning.jobsets import Move


def undeterred(say: Say) -> Say:
    """A function that prints like ``say``, but ignores a closed pipe or a full disk: the run has to go on."""

    def tell(*texts: str) -> None:
        with suppress(OSError):
            say(*texts)

    return tell


def moves(state: State, sets: Sequence[Sequence[Move]]) -> list[list[Job]]:
    """The jobs of moves that start from a state, in the same sets."""
    steps = named(state, [each.step for jobs in sets for each in jobs])
    return [[_job(state, each, next(steps)) for each in jobs] for jobs in sets]


def _job(state: State, each: Move, step: Any) -> Job:
    return Job(
        f"{each.instance}: {':'.join(each.was)} => {':'.join(each.now)}",
        opcodes_of(step, state.cluster.instances[each.step.instance].forthcoming),
        tuple(f"gnt-instance {command}" for command in each.commands),
        step,
    )


def begin(line: CommandLine, program: Program, purpose: str, plan: Jobsets) -> Run:
    """A run that has not begun. ``purpose`` is like "rebalancing"; options say why, and how urgently."""
    version = title(program).strip()
    signature = Signature(
        source=program.name,
        reason=line.reason if line.reason is not None else f"{version} called",
        purpose=f"{purpose} via {version}",
        run=uuid.uuid4().hex[:12],
        priority=PRIORITIES[line.priority or "normal"],
    )
    return Run(signature, plan)


def carry_out(line: CommandLine, run: Run, check: Check, say: Say) -> None:
    """Carry a run out, and save what comes of it (``-S``). What it says goes to ``say``.

    Without an ending, it was interrupted. Raises HtoolsError if files cannot be written.
    """
    cluster = trio.run(_carry_out, line.luxi or queries.default_socket(), run, check, say, bool(line.save))
    say(*summary(run))
    if line.save is not None:
        save(line.save, cluster, [[job.commands for job in jobs] for jobs in run.rest])


def save(prefix: str, cluster: Cluster | None, rest: Sequence[Sequence[Sequence[str]]]) -> None:
    """Save what came of a run: the cluster, if it could be read, and the commands that were not submitted.

    Raises HtoolsError.
    """
    if cluster is not None:
        files.say(files.save(prefix, "executed", "after execution", cluster) + "\n")
    files.write_text(f"{prefix}.remaining", script.script(script.listed(rest)))
    files.say(f"What was not submitted has been written to file '{prefix}.remaining'\n")


def conclude(outcome: Mapping[str, Any]) -> None:
    """End the program as a run ended, by its record. Raises HtoolsError, or SystemExit if interrupted."""
    if outcome["ending"] == INTERRUPTED:
        sys.stdout.flush()
        raise SystemExit(2)
    wrong = complaint(outcome)
    if wrong is not None:
        raise HtoolsError(wrong)


async def _carry_out(path: str, run: Run, check: Check, say: Say, after: bool) -> Cluster | None:
    """Carry it out; the cluster ``after`` it, if that is wanted and Ganeti can be asked."""
    stop = trio.Event()
    async with Client(path) as ganeti:

        async def read() -> Cluster:
            answers = await queries.whole_cluster(ganeti)
            return await trio.to_thread.run_sync(luxi.parse, answers)

        cluster = None
        heeded = streams.heeded(signal.SIGINT, signal.SIGHUP)
        with files.progress() as live, trio.open_signal_receiver(signal.SIGTERM, *heeded) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_heed, signals, stop, nursery.cancel_scope)
                await execute(run, ganeti, read, check, teller(run, say, _warn, live), stop, time.time_ns)
                if after and run.ending is not Ending.LOST:
                    try:
                        cluster = await read()
                    except HtoolsError as error:
                        _warn(f"The cluster state after execution cannot be saved: {error}")
                nursery.cancel_scope.cancel()
        if run.ending is None:
            doing = going_on(run)
            _warn(f"Exiting at once{doing and f'; these go on in Ganeti: {doing}'}")
    return cluster


async def _heed(signals: AsyncIterable[int], stop: trio.Event, scope: trio.CancelScope) -> None:
    """Stop after the current jobs when interrupted, at once when interrupted again or terminated."""
    async for number in signals:
        if number != signal.SIGINT or stop.is_set():
            scope.cancel()
        else:
            stop.set()
            files.say("Interrupted: stopping once the current jobs have ended; again to exit at once\n")


def _warn(text: str) -> None:
    files.say(f"{text}\n")
