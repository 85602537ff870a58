"""``-X``: a plan carried out over LUXI, told step by step, stopped by signals."""

import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

from ganeti_htools import streams
from ganeti_htools.backends import luxi
from ganeti_htools.cli import files
from ganeti_htools.cli.report import script
from ganeti_htools.commandline.reading import CommandLine, Program, title
from ganeti_htools.engine.balancing.recheck import NamedStep, named
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.execution.run import (
    Away,
    Check,
    Ending,
    Event,
    Job,
    Plan,
    Progress,
    Run,
    Submitted,
    Task,
    Tell,
    execute,
    going_on,
    move,
)
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import Client
from ganeti_htools.luxi.opcodes import PRIORITIES, Signature
from ganeti_htools.luxi.queries import JobStatus
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.state import State
from ganeti_htools.planning.jobsets import Move

_SAID = 60  # characters of what a job says that fit on a line with the rest

Say = Callable[..., None]  # lines

INTERRUPTED = "interrupted"  # instead of an ending


def undeterred(say: Say) -> Say:
    """The same, but that nobody listens any more, or there is no room, is no reason to stop half-way."""

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
        move(step, state.cluster.instances[each.step.instance].forthcoming),
        tuple(f"gnt-instance {command}" for command in each.commands),
        step,
    )


def begin(line: CommandLine, program: Program, purpose: str, plan: Plan) -> Run:
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


def complaint(outcome: Mapping[str, Any]) -> str | None:
    """What is wrong with a run that ended, by its record; None for one that did as it should."""
    reason, doing = outcome["reason"], outcome["going_on"]
    match outcome["ending"]:
        case Ending.FAILED.value:
            return f"Not all jobs completed successfully: {reason}"
        case Ending.CHANGED.value:
            return f"The plan does not fit the cluster any more: {reason}"
        case Ending.LOST.value:
            return f"{reason}{f'; may go on: {doing}' if doing else ''}"
    return None


def conclude(outcome: Mapping[str, Any]) -> None:
    """End the program as a run ended, by its record. Raises HtoolsError, or SystemExit if interrupted."""
    if outcome["ending"] == INTERRUPTED:
        sys.stdout.flush()
        raise SystemExit(2)
    wrong = complaint(outcome)
    if wrong is not None:
        raise HtoolsError(wrong)


def record(run: Run) -> dict[str, Any]:
    """A run that ended as part of a JSON document. Without an ending it was interrupted."""
    return {
        "ending": INTERRUPTED if run.ending is None else run.ending.value,
        "reason": run.reason or None,
        "run": run.signature.run,
        "purpose": run.signature.purpose,
        "replanned": run.changes,
        "going_on": going_on(run) or None,
        "jobs": [
            {
                **_described(task.job),
                "jobset": int(task.place.partition("/")[0]),
                "id": task.number,
                "status": task.status and task.status.value,
                "error": task.error,
            }
            for task in run.tasks
        ],
        "not_submitted": [[_described(job) for job in jobs] for jobs in run.rest],
    }


def _described(job: Job) -> dict[str, Any]:
    step = job.step
    return {
        "title": job.title,
        "instance": step and step.instance,
        "move": step and step.kind.value,
        "from": step and list(step.was),
        "to": step and list(step.now),
        "opcodes": [opcode["OP_ID"] for opcode in job.opcodes],
        "commands": list(job.commands),
    }


def restored(program: str, recorded: Mapping[str, Any]) -> Run:
    """The run of a program again, to be told of and traced, not to be carried out: opcodes are but names.

    Raises KeyError, TypeError, ValueError for what is no record.
    """
    signature = Signature(program, "", recorded["purpose"], recorded["run"])
    run = Run(signature, [[_restored(job) for job in jobs] for jobs in recorded["not_submitted"]])
    members: Counter[int] = Counter()
    for job in recorded["jobs"]:
        run.sets = job["jobset"]
        members[run.sets] += 1
        place = f"{run.sets}/{members[run.sets]}"
        status = None if job["status"] is None else JobStatus(job["status"])
        run.tasks.append(Task(_restored(job), place, job["id"], status, job["error"]))
    run.changes = list(recorded["replanned"])
    run.ending = None if recorded["ending"] in (None, INTERRUPTED) else Ending(recorded["ending"])
    run.reason = recorded["reason"] or ""
    return run


def _restored(job: Mapping[str, Any]) -> Job:
    was, now = job["from"], job["to"]
    step = job["move"] and NamedStep(job["instance"], MoveKind(job["move"]), None, tuple(was), tuple(now))
    return Job(job["title"], tuple({"OP_ID": name} for name in job["opcodes"]), tuple(job["commands"]), step)


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


def teller(run: Run, say: Say, warn: Say, live: Say) -> Tell:
    """What tells people of events: lines that stay with ``say`` and ``warn``, how it stands with ``live``."""

    async def tell(event: Event) -> None:
        live("")
        match event:
            case Submitted(tasks):
                numbers = [str(task.number) for task in tasks if task.number is not None]
                if numbers:
                    say(f"Got job IDs {','.join(numbers)}")
                for task in tasks:
                    if task.error is not None:
                        say(f"Job {task.place} ({task.job.title}) was not accepted: {task.error}")
            case Progress(task, None) if task.over:
                say(_ended(task))
            case Away(None):
                warn("Ganeti answers again")
            case Away(reason):
                warn(reason)
        live(_standing(run, event.said if isinstance(event, Progress) else None))

    return tell


def _ended(task: Task) -> str:
    status = task.status.value if task.status else "lost"
    return f"Job {task.number} ({task.job.title}): {status}{f': {task.error}' if task.error else ''}"


def _standing(run: Run, said: str | None) -> str:
    states = [task.status.value for task in run.current if task.status]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    told = f" - {on_one_line(said)[:_SAID]}" if said else ""
    return f"jobset {run.sets} of {run.sets + len(run.rest)}{f': {counts}' if counts else ''}{told}"


def summary(run: Run) -> list[str]:
    """What was done and what was not."""
    done = sum(task.status is JobStatus.SUCCESS for task in run.tasks)
    failed = sum(task.error is not None for task in run.tasks)
    rest = [job for jobs in run.rest for job in jobs]
    counts = {"succeeded": done, "failed": failed, "not ended": len(run.current), "not submitted": len(rest)}
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
    return [f"Jobs: {told}", *(f"  not submitted: {job.title}" for job in rest)]
