"""An action of ``hmaintain(1)``: planned, reported, and carried out."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.cli.cluster import read_cluster
from ganeti_htools.cli.report import maintenance
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.runs.run_marks import refuse_living
from ganeti_htools.cli.terminal.messages import say, warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HMAINTAIN
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.planning.maintenance import hmaintain as planning
from ganeti_htools.planning.maintenance.hmaintain import MaintainOptions, MaintenancePlan
from ganeti_htools.planning.view import is_called

Tell = Callable[..., None]
_ANSWERING = 600.0  # seconds to wait for the daemons of nodes that boot
_PAUSE = 10.0


def read_now(line: CommandLine) -> Cluster:
    """Read the cluster once jobs of earlier runs have ended. Raises HtoolsError."""
    plans.executor(line).settle(HMAINTAIN.name)
    return read_cluster(line).cluster


def plan_action(line: CommandLine, options: MaintainOptions) -> tuple[MaintenancePlan, Any]:
    """Plan an action. Returns the plan with htoolsd's answer, if that has made it.

    With ``-X`` this waits for jobs of earlier runs. Nodes whose maintenance ends are set online, and awaited.
    Raises HtoolsError.
    """
    if line.exec:
        executor = plans.executor(line)
        executor.settle(HMAINTAIN.name)
        if options.action == "end":
            check_marks(line, executor.nodes(), options)
            executor.await_nodes(options.nodes)
            set_online(line, options)
    reading = read_cluster(line)
    if line.exec:
        check_marks(line, reading.cluster.nodes, options)
    state = planning.state_of(reading.cluster, options)
    return plans.make(line, planning.HMAINTAIN, state, options, reading.generations)


def check_marks(line: CommandLine, nodes: Iterable[Node], options: MaintainOptions) -> None:
    """Refuse nodes on which another run is at work. Raises HtoolsError."""
    nodes = [node for node in nodes if any(is_called(node.name, name) for name in options.nodes)]
    if options.take_over:
        refuse_living(line, nodes, options.run)
    elif options.action in ("start", "end"):
        for node in nodes:
            planning.refuse_other_run(node, options)


def report(plan: MaintenancePlan, tell: Tell) -> None:
    tell(*map(wrapped, maintenance.about(plan)))
    for text in maintenance.remarks(plan):
        warn(f"Warning: {text}")


def carry_out(line: CommandLine, plan: MaintenancePlan, answer: Any, tell: Tell) -> Mapping[str, Any] | None:
    """Carry a plan out if there is anything to do. Returns the record of the run. Raises HtoolsError."""
    return plans.carry_out(line, HMAINTAIN.name, plan, answer, tell) if any(plan.jobs()) else None


def execute_action(line: CommandLine, options: MaintainOptions, tell: Tell) -> MaintenancePlan:
    """Carry out an action, if there is anything to do. Returns its plan.

    Raises HtoolsError; KeyboardInterrupt if somebody stops it.
    """
    plan, answer = plan_action(line, options)
    if any(plan.jobs()):
        report(plan, tell)
        outcome = carry_out(line, plan, answer, tell)
        plans.conclude(outcome)
        if outcome is not None and outcome["ending"] == "stopped":
            raise KeyboardInterrupt
    return plan


def set_online(line: CommandLine, options: MaintainOptions) -> None:
    """Set nodes online that were set offline for maintenance, once their daemons answer; wait for figures.

    Raises HtoolsError if that takes too long.
    """
    from ganeti_htools.execution.run import Ending  # loads trio

    end, online = time.monotonic() + _ANSWERING, replace(options, action="online")
    while True:
        plan, answer = plan_action(line, online)
        outcome = carry_out(line, plan, answer, lambda *_: None)
        if outcome is None or outcome["ending"] != Ending.FAILED.value or time.monotonic() > end:
            plans.conclude(outcome)
            plans.executor(line).await_nodes(options.nodes)
            return
        say(f"Waiting until the daemons of {', '.join(node.name for node in plan.nodes)} answer\n")
        time.sleep(_PAUSE)
