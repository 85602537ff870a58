"""``-D``: plans that htoolsd makes and carries out. The tool reports them like its own plans."""

import signal
import time
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import trio

from ganeti_htools import streams
from ganeti_htools.cli.runs.ending import save_outcome
from ganeti_htools.cli.terminal import messages
from ganeti_htools.client import CallRefusedError, Daemon, NoReplyError, PlanChange, Refusal, on_trio
from ganeti_htools.commandline.line import LOCAL, CommandLine
from ganeti_htools.commandline.sources import source_of
from ganeti_htools.execution.record import INTERRUPTED, run_from_record
from ganeti_htools.execution.review import Say
from ganeti_htools.model.cluster import Node
from ganeti_htools.model.errors import HtoolsError, UsageError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning.options import to_json
from ganeti_htools.planning.view import is_called
from ganeti_htools.sources.source import Source, describe_silent, read

_REPORTING = 600.0  # seconds to wait for nodes that do not report
_BEGINNING = 180.0  # seconds until a plan begins; it is judged first
_REFRESHING = 60.0  # seconds; Ganeti may wait for a node
_PAUSE = 2.0


class ByDaemon:
    """Plans and their execution by the htoolsd that a command line names."""

    def __init__(self, line: CommandLine) -> None:
        self.line, self._daemon = line, Daemon(line.daemon or "")

    def plan(self, tool: str, options: Any, generations: Mapping[str, int] | None) -> Any:
        """Ask for the plan of a tool, for the cluster of these generations. Returns the answer.

        Raises HtoolsError.
        """
        for name in self.line.given:
            if name in LOCAL:
                raise UsageError(f"--{name.replace('_', '-')} cannot be used where htoolsd makes the plan")
        with messages.progress("waiting for the plan of htoolsd"):
            return self._daemon.plan(tool, to_json(options), generations)

    def carry_out(self, _tool: str, _plan: object, answer: Any, say: Say) -> Mapping[str, Any]:
        """Have htoolsd carry out the plan of its answer, and save the outcome (``-S``).

        Returns the record of the run. Lines about the run go to ``say``. If this program ends early, the plan
        goes on. Raises HtoolsError.
        """
        line, number = self.line, answer["id"]
        if line.no_wait:
            trio.run(self._begin, number)
            say(f"Plan {number} has been begun; 'htoolsctl plan {number}' follows it")
            plan: Any = self._daemon.call("follow", {"plan": number})
        else:
            plan = trio.run(self._follow, number, say)
        outcome: Mapping[str, Any] = plan["execution"]
        if outcome["ending"] == INTERRUPTED:
            doing = outcome["going_on"]
            messages.say(f"The plan was left{f'; these go on in Ganeti: {doing}' if doing else ''}\n")
        elif line.save is not None and outcome["ending"] is not None:
            self.settle("")
            cluster = read(Source(daemon=line.daemon or ""), messages.warn).cluster
            save_outcome(line, cluster, run_from_record("htoolsd", outcome).rest)
        return outcome

    def settle(self, _program: str) -> None:
        """Have htoolsd read the cluster now; it knows its own jobs. Raises HtoolsError."""
        self._daemon.call("refresh", patience=_REFRESHING)

    def nodes(self) -> Sequence[Node]:
        """Return all nodes, which may be silent. Raises HtoolsError."""
        return read(source_of(self.line), lambda _text: None).cluster.nodes

    def await_nodes(self, names: Sequence[str]) -> None:
        """Wait until htoolsd has figures of nodes; names may be cut off at a dot. Raises HtoolsError."""
        end, before = time.monotonic() + _REPORTING, list[str]()
        while silent := self._silent(names):
            if silent != before:
                messages.say(f"Waiting: {describe_silent(silent)}\n")
            if time.monotonic() > end:
                raise HtoolsError(f"{describe_silent(silent)}; given up after {_REPORTING:g} s")
            before = silent
            time.sleep(_PAUSE)
            self.settle("")

    def _silent(self, names: Sequence[str]) -> list[str]:
        cluster = self._daemon.status()["cluster"]
        return [node for node in cluster["silent"] if any(is_called(node, name) for name in names)]

    async def _begin(self, number: str) -> None:
        line, daemon = self.line, on_trio.TrioDaemon(self._daemon.path)
        try:
            await daemon.execute(number, line.on_change, line.wait_for_nodes, patience=_BEGINNING)
        except NoReplyError as error:
            raise HtoolsError(
                f"{error}; 'htoolsctl plan {number}' shows whether it is carried out"
            ) from error

    async def _follow(self, number: str, say: Say) -> Any:
        """Begin a plan and report its progress until it has ended. Returns the plan at its end.

        An interrupt that arrives while the plan begins takes effect once it has begun.
        """
        daemon = on_trio.TrioDaemon(self._daemon.path)
        last: PlanChange | None = None
        problem: HtoolsError | None = None
        heeds = streams.not_ignored(signal.SIGINT)
        heeded = trio.open_signal_receiver(signal.SIGINT) if heeds else nullcontext()
        with messages.progress(f"plan {number}") as live, heeded as signals:
            await self._begin(number)
            async with open_nursery() as nursery:
                if signals is not None:
                    nursery.start_soon(_handle_interrupts, signals, daemon, number, nursery)
                try:
                    async for change in daemon.follow(number):
                        live("")
                        for kind, text in change.lines:
                            if kind == "said":
                                say(text)
                            else:
                                messages.say(f"{text}\n")
                        live(change.plan["standing"])
                        last = change
                except HtoolsError as error:
                    problem = error
                nursery.cancel_scope.cancel()
        if problem is not None:
            raise HtoolsError(f"{problem}; 'htoolsctl plan {number}' shows the plan's state")
        if last is None or not last.ended:
            raise HtoolsError(f"not waiting any more; 'htoolsctl plan {number}' shows the plan's state")
        return last.plan


async def _handle_interrupts(
    signals: AsyncIterable[int], daemon: on_trio.TrioDaemon, plan: str, nursery: trio.Nursery
) -> None:
    """Stop the plan after the current jobs at the first interrupt, and at once at the second.

    The third interrupt ends the program without an answer, for htoolsd may hang.
    """
    interruptions = 0
    async for _ in signals:
        interruptions += 1
        if interruptions > 2:
            nursery.cancel_scope.cancel()
            return
        if interruptions == 1:
            messages.say("Interrupted: stopping once the current jobs have ended; again to stop at once\n")
        else:
            messages.say("Interrupted again: stopping at once; again not to wait for that\n")
        nursery.start_soon(_cancel, daemon, plan, interruptions > 1)


async def _cancel(daemon: on_trio.TrioDaemon, plan: str, now: bool) -> None:
    """Stop a plan; one that has ended is left alone."""
    try:
        await daemon.cancel(plan, now)
    except HtoolsError as error:
        if not (isinstance(error, CallRefusedError) and error.kind == Refusal.PLAN):
            messages.say(f"The plan cannot be stopped: {error}\n")
