"""The pipeline of the planning tools: a plan is made by the tool or by htoolsd (``-D``), then carried out.

A tool reads the cluster, makes its plan (:func:`make`), reports it, writes commands and files, carries the
plan out (:func:`carry_out`) and ends as the run ended (:func:`conclude`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ganeti_htools.cli.terminal.messages import progress, tolerant
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.review import Say
from ganeti_htools.model.cluster import Node, silent_nodes
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning.plan import Tool, ToolOptions, ToolPlan
from ganeti_htools.sources.source import describe_silent

O = TypeVar("O", bound=ToolOptions)  # noqa: E741
P = TypeVar("P", bound=ToolPlan[Any])

Generations = Mapping[str, int] | None  # of the cluster that htoolsd has to plan for


class Executor(Protocol):
    """Execution of plans, by this program or by htoolsd. All methods raise HtoolsError."""

    def carry_out(self, tool: str, plan: ToolPlan[Any], answer: Any, say: Say) -> Mapping[str, Any]:
        """Carry a plan out. Returns the record of the run."""

    def settle(self, program: str) -> None:
        """Let earlier runs of a program end, so that the cluster is read as it is then."""

    def nodes(self) -> Sequence[Node]:
        """Return all nodes with their tags; they may be silent."""

    def await_nodes(self, names: Sequence[str]) -> None:
        """Wait until nodes report; names may be cut off at a dot."""


def of_daemon(line: CommandLine, tool: str, options: ToolOptions, generations: Generations) -> Any:
    """Have htoolsd make the plan (:func:`.by_daemon.plan`). Returns None if the tool makes it."""
    if line.daemon is None:
        return None
    from ganeti_htools.cli.runs.by_daemon import ByDaemon  # loads trio

    return ByDaemon(line).plan(tool, options, generations)


def make(
    line: CommandLine, tool: Tool[O, P], state: State, options: O, generations: Generations
) -> tuple[P, Any]:
    """Make the plan, or restore it from htoolsd's answer; also returns that answer, None if there is none.

    Raises HtoolsError.
    """
    answer = of_daemon(line, tool.name, options, generations)
    if answer is not None:
        return tool.restore(state, options, answer["found"]), answer
    with progress("planning") as live:
        return tool.plan(state, options, live), None


def carry_out(line: CommandLine, tool: str, plan: ToolPlan[Any], answer: Any, tell: Say) -> Mapping[str, Any]:
    """Carry a plan out (``-X``), by htoolsd if ``answer`` is from there. Returns the record of the run.

    Raises HtoolsError, also for silent nodes in the plan's groups unless the plan waits for them.
    """
    silent = silent_nodes(plan.state.cluster, plan.groups)
    if silent and not line.wait_for_nodes:
        why, wait = describe_silent(silent), " (--wait-for-nodes waits for them)" * (line.daemon is not None)
        raise HtoolsError(f"{why}: nothing is carried out{wait}")
    return executor(line).carry_out(tool, plan, answer, tolerant(tell))


def executor(line: CommandLine) -> Executor:
    """Return who carries out plans: htoolsd (``-D``), or this program over LUXI."""
    if line.daemon is not None:
        from ganeti_htools.cli.runs.by_daemon import ByDaemon  # loads trio

        return ByDaemon(line)
    from ganeti_htools.cli.runs.over_luxi import OverLuxi  # loads trio and the LUXI client

    return OverLuxi(line)


def conclude(outcome: Mapping[str, Any] | None) -> None:
    """End the program as its run ended, if there was one. Raises HtoolsError or SystemExit."""
    if outcome is not None:
        from ganeti_htools.cli.runs import ending  # loads the LUXI client

        ending.conclude(outcome)
