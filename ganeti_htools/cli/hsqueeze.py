"""``hsqueeze``: which nodes a cluster can do without, or needs back (``hsqueeze(1)``)."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti_htools.cli import clusters
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.report.script import commands, script, shown
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json
from ganeti_htools.cli.terminal.saying import progress, say
from ganeti_htools.cli.typed import execution_of
from ganeti_htools.cli.viewing import seen, view_of
from ganeti_htools.commandline.programs import HSQUEEZE
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.maintenance import squeeze
from ganeti_htools.engine.maintenance.squeeze import Action, PowerPlan
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.state import State
from ganeti_htools.planning import hsqueeze as planning
from ganeti_htools.planning import view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.jobsets import Move, Names

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
    return Options(view_of(line), execution_of(line), line.minimal_resources, line.target_resources)


def run(line: CommandLine) -> int:
    """Plan and tell; the exit status. Raises HtoolsError."""
    check_exec(HSQUEEZE, line)
    options, reading = _options(line), clusters.load_dated(line)
    cluster = reading.cluster
    state = seen(cluster, line)
    _save(line, "original", "before hsqueeze run", view.loaded(state, cluster))
    _show(line, "Initial", state)
    told = None
    if line.daemon is not None:
        from ganeti_htools.cli import by_daemon  # seldom needed

        told = by_daemon.plan(line, HSQUEEZE.name, options, reading.generations)
        plan = planning.plan_again(state, options, told["found"])
    else:
        with progress() as live:
            plan = planning.plan(state, cluster.ipolicy.std, options, live)
    sets = planning.sets_of(state, plan)
    names = Names(state).nodes
    lines = _script(plan, sets, [names[row] for row in plan.nodes])
    if not line.json:
        _tell(line, state, plan)
    _give_commands(line, lines)
    wanted = line.exec and plan.action is not Action.NOTHING
    outcome = _execute(line, options, state, plan, told) if wanted else None
    if line.json:
        _report(state, plan, sets, outcome)
    if outcome is not None:
        from ganeti_htools.cli import executing

        executing.conclude(outcome)
    _show(line, "Final", plan.state)
    _save(line, "squeezed", _SAVED[plan.action], plan.state.settled())
    return 0


def _execute(
    line: CommandLine, options: Options, state: State, plan: PowerPlan, told: Any
) -> Mapping[str, Any]:
    """Carry the plan out (``-X``), or have it carried out: the record of that."""
    from ganeti_htools.cli import executing  # what talks to Ganeti takes long to load
    from ganeti_htools.execution.record import record
    from ganeti_htools.planning.proposal import begin

    def tell(*texts: str) -> None:
        if not line.json:
            print(*texts, sep="\n", flush=True)

    out = executing.undeterred(tell)
    if told is not None:
        from ganeti_htools.cli import by_daemon

        return by_daemon.carry_out(line, told["id"], out)
    run = begin(HSQUEEZE.name, planning.purpose(plan), planning.jobs(state, plan), options.execution)
    nodes = state.names(plan.nodes)
    check = planning.reviewer(options, plan.action, nodes, line.on_change, out, progress)
    executing.carry_out(line, run, check, out)
    return record(run)


def _candidates(state: State) -> dict[str, list[str]]:
    return {
        "offline": state.names(squeeze.offline_candidates(state).tolist()),
        "online": state.names(squeeze.online_candidates(state).tolist()),
    }


def _tell(line: CommandLine, state: State, plan: PowerPlan) -> None:
    if line.verbose > 1:
        for kind, nodes in _candidates(state).items():
            print(f"{kind.title()} candidates: {','.join(nodes)}")
    if not line.no_headers:
        print(planning.TITLES[plan.action])
    for node in state.names(plan.nodes):
        print(node)
    if line.verbose > 1 and not plan.enough:
        print("Onlining all nodes will not yield enough capacity")


def _report(
    state: State, plan: PowerPlan, sets: Sequence[Sequence[Move]], outcome: Mapping[str, Any] | None
) -> None:
    print_json(
        {
            "action": plan.action.value,
            "nodes": state.names(plan.nodes),
            "enough": plan.enough,
            "candidates": _candidates(state),
            "jobsets": [
                [
                    {
                        "instance": move.instance,
                        "from": move.was,
                        "to": move.now,
                        "commands": [f"gnt-instance {command}" for command in move.commands],
                        "score": move.step.score,
                    }
                    for move in jobs
                ]
                for jobs in sets
            ],
            **({} if outcome is None else {"execution": outcome}),
        }
    )


def _script(plan: PowerPlan, sets: Sequence[Sequence[Move]], nodes: Sequence[str]) -> str:
    """What to run: nodes are emptied before they are powered down, filled once they are powered up."""
    if plan.action is Action.NOTHING:
        return "echo Nothing to do"
    if plan.action is Action.ONLINE:
        power = "".join(f"  {planning.power_command('on', node)}\n" for node in nodes)
        return f"echo Power Commands\n{power}{commands(sets)}"
    tags = "".join(f"  {planning.tag_command(node)}\n" for node in nodes)
    power = "".join(f"  {planning.power_command('off', node)}\n" for node in nodes)
    return f"{commands(sets)}\necho Tagging Commands\n{tags}\necho Power Commands\n{power}"


def _give_commands(line: CommandLine, lines: str) -> None:
    if line.print_commands == "-":
        if not line.json:
            print(f"\nCommands to run:\n{shown(lines)}", end="")
    elif line.print_commands is not None:
        write_text(line.print_commands, script(lines))
        if not line.json:
            print(f"The commands have been written to file '{line.print_commands}'")


def _show(line: CommandLine, title: str, state: State) -> None:
    if line.print_nodes is not None:
        say(tables.node_status(f"{title} cluster", state, line.print_nodes))


def _save(line: CommandLine, extension: str, when: str, cluster: Cluster) -> None:
    if line.save is not None:
        say(clusters.save(line.save, extension, when, cluster) + "\n")


if __name__ == "__main__":
    sys.exit(main())
