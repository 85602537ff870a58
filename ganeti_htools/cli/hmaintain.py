"""``hmaintain``: empty nodes for maintenance, and bring their instances back (``hmaintain(1)``)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ganeti_htools.cli.cluster import load, make_state
from ganeti_htools.cli.report import maintenance
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.report.script import give_commands, job_script
from ganeti_htools.cli.runs import maintenance as actions
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.runs.run_marks import new_mark
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import execution_of, view_of
from ganeti_htools.commandline.programs import HMAINTAIN
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.wording import did_you_mean
from ganeti_htools.planning.maintenance import hmaintain as planning
from ganeti_htools.planning.maintenance.hmaintain import MaintainOptions
from ganeti_htools.planning.maintenance.roll import RollOptions
from ganeti_htools.planning.maintenance.status import maintenance_status
from ganeti_htools.planning.plan import statement

INCOMPLETE = 3  # the exit status if instances stay or do not return, or nodes are left out
_ROLL = ("roll",)
_FITTING = {  # the actions of options that do not go with every action
    "empty": ("start", "roll"),
    "keep_candidate": ("start", "roll"),
    "set_offline": ("start", "roll"),
    "no_return": ("end",),
    "balance": ("end",),
    "explain": ("start", "end"),
    "print_commands": ("start", "end"),
    "no_wait": ("start", "end"),
    **dict.fromkeys(("command", "pause", "rebooted", "hours", "anew", "master_failover"), _ROLL),
    **dict.fromkeys(("group", "node_tags", "ignore_non_redundant"), _ROLL),
}


def run(line: CommandLine) -> int:
    """Read the cluster, plan, report and carry out. Returns the exit status; raises HtoolsError."""
    action, *nodes = line.arguments or ("",)
    if action == "status":
        if nodes or line.exec:
            raise HtoolsError("status: expected neither nodes nor -X")
        return _status(line)
    _check(line, action)
    if action == "roll":
        return _roll(line, nodes)
    if not nodes:
        raise HtoolsError(f"{action}: expected the names of nodes")
    if line.explain is not None:
        return _explain(line, _options(line, action, nodes))
    tell = printer(line)
    plan, answer = actions.plan_action(line, _options(line, action, nodes))
    actions.report(plan, tell)
    give_commands(line, "Commands to run:", lambda: job_script(plan.jobs()), tell)
    outcome = actions.carry_out(line, plan, answer, tell) if line.exec else None
    if line.json:
        cluster = plan.state.cluster
        described = statement(HMAINTAIN.name, plan, cluster)
        print_json(maintenance.as_json(plan, outcome) | {"plan": described}, cluster)
    plans.conclude(outcome)
    if line.exec and line.set_offline:
        actions.execute_action(line, replace(plan.options, action="offline"), tell)
    return INCOMPLETE if plan.staying else 0


def _check(line: CommandLine, action: str) -> None:
    """Check which options are given. Raises HtoolsError."""
    known = [name for name, _ in HMAINTAIN.actions]
    if action not in known:
        hint = did_you_mean(action, known)
        raise HtoolsError(f"expected one of the actions {', '.join(known)}", hint)
    for option, fitting in _FITTING.items():
        if option in line.given and action not in fitting:
            raise HtoolsError(f"--{option.replace('_', '-')} goes with {' and '.join(fitting)} only")
    if line.explain is not None and (line.exec or line.balance):
        raise HtoolsError("--explain shows places: it cannot go with --exec and --balance")
    check_exec(HMAINTAIN, line)


def _explain(line: CommandLine, options: MaintainOptions) -> int:
    """Print the places of each instance that leaves or returns. Raises HtoolsError if the plan is refused."""
    from ganeti_htools.cli.report.explanation import tell_explanations  # seldom needed
    from ganeti_htools.engine.explaining.explanation import ExplanationCollector

    state, collector = planning.state_of(load(line), options), ExplanationCollector(one_group=True)
    refusal = None
    try:
        planning.plan(state, options, lambda _text: None, collector)
    except HtoolsError as error:
        refusal = error
    tell_explanations(state, collector.explanations, "now", line.json)
    if refusal is not None:
        raise refusal
    return INCOMPLETE if any(each.why for each in collector.explanations) else 0


def _roll(line: CommandLine, nodes: Sequence[str]) -> int:
    from ganeti_htools.cli.runs import roll  # loads trio

    options = RollOptions(
        nodes=tuple(nodes),
        group=line.group,
        node_tags=line.node_tags,
        ignore_non_redundant=line.ignore_non_redundant,
        start=replace(_options(line, "start", ()), take_over=False),
    )
    tell = printer(line)
    cluster = None
    if line.exec:
        left, complete = roll.carry_out(line, options, tell)
    else:
        cluster = load(line)
        left, complete = roll.plan_roll(cluster, options), True
        tell(*map(wrapped, maintenance.about_roll(left)))
    if line.json:
        print_json(maintenance.roll_json(left), cluster)
    return 0 if complete and not left.refused else INCOMPLETE


def _options(line: CommandLine, action: str, nodes: Sequence[str]) -> MaintainOptions:
    """Return the options of the plan."""
    return MaintainOptions(
        view=view_of(line),
        execution=execution_of(line),
        action="start" if action == "start" else "end",
        nodes=tuple(nodes),
        empty=line.empty,
        keep_candidate=line.keep_candidate,
        no_return=line.no_return,
        balance=line.balance,
        take_over=line.take_over,
        check_redundancy=not line.no_capacity_checks,
        ignore_soft_errors=line.ignore_soft_errors,
        run=new_mark(),
    )


def _status(line: CommandLine) -> int:
    cluster = load(line)
    status = maintenance_status(make_state(cluster, line))
    if line.json:
        print_json(status, cluster)
    else:
        print(*map(wrapped, maintenance.status_text(status)), sep="\n")
    return 0


main = partial(execute, HMAINTAIN, run)
