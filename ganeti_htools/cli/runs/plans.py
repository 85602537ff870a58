"""The pipeline of the planning tools: a plan is made by the tool or by htoolsd (``-D``), then carried out.

A tool reads the cluster, makes its plan (:func:`make`), reports it, writes commands and files, carries the
plan out (:func:`carry_out`) and ends as the run ended (:func:`conclude`).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from ganeti_htools.cli.terminal.messages import progress, tolerant
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.review import Say
from ganeti_htools.model.state import State
from ganeti_htools.planning.plan import Tool, ToolOptions, ToolPlan, new_run

O = TypeVar("O", bound=ToolOptions)  # noqa: E741
P = TypeVar("P", bound=ToolPlan[Any])

Generations = Mapping[str, int] | None  # of the cluster that htoolsd has to plan for


def of_daemon(line: CommandLine, tool: str, options: ToolOptions, generations: Generations) -> Any:
    """Have htoolsd make the plan (:func:`.by_daemon.plan`). Returns None if the tool makes it."""
    if line.daemon is None:
        return None
    from ganeti_htools.cli.runs import by_daemon  # loads trio

    return by_daemon.plan(line, tool, options, generations)


def make(
    line: CommandLine, tool: Tool[O, P], state: State, options: O, generations: Generations
) -> tuple[P, Any]:
    """Make the plan, or restore it from htoolsd's answer; also returns that answer, None if there is none.

    Raises HtoolsError.
    """
    answer = of_daemon(line, tool.name, options, generations)
    if answer is not None:
        return tool.restore(state, options, answer["found"]), answer
    with progress() as live:
        return tool.plan(state, options, live), None


def carry_out(line: CommandLine, tool: str, plan: ToolPlan[Any], answer: Any, tell: Say) -> Mapping[str, Any]:
    """Carry a plan out (``-X``), by htoolsd if ``answer`` is from there. Returns the record of the run.

    Raises HtoolsError.
    """
    say = tolerant(tell)
    if answer is not None:
        from ganeti_htools.cli.runs import by_daemon

        return by_daemon.carry_out(line, answer["id"], say)
    from ganeti_htools.cli.runs import over_luxi  # loads trio and the LUXI client

    run = new_run(tool, plan.purpose, plan.jobs(), plan.options.execution)
    return over_luxi.carry_out(line, run, plan.review(line.on_change, say, progress), say)


def conclude(outcome: Mapping[str, Any] | None) -> None:
    """End the program as its run ended, if there was one. Raises HtoolsError or SystemExit."""
    if outcome is not None:
        from ganeti_htools.cli.runs import ending  # loads the LUXI client

        ending.conclude(outcome)
