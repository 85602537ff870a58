"""``hsqueeze``: power down nodes that a cluster can do without, or power nodes up (``hsqueeze(1)``)."""

from functools import partial

from ganeti_htools.cli.cluster import make_state, read_cluster, save
from ganeti_htools.cli.report import squeeze, tables
from ganeti_htools.cli.report.moves import copying_time
from ganeti_htools.cli.report.page import write_page
from ganeti_htools.cli.report.script import give_commands
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.messages import say, warn
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import execution_of, view_of
from ganeti_htools.commandline.programs import HSQUEEZE
from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import during
from ganeti_htools.model.options import CopyingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.plan import statement
from ganeti_htools.planning.squeezing import hsqueeze as planning
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.planning.squeezing.leftovers import find_leftovers
from ganeti_htools.sources.source import Source
from ganeti_htools.sources.source import read as load

_SAVED = {
    Action.NOTHING: "after hsqueeze doing nothing",
    Action.OFFLINE: "after hsqueeze run",
    Action.ONLINE: "after hsqueeze expansion",
}


def squeeze_options(line: CommandLine) -> SqueezeOptions:
    """Read the options of the plan from a command line."""
    return SqueezeOptions(
        view=view_of(line),
        execution=execution_of(line),
        minimal_resources=line.minimal_resources,
        target_resources=line.target_resources,
        prefer=line.prefer,
        never=line.never,
        max_nodes=line.max_nodes,
        allow_drbd=line.allow_drbd,
        allow_all=line.allow_all,
    )


def run(line: CommandLine) -> None:
    """Read the cluster, plan, report and carry out. Raises HtoolsError."""
    options, tell = squeeze_options(line), printer(line)
    check_exec(HSQUEEZE, line)
    if line.exec and line.luxi is not None:
        plans.executor(line).settle(HSQUEEZE.name)
    reading = read_cluster(line)
    cluster = reading.cluster
    read = make_state(cluster, line)
    save(line, "original", "before hsqueeze run", lambda: view.without_options(read, cluster))
    say(tables.node_status("Initial cluster", read, line.print_nodes))
    if options.target_warning:
        warn(f"Warning: {options.target_warning}")
    unfinished = str(find_leftovers(cluster))
    if unfinished:
        first = "" if line.exec else "; the first jobs of this plan finish it"
        warn(f"Warning: not finished by an earlier run: {unfinished}{first}")
    state = planning.state_of(_with_standby_data(line, cluster), options)
    plan, answer = plans.make(line, planning.HSQUEEZE, state, options, reading.generations)
    for text in squeeze.about(plan, line):
        tell(text)
    warnings, refusals = [*squeeze.warnings(plan)], squeeze.refusals(plan)
    for text in (*(f"Warning: {each}" for each in warnings), *refusals):
        warn(text)
    for text in squeeze.details(plan, line.verbose):
        tell(text)
    give_commands(line, "Commands to run:", lambda: squeeze.script(plan), tell)
    summary = "; ".join(squeeze.summary(plan)) or "No node is powered down or up"
    moves = [jobs for own in plan.sets() for jobs in own]
    title, notes = "hsqueeze: nodes to power down or up", [*warnings, *refusals]
    time = copying_time(plan, moves, answer, CopyingOptions()) if moves else ""
    later = None if plan.power.action is Action.NOTHING else plan.power.state
    write_page(line, title, state, later, moves, notes, sentence=f"{summary}.", time_of_moves=time)
    wanted = line.exec and (plan.power.action is not Action.NOTHING or unfinished)
    outcome = plans.carry_out(line, HSQUEEZE.name, plan, answer, tell) if wanted else None
    if line.json:
        print_json(
            squeeze.as_json(plan, outcome) | {"plan": statement(HSQUEEZE.name, plan, cluster)}, cluster
        )
    plans.conclude(outcome)
    say(tables.node_status("Final cluster", plan.power.state, line.print_nodes))
    save(line, "squeezed", _SAVED[plan.power.action], plan.power.state.to_cluster)


def _with_standby_data(line: CommandLine, cluster: Cluster) -> Cluster:
    """Add the figures of standby nodes from the file of ``--standby-data``. Raises HtoolsError."""
    if line.standby_data is None:
        return cluster
    with during("--standby-data"):
        return planning.with_standby_data(cluster, load(Source(text=line.standby_data), warn).cluster)


main = partial(execute, HSQUEEZE, run)
