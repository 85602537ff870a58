"""``hsqueeze``: which nodes a cluster can do without, or needs back (``hsqueeze(1)``)."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti_htools.cli.cluster.loading import load_dated
from ganeti_htools.cli.cluster.saving import save
from ganeti_htools.cli.cluster.viewing import seen
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.report.script import commands, give_commands
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.cli.terminal.saying import progress, say, warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import execution_of
from ganeti_htools.commandline.programs import HSQUEEZE
from ganeti_htools.commandline.views import view_of
from ganeti_htools.engine.squeezing import candidates
from ganeti_htools.engine.squeezing.power_plan import Action, PowerPlan
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import during
from ganeti_htools.model.state import State
from ganeti_htools.planning import hsqueeze as planning
from ganeti_htools.planning import power_told, view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.jobsets import Move, Names, cost_of
from ganeti_htools.planning.leftovers import leftovers
from ganeti_htools.planning.proposal import begin
from ganeti_htools.sources.source import Source
from ganeti_htools.sources.source import read as load

if TYPE_CHECKING:
    from ganeti_htools.execution.wording import Say

Phases = Sequence[Sequence[Sequence[Move]]]  # the moves of each phase, by jobset

_SAVED = {
    Action.NOTHING: "after hsqueeze doing nothing",
    Action.OFFLINE: "after hsqueeze run",
    Action.ONLINE: "after hsqueeze expansion",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HSQUEEZE, run, argv)


def _options(line: CommandLine) -> Options:
    """What a command line asks of the plan."""
    return Options(
        view_of(line),
        execution_of(line),
        line.minimal_resources,
        line.target_resources,
        line.prefer,
        line.never,
        line.max_nodes,
        line.allow_drbd,
        line.allow_all,
    )


def run(line: CommandLine) -> None:
    """Plan and tell. Raises HtoolsError."""
    options, tell = _options(line), printer(line)
    check_exec(HSQUEEZE, line)
    if line.exec and line.luxi is not None:
        from ganeti_htools.cli.runs import over_luxi  # what talks to Ganeti takes long to load

        over_luxi.let_end(line, HSQUEEZE.name)
    reading = load_dated(line)
    cluster = reading.cluster
    read = seen(cluster, line)
    save(line, "original", "before hsqueeze run", lambda: view.loaded(read, cluster))
    _show(line, "Initial", read)
    if options.raised:
        warn(f"Warning: {options.raised}")
    left = str(leftovers(cluster)) if line.exec else ""
    if left:
        warn(f"Warning: not finished by an earlier run: {left}")
    state = planning.seen(_knowing(line, cluster), options)
    told = plans.of_daemon(line, HSQUEEZE.name, options, reading.generations)
    plan = _plan(state, options, told)
    sets = planning.sets_of(state, plan)
    _tell_of_plan(line, state, plan, options, sets, tell)
    give_commands(line, "Commands to run:", _script(state, plan, sets), tell)
    wanted = line.exec and (plan.action is not Action.NOTHING or left)
    outcome = _execute(line, options, state, plan, told, tell) if wanted else None
    if line.json:
        _report(state, plan, options, sets, outcome)
    if outcome is not None:
        from ganeti_htools.cli.runs.ending import conclude

        conclude(outcome)
    _show(line, "Final", plan.state)
    save(line, "squeezed", _SAVED[plan.action], plan.state.to_cluster)


def _plan(state: State, options: Options, told: Any) -> PowerPlan:
    """Make the plan. A plan of htoolsd (``told``) is not looked for again."""
    if told is not None:
        return planning.plan_again(state, options, told["found"])
    with progress() as live:
        return planning.plan(state, options, live)


def _knowing(line: CommandLine, cluster: Cluster) -> Cluster:
    """The cluster with what a file from before tells of standby nodes. Raises HtoolsError."""
    if line.standby_data is None:
        return cluster
    with during("--standby-data"):
        return planning.knowing(cluster, load(Source(text=line.standby_data), warn).cluster)


def _execute(
    line: CommandLine,
    options: Options,
    state: State,
    plan: PowerPlan,
    told: Any,
    tell: "Say",
) -> Mapping[str, Any]:
    """Carry the plan out (``-X``); the run's record."""
    from ganeti_htools.planning.power_review import reviewer  # needed only where jobs are submitted

    return plans.carry_out(
        line,
        told,
        lambda: begin(HSQUEEZE.name, planning.purpose(plan), planning.jobs(state, plan), options.execution),
        lambda say: reviewer(state, plan, options, line.on_change, say, progress),
        tell,
    )


def _candidates(state: State, options: Options) -> dict[str, list[str]]:
    return {
        "offline": state.names(candidates.offline_candidates(state, options.allowed).tolist()),
        "online": state.names(candidates.online_candidates(state).tolist()),
    }


def _tell_of_plan(
    line: CommandLine, state: State, plan: PowerPlan, options: Options, sets: Phases, tell: "Say"
) -> None:
    if line.verbose > 1:
        candidates = _candidates(state, options).items()
        tell(*(f"{kind.title()} candidates: {','.join(nodes)}" for kind, nodes in candidates))
    if not line.no_headers:
        tell(planning.TITLES[plan.action])
    for node in state.names(plan.nodes):
        tell(node)
    for text in power_told.then_down(state, plan):
        tell(text)
    if stopped := planning.stopped(state, plan):
        warn(f"Warning: stopped while they are copied: {len(stopped)} instances, {', '.join(stopped)}")
    if line.verbose > 1 and not plan.enough:
        tell("Onlining all nodes will not yield enough capacity")
    if line.verbose > 2:
        cost = _cost(sets)
        tell(f"{len(plan.steps)} moves: {cost['disk_mib']} MiB of disks, {cost['memory_mib']} MiB of memory")
        tell(*(f"Group {name}: at least {mib} MiB free" for name, mib in power_told.least_free(plan).items()))
        tell(*(f"Node {node} stays: {why}" for node, why in power_told.kept(state, plan, options).items()))


def _report(
    state: State, plan: PowerPlan, options: Options, sets: Phases, outcome: Mapping[str, Any] | None
) -> None:
    report: dict[str, Any] = {
        "action": plan.action.value,
        "nodes": state.names(plan.nodes),
        "enough": plan.enough,
        "cost": _cost(sets),
        "stopped": planning.stopped(state, plan),
        "least_free_mib": power_told.least_free(plan),
        "kept": power_told.kept(state, plan, options),
        "candidates": _candidates(state, options),
        "jobsets": [list(map(_move, jobs)) for own in sets for jobs in own],
    }
    if len(plan.phases) > 1:
        report["phases"] = [
            {"action": phase.action.value, "nodes": state.names(phase.nodes), "jobsets": len(own)}
            for phase, own in zip(plan.phases, sets, strict=True)
        ]
    if outcome is not None:
        report["execution"] = outcome
    print_json(report)


def _cost(sets: Phases) -> dict[str, Any]:
    return cost_of([jobs for own in sets for jobs in own])


def _move(move: Move) -> dict[str, Any]:
    return {
        "instance": move.instance,
        "from": move.was,
        "to": move.now,
        "commands": [f"gnt-instance {command}" for command in move.commands],
        "score": move.step.score,
    }


def _script(state: State, plan: PowerPlan, sets: Phases) -> str:
    """What to run: nodes are emptied before they are powered down, filled once they are powered up."""
    if plan.action is Action.NOTHING:
        return "echo Nothing to do"
    names = Names(state).nodes
    phases = zip(plan.phases, sets, strict=True)
    return "".join(_commands(phase.action, [names[row] for row in phase.nodes], own) for phase, own in phases)


def _commands(action: Action, nodes: Sequence[str], sets: Sequence[Sequence[Move]]) -> str:
    """What to run for a phase."""
    if action is Action.ONLINE:
        power = "".join(f"  {power_told.power_command('on', node)}\n" for node in nodes)
        return f"echo Power Commands\n{power}{commands(sets)}"
    tags = "".join(f"  {power_told.tag_command(node)}\n" for node in nodes)
    power = "".join(f"  {power_told.power_command('off', node)}\n" for node in nodes)
    return f"{commands(sets)}\necho Tagging Commands\n{tags}\necho Power Commands\n{power}"


def _show(line: CommandLine, title: str, state: State) -> None:
    if line.print_nodes is not None:
        say(tables.node_status(f"{title} cluster", state, line.print_nodes))


if __name__ == "__main__":
    sys.exit(main())
