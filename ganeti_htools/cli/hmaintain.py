"""``hmaintain``: empty nodes for maintenance, and bring back what they had (``hmaintain(1)``)."""

import getpass
import os
import socket
import sys
import time
from collections.abc import Sequence

from ganeti_htools.cli.cluster import load, make_state, read_cluster
from ganeti_htools.cli.report import maintenance
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.report.script import give_commands, job_script
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import execution_of, view_of
from ganeti_htools.commandline.programs import HMAINTAIN
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning import hmaintain as planning
from ganeti_htools.planning.hmaintain import MaintainOptions
from ganeti_htools.planning.maintenance_status import maintenance_status

INCOMPLETE = 3  # the exit status if instances stay, or do not return


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program. Returns its exit status."""
    return execute(HMAINTAIN, run, argv)


def run(line: CommandLine) -> int:
    """Read the cluster, plan, report and carry out. Returns the exit status; raises HtoolsError."""
    action, *nodes = line.arguments or ("",)
    if action == "status":
        if nodes or line.exec:
            raise HtoolsError("status: expected neither nodes nor -X")
        return _status(line)
    options, tell = _options(line, action, nodes), printer(line)
    check_exec(HMAINTAIN, line)
    if line.exec:
        _wait(line, action, nodes)
    reading = read_cluster(line)
    state = planning.state_of(reading.cluster, options)
    plan, answer = plans.make(line, planning.HMAINTAIN, state, options, reading.generations)
    tell(*map(wrapped, maintenance.about(plan)))
    for text in maintenance.remarks(plan):
        warn(f"Warning: {text}")
    give_commands(line, "Commands to run:", lambda: job_script(plan.jobs()), tell)
    wanted = line.exec and any(plan.jobs())
    outcome = plans.carry_out(line, HMAINTAIN.name, plan, answer, tell) if wanted else None
    if line.json:
        print_json(maintenance.as_json(plan, outcome))
    plans.conclude(outcome)
    return INCOMPLETE if plan.staying else 0


def _wait(line: CommandLine, action: str, nodes: Sequence[str]) -> None:
    """Wait for jobs of earlier runs, and for nodes whose maintenance ends. Raises HtoolsError."""
    from ganeti_htools.cli.runs import by_daemon, over_luxi  # load trio and the LUXI client

    if line.daemon is None:
        over_luxi.let_end(line, HMAINTAIN.name)
    if action == "end":
        (over_luxi if line.daemon is None else by_daemon).await_nodes(line, nodes)


def _options(line: CommandLine, action: str, nodes: Sequence[str]) -> MaintainOptions:
    """Read the options of the plan from a command line. Raises HtoolsError."""
    if action not in ("start", "end"):
        raise HtoolsError("expected one of the actions start, end, status")
    if action == "start" and line.no_return:
        raise HtoolsError("--no-return goes with end only")
    if action == "end" and (line.empty or line.keep_candidate):
        raise HtoolsError("--empty and --keep-candidate go with start only")
    if not nodes:
        raise HtoolsError(f"{action}: expected the names of nodes")
    return MaintainOptions(
        view_of(line),
        execution_of(line),
        "start" if action == "start" else "end",
        tuple(nodes),
        line.empty,
        line.keep_candidate,
        line.no_return,
        line.take_over,
        not line.no_capacity_checks,
        line.ignore_soft_errors,
        _mark(),
    )


def _mark() -> str:
    """Return the mark of this run: time, user and machine, process."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{now}:{user}@{socket.gethostname().partition('.')[0]}:{os.getpid()}"


def _status(line: CommandLine) -> int:
    status = maintenance_status(make_state(load(line), line))
    if line.json:
        print_json(status)
    else:
        print(*map(wrapped, maintenance.status_text(status)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
