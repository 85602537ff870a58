"""``-X``: carries out a plan over LUXI, reports its progress, and stops it at signals."""

import signal
import time
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

from ganeti_htools import streams
from ganeti_htools.backends import luxi
from ganeti_htools.cli.cluster import with_load
from ganeti_htools.cli.runs.ending import save_outcome
from ganeti_htools.cli.terminal import messages
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.execute import execute, undo
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.queue import Queue
from ganeti_htools.execution.record import record
from ganeti_htools.execution.review import Check, Review, Say
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.wording import event_reporter, going_on, summary
from ganeti_htools.luxi import job_queries, jobs, queries
from ganeti_htools.luxi.client import LuxiClient, LuxiError
from ganeti_htools.luxi.opcodes import sources
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning.view import is_called
from ganeti_htools.sources import storage_jobs

_UNDOING = 10.0  # seconds to take back what a run has begun that was ended at once


def carry_out(line: CommandLine, run: Run, check: Check, say: Say) -> Mapping[str, Any]:
    """Carry out a run, and save the outcome (``-S``). Returns the record of the run.

    Lines about the run go to ``say``. ``check`` receives clusters with the dynamic load that the options
    name. Raises HtoolsError if files cannot be written.
    """

    def check_loaded(cluster: Cluster, rest: Jobsets, made: int) -> Review:
        return check(with_load(cluster, line), rest, made)

    path, after = line.luxi or queries.default_socket(), bool(line.save)
    cluster = trio.run(_carry_out, path, run, check_loaded, say, after, line.ask_storage)
    say(*summary(run))
    save_outcome(line, cluster, run.rest)
    return record(run)


def let_end(line: CommandLine, program: str) -> None:
    """Wait for the unfinished jobs of earlier runs of a program. Raises LuxiError."""
    trio.run(_let_end, line.luxi or queries.default_socket(), program)


def await_nodes(line: CommandLine, names: Sequence[str]) -> None:
    """Wait until the daemons of nodes answer and they report; names may be cut off. Raises HtoolsError."""
    trio.run(_await_nodes, line.luxi or queries.default_socket(), names)


def tagged_nodes(line: CommandLine) -> list[Node]:
    """Return all nodes with their tags, and nothing else. Raises HtoolsError."""
    return trio.run(_tagged_nodes, line.luxi or queries.default_socket())


def boot_ids(line: CommandLine, names: Sequence[str]) -> dict[str, str]:
    """Return Ganeti's identifier of the present boot of each node. Raises HtoolsError if it has none."""
    found = trio.run(_present_boots, line.luxi or queries.default_socket(), names)
    if missing := [name for name in names if name not in found]:
        raise HtoolsError(f"--rebooted: nodes do not report: {', '.join(missing)}")
    return found


def await_reboot(line: CommandLine, before: Mapping[str, str]) -> None:
    """Wait until all nodes have booted since they had these identifiers. Raises HtoolsError."""
    trio.run(_await_reboot, line.luxi or queries.default_socket(), before)


async def _tagged_nodes(path: str) -> list[Node]:
    async with LuxiClient(path) as ganeti:
        rows = [row.values for row in await queries.query(ganeti, "node", ("name", "tags"))]
    return [Node(row["name"], "", tags=tuple(row["tags"])) for row in rows]


async def _present_boots(path: str, names: Sequence[str]) -> dict[str, str]:
    async with LuxiClient(path) as ganeti:
        return await _boot_ids(ganeti, names)


async def _await_reboot(path: str, before: Mapping[str, str]) -> None:
    async with LuxiClient(path) as ganeti:

        async def booted() -> None:
            now = await _boot_ids(ganeti, tuple(before))
            if old := [name for name in before if now.get(name) in (None, before[name])]:
                raise DataError(f"nodes have not booted yet: {', '.join(old)}")

        await jobs.persistently(booted, jobs.PATIENCE, _away)


async def _boot_ids(ganeti: LuxiClient, names: Sequence[str]) -> dict[str, str]:
    rows = [row.values for row in await queries.query(ganeti, "node", ("name", "bootid"))]
    return {row["name"]: row["bootid"] for row in rows if row["name"] in names and "bootid" in row}


async def _away(reason: str | None) -> None:
    if reason:
        _warn(reason)


async def _await_nodes(path: str, names: Sequence[str]) -> None:
    async with LuxiClient(path) as ganeti:

        async def reporting() -> None:
            silent = [
                row.values["name"]
                for row in await queries.query(ganeti, "node", ("name", "offline", "mfree"))
                if any(is_called(row.values["name"], name) for name in names)
                and not row.values["offline"]
                and "mfree" not in row.values
            ]
            if silent:
                raise DataError(f"nodes do not report: {', '.join(silent)}")

        await jobs.persistently(reporting, jobs.PATIENCE, _away)


async def _let_end(path: str, program: str) -> None:
    async def away(reason: str | None) -> None:
        _warn(reason or "Ganeti answers again")

    async def ignore(_number: int, _news: object) -> None:
        pass

    async with LuxiClient(path) as ganeti:
        try:
            known = await job_queries.unfinished(ganeti)
        except LuxiError:
            return  # the error appears when the cluster is read
        left = [number for number, work in known if work and program in sources(work[0])]
        if left:
            _warn(f"Waiting for jobs of an earlier run: {', '.join(map(str, left))}")
            await jobs.follow(ganeti, left, jobs.PATIENCE, away, ignore)


async def _carry_out(
    path: str, run: Run, check: Check, say: Say, after: bool, ask_storage: bool
) -> Cluster | None:
    """Carry out a run. Returns the cluster afterwards if ``after`` is set and Ganeti answers, else None."""
    stop = trio.Event()
    async with LuxiClient(path) as ganeti:

        async def read() -> Cluster:
            answers = await queries.whole_cluster(ganeti)
            cluster = await trio.to_thread.run_sync(luxi.parse, answers)
            return await storage_jobs.with_storage(ganeti, cluster, _warn) if ask_storage else cluster

        cluster = None
        heeded = streams.heeded(signal.SIGINT, signal.SIGHUP)
        with messages.progress() as live, trio.open_signal_receiver(signal.SIGTERM, *heeded) as signals:
            async with open_nursery() as nursery:
                nursery.start_soon(_handle_signals, signals, stop, nursery.cancel_scope)
                report = event_reporter(run, say, _warn, live)
                await execute(run, ganeti, read, check, report, stop, time.time_ns)
                if after and run.ending is not Ending.LOST:
                    try:
                        cluster = await read()
                    except HtoolsError as error:
                        _warn(f"The cluster state after execution cannot be saved: {error}")
                nursery.cancel_scope.cancel()
            if run.ending is None and not run.current:
                with trio.move_on_after(_UNDOING), suppress(HtoolsError):
                    await undo(Queue(run, ganeti, report, jobs.PATIENCE), time.time_ns)
        if run.ending is None:
            doing = going_on(run)
            _warn(f"Exiting at once{doing and f'; these go on in Ganeti: {doing}'}")
    return cluster


async def _handle_signals(signals: AsyncIterable[int], stop: trio.Event, scope: trio.CancelScope) -> None:
    """Stop the run after the current jobs at the first interrupt, and at once at any further signal."""
    async for number in signals:
        if number != signal.SIGINT or stop.is_set():
            scope.cancel()
        else:
            stop.set()
            messages.say("Interrupted: stopping once the current jobs have ended; again to exit at once\n")


def _warn(text: str) -> None:
    messages.say(f"{text}\n")
