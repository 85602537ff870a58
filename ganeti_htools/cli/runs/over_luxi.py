"""``-X``: carries out a plan over LUXI, reports its progress, and stops it at signals."""

import signal
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

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
from ganeti_htools.model.cluster import Cluster, Node, silent_nodes
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning.plan import ToolPlan, new_run
from ganeti_htools.planning.view import is_called
from ganeti_htools.sources import storage_jobs
from ganeti_htools.sources.source import describe_silent

T = TypeVar("T")

_UNDOING = 10.0  # seconds to take back what a run has begun that was ended at once


class OverLuxi:
    """Execution by this program, over the LUXI socket that a command line names."""

    def __init__(self, line: CommandLine) -> None:
        self.line, self.path = line, line.luxi or queries.default_socket()

    def carry_out(self, tool: str, plan: ToolPlan[Any], _answer: Any, say: Say) -> Mapping[str, Any]:
        """Carry out a plan, and save the outcome (``-S``). Returns the record of the run.

        Lines about the run go to ``say``. The plan is reviewed on clusters with the dynamic load that the
        options name. Raises HtoolsError if files cannot be written.
        """
        line, planning = self.line, partial(messages.progress, "planning anew")
        check = plan.review(line.on_change, say, planning)
        run = new_run(tool, plan.purpose, plan.jobs(), plan.options.execution)

        def check_loaded(cluster: Cluster, rest: Jobsets, made: int) -> Review:
            return check(with_load(cluster, line), rest, made)

        after = bool(line.save)
        cluster = trio.run(
            _carry_out, self.path, run, check_loaded, say, after, line.ask_storage, plan.groups
        )
        say(*summary(run))
        save_outcome(line, cluster, run.rest)
        return record(run)

    def settle(self, program: str) -> None:
        """Wait for the unfinished jobs of earlier runs of a program. Raises LuxiError."""

        async def settle(ganeti: LuxiClient) -> None:
            with suppress(LuxiError):  # the error appears when the cluster is read
                known = await job_queries.unfinished(ganeti)
                left = [number for number, work in known if work and program in sources(work[0])]
                if left:
                    _warn(f"Waiting for jobs of an earlier run: {', '.join(map(str, left))}")
                    await jobs.follow(ganeti, left, jobs.PATIENCE, away, ignore)

        async def away(reason: str | None) -> None:
            _warn(reason or "Ganeti answers again")

        async def ignore(_number: int, _news: object) -> None:
            pass

        self._run(settle)

    def nodes(self) -> list[Node]:
        """Return all nodes with their tags, and nothing else. Raises HtoolsError."""
        rows = self._run(lambda ganeti: _nodes(ganeti, "tags"))
        return [Node(row["name"], "", tags=tuple(row["tags"])) for row in rows]

    def await_nodes(self, names: Sequence[str]) -> None:
        """Wait until nodes report; their names may be cut off at a dot. Raises HtoolsError."""

        async def silent(ganeti: LuxiClient) -> list[str]:
            return [
                row["name"]
                for row in await _nodes(ganeti, "offline", "mfree")
                if any(is_called(row["name"], name) for name in names)
                and not row["offline"]
                and "mfree" not in row
            ]

        self._wait(silent, "nodes do not report")

    def boot_ids(self, names: Sequence[str]) -> dict[str, str]:
        """Return Ganeti's identifier of the present boot of each node. Raises HtoolsError if it has none."""
        found = self._run(lambda ganeti: _boot_ids(ganeti, names))
        if missing := [name for name in names if name not in found]:
            raise HtoolsError(f"--rebooted: nodes do not report: {', '.join(missing)}")
        return found

    def await_reboot(self, before: Mapping[str, str]) -> None:
        """Wait until all nodes have booted since they had these identifiers. Raises HtoolsError."""

        async def old(ganeti: LuxiClient) -> list[str]:
            now = await _boot_ids(ganeti, tuple(before))
            return [name for name in before if now.get(name) in (None, before[name])]

        self._wait(old, "nodes have not booted yet")

    def _run(self, work: Callable[[LuxiClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with LuxiClient(self.path) as ganeti:
                return await work(ganeti)

        return trio.run(run)

    def _wait(self, find: Callable[[LuxiClient], Awaitable[list[str]]], problem: str) -> None:
        """Wait until no nodes are found. ``problem`` says what is wrong with them."""

        async def wait(ganeti: LuxiClient) -> None:
            async def check() -> None:
                if found := await find(ganeti):
                    raise DataError(f"{problem}: {', '.join(found)}")

            await jobs.persistently(check, jobs.PATIENCE, away)

        async def away(reason: str | None) -> None:
            if reason:
                _warn(reason)

        self._run(wait)


async def _nodes(ganeti: LuxiClient, *fields: str) -> list[Mapping[str, Any]]:
    """Return the names of all nodes with these fields, as far as luxid knows them."""
    return [row.values for row in await queries.query(ganeti, "node", ("name", *fields))]


async def _boot_ids(ganeti: LuxiClient, names: Sequence[str]) -> dict[str, str]:
    rows = await _nodes(ganeti, "bootid")
    return {row["name"]: row["bootid"] for row in rows if row["name"] in names and "bootid" in row}


async def _carry_out(
    path: str, run: Run, check: Check, say: Say, after: bool, ask_storage: bool, groups: Collection[str]
) -> Cluster | None:
    """Carry out a run, for which the nodes of these groups have to report.

    Returns the cluster afterwards if ``after`` is set and Ganeti answers, else None.
    """
    stop = trio.Event()
    async with LuxiClient(path) as ganeti:

        async def read() -> Cluster:
            answers = await queries.whole_cluster(ganeti)
            cluster = await trio.to_thread.run_sync(luxi.parse_with_silent_nodes, answers)
            if silent := silent_nodes(cluster, groups):
                raise DataError(describe_silent(silent))
            return await storage_jobs.with_storage(ganeti, cluster, _warn) if ask_storage else cluster

        cluster = None
        heeded = streams.not_ignored(signal.SIGINT, signal.SIGHUP)
        with messages.progress("jobs") as live, trio.open_signal_receiver(signal.SIGTERM, *heeded) as signals:
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
