"""An action of ``hmaintain(1)``: planned, reported, and carried out."""

from collections.abc import Callable, Mapping
from typing import Any

from ganeti_htools.cli.cluster import read_cluster
from ganeti_htools.cli.report import maintenance
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HMAINTAIN
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import hmaintain as planning
from ganeti_htools.planning.hmaintain import MaintainOptions, MaintenancePlan

Tell = Callable[..., None]


def read_now(line: CommandLine) -> Cluster:
    """Read the cluster once jobs of earlier runs have ended. Raises HtoolsError."""
    _settle(line)
    return read_cluster(line).cluster


def make(line: CommandLine, options: MaintainOptions) -> tuple[MaintenancePlan, Any]:
    """Plan an action. Returns the plan with htoolsd's answer, if that has made it.

    With ``-X`` this waits for jobs of earlier runs, and for nodes whose maintenance ends. Raises HtoolsError.
    """
    if line.exec:
        _settle(line)
        if options.action == "end":
            _await_nodes(line, options.nodes)
    reading = read_cluster(line)
    state = planning.state_of(reading.cluster, options)
    return plans.make(line, planning.HMAINTAIN, state, options, reading.generations)


def report(plan: MaintenancePlan, tell: Tell) -> None:
    """Report a plan."""
    tell(*map(wrapped, maintenance.about(plan)))
    for text in maintenance.remarks(plan):
        warn(f"Warning: {text}")


def carry_out(line: CommandLine, plan: MaintenancePlan, answer: Any, tell: Tell) -> Mapping[str, Any] | None:
    """Carry a plan out if there is anything to do. Returns the record of the run. Raises HtoolsError."""
    return plans.carry_out(line, HMAINTAIN.name, plan, answer, tell) if any(plan.jobs()) else None


def _settle(line: CommandLine) -> None:
    from ganeti_htools.cli.runs import by_daemon, over_luxi  # load trio and the LUXI client

    if line.daemon is None:
        over_luxi.let_end(line, HMAINTAIN.name)
    else:
        by_daemon.refresh(line)


def _await_nodes(line: CommandLine, nodes: tuple[str, ...]) -> None:
    from ganeti_htools.cli.runs import by_daemon, over_luxi

    (over_luxi if line.daemon is None else by_daemon).await_nodes(line, nodes)
