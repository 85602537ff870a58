"""``hsqueeze``: which nodes a cluster can do without, or needs back (``hsqueeze(1)``)."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ganeti_htools.cli import files
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.report.script import commands, script, shown
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json
from ganeti_htools.cli.viewing import seen, view_of
from ganeti_htools.commandline.programs import HSQUEEZE
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.maintenance import squeeze
from ganeti_htools.engine.maintenance.squeeze import Action, Plan
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Instance
from ganeti_htools.model.policy import ISpec
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning import view
from ganeti_htools.planning.jobsets import Move, Names, cost_of, jobsets

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.review import Check, Review
    from ganeti_htools.execution.wording import Say
    from ganeti_htools.planning.proposal import Proposal

_TITLES = {
    Action.NOTHING: "'No action'",
    Action.OFFLINE: "'Nodes to offline'",
    Action.ONLINE: "'Nodes to online'",
}
_SAVED = {
    Action.NOTHING: "after hsqueeze doing nothing",
    Action.OFFLINE: "after hsqueeze run",
    Action.ONLINE: "after hsqueeze expansion",
}
_STANDBY_TAG = "htools:standby:auto"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HSQUEEZE, run, argv)


def run(line: CommandLine) -> int:
    """Plan and tell; the exit status. Raises HtoolsError."""
    check_exec(HSQUEEZE, line)
    cluster, generations = files.load_dated(line)
    state = seen(cluster, line)
    _save(line, "original", "before hsqueeze run", view.loaded(state, cluster))
    _show(line, "Initial", state)
    told = None
    if line.daemon is not None:
        from ganeti_htools.cli import by_daemon  # seldom needed

        told = by_daemon.plan(line, HSQUEEZE, generations)
        plan = _heard(line, state, told["found"])
    else:
        plan = _plan(line, state, cluster.ipolicy.std)
    sets = _sets(state, plan)
    names = Names(state).nodes
    lines = _script(plan, sets, [names[row] for row in plan.nodes])
    if not line.json:
        _tell(line, state, plan)
    _give_commands(line, lines)
    wanted = line.exec and plan.action is not Action.NOTHING
    outcome = _execute(line, state, plan, sets, told) if wanted else None
    if line.json:
        _report(state, plan, sets, outcome)
    if outcome is not None:
        from ganeti_htools.cli import executing

        executing.conclude(outcome)
    _show(line, "Final", plan.state)
    _save(line, "squeezed", _SAVED[plan.action], plan.state.settled())
    return 0


def _sets(state: State, plan: Plan) -> list[list[Move]]:
    names = Names(state, whole_instances=True)
    return jobsets([names.move(step) for step in plan.steps])


def _execute(
    line: CommandLine, state: State, plan: Plan, sets: Sequence[Sequence[Move]], told: Any
) -> Mapping[str, Any]:
    """Carry the plan out (``-X``), or have it carried out: the record of that."""
    from ganeti_htools.cli import executing  # what talks to Ganeti takes long to load
    from ganeti_htools.execution.record import record

    def tell(*texts: str) -> None:
        if not line.json:
            print(*texts, sep="\n", flush=True)

    say = executing.undeterred(tell)
    if told is not None:
        from ganeti_htools.cli import by_daemon

        return by_daemon.carry_out(line, told["id"], say)
    run = executing.begin(line, HSQUEEZE, _purpose(plan), _jobs(state, plan, sets))
    executing.carry_out(line, run, reviewer(line, state, plan, say), say)
    return record(run)


def _purpose(plan: Plan) -> str:
    return f"{'condensing' if plan.action is Action.OFFLINE else 'expanding'} by {len(plan.nodes)} nodes"


def propose(cluster: Cluster, line: CommandLine, heed: Callable[[], None]) -> "Proposal":
    """The plan that the program makes for a cluster; ``heed`` is called meanwhile. Raises HtoolsError.

    Made anew, it may touch any node, so it is one for all groups.
    """
    from ganeti_htools.planning import proposal

    line = replace(line, verbose=0)
    state = seen(files.with_dynamics(cluster, line), line)
    plan = _plan(line, state, cluster.ipolicy.std, heed)
    sets = _sets(state, plan)
    everywhere = np.ones(len(state.group), np.bool_)
    return proposal.Proposal(
        _purpose(plan),
        tuple(group.name for group in cluster.groups),
        _jobs(state, plan, sets),
        {"before": score_of(state, everywhere), "after": score_of(plan.state, everywhere)},
        cost_of([move for jobs in sets for move in jobs], sets),
        {
            "action": plan.action.value,
            "nodes": state.names(plan.nodes),
            "enough": plan.enough,
            "steps": proposal.told(state, plan.steps),
        },
        lambda on_change, say: reviewer(replace(line, on_change=on_change), state, plan, say),
    )


def _heard(line: CommandLine, state: State, told: Any) -> Plan:
    """The plan that htoolsd has told of. Raises DataError."""
    from ganeti_htools.planning import proposal

    action = Action(told["action"])
    rows = tuple(state.nodes[name] for name in told["nodes"])
    after = squeeze.switched(state, rows, action is Action.OFFLINE)
    steps = tuple(proposal.retraced(after, view.movable(state, view_of(line)), told["steps"]))
    return Plan(action, rows, steps, after, told["enough"])


def _jobs(state: State, plan: Plan, sets: Sequence[Sequence[Move]]) -> "Jobsets":
    """Moves, and power: nodes are emptied and tagged before they are powered down."""
    from ganeti_htools.cli import executing
    from ganeti_htools.execution.jobs import Job
    from ganeti_htools.luxi import opcodes

    moves, nodes = executing.moves(state, sets), state.names(plan.nodes)
    up = plan.action is Action.ONLINE
    word = "on" if up else "off"
    power = Job(
        f"power {word} {', '.join(nodes)}",
        tuple(opcodes.power(nodes, up)),
        tuple(_power_command(word, node) for node in nodes),
    )
    if plan.action is Action.NOTHING:
        return []
    if up:
        return [[power], *moves]
    tags = [
        Job(
            f"tag {node}",
            (opcodes.tag_node(node, [_STANDBY_TAG]),),
            (_tag_command(node),),
        )
        for node in nodes
    ]
    return [*moves, *([tag] for tag in tags), [power]]


def reviewer(line: CommandLine, state: State, plan: Plan, tell: "Say") -> "Check":
    """What looks at the rest of a plan on the cluster as it is then, and plans anew if options allow it."""
    from ganeti_htools.execution.review import Review

    line = replace(line, verbose=0)
    action, nodes = plan.action, state.names(plan.nodes)
    powered: set[str] = set()

    def check(cluster: Cluster, rest: "Jobsets", _made: int) -> "Review":
        nonlocal action, nodes
        now = seen(files.with_dynamics(cluster, line), line)
        target = _instance(cluster.ipolicy.std, line.target_resources)
        steps = [job.step for jobs in rest for job in jobs if job.step is not None]
        powering = any(job.step is None for jobs in rest for job in jobs)
        left = nodes if powering else ()
        if action is Action.ONLINE and not powering:
            powered.update(nodes)
        obstacle = squeeze.obstacle(now, action, left, steps, target, view.movable(now, view_of(line)))
        if obstacle is None:
            return Review()
        if line.on_change == "stop":
            return Review(obstacle)
        tell(f"The plan does not fit the cluster any more: {obstacle}", "Planning anew...")
        new = _plan(line, now, cluster.ipolicy.std)
        action, nodes = new.action, now.names(new.nodes)
        vainly = powered.intersection(nodes) if action is Action.ONLINE else ()
        if vainly:
            return Review(f"powered up, but still offline or drained: {', '.join(sorted(vainly))}")
        tell(_TITLES[action], *nodes)
        return Review(obstacle, _jobs(now, new, _sets(now, new)))

    return check


def _plan(line: CommandLine, state: State, standard: ISpec, heed: Callable[[], None] = lambda: None) -> Plan:
    with files.progress() as tell:

        def progress(tried: int, all_of: int) -> None:
            heed()
            tell(f"{tried} of {all_of} nodes tried")

        return squeeze.plan(
            state,
            minimum=_instance(standard, line.minimal_resources),
            target=_instance(standard, line.target_resources),
            movable=view.movable(state, view_of(line)),
            progress=progress,
        )


def _instance(spec: ISpec, factor: float) -> Instance:
    """An instance on external storage, that many times as large as the standard one."""

    def times(figure: int) -> int:
        return math.floor(min(factor * figure, MAX_MIB))

    return Instance(
        "targetInstance",
        mem=times(spec.memory_size),
        dsk=0,
        disks=(),
        vcpus=times(spec.cpu_count),
        auto_balance=False,
        template=DiskTemplate.EXT,
        spindle_use=times(spec.spindle_use),
    )


def _candidates(state: State) -> dict[str, list[str]]:
    return {
        "offline": state.names(squeeze.offline_candidates(state).tolist()),
        "online": state.names(squeeze.online_candidates(state).tolist()),
    }


def _tell(line: CommandLine, state: State, plan: Plan) -> None:
    if line.verbose > 1:
        for kind, nodes in _candidates(state).items():
            print(f"{kind.title()} candidates: {','.join(nodes)}")
    if not line.no_headers:
        print(_TITLES[plan.action])
    for node in state.names(plan.nodes):
        print(node)
    if line.verbose > 1 and not plan.enough:
        print("Onlining all nodes will not yield enough capacity")


def _report(
    state: State, plan: Plan, sets: Sequence[Sequence[Move]], outcome: Mapping[str, Any] | None
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


def _script(plan: Plan, sets: Sequence[Sequence[Move]], nodes: Sequence[str]) -> str:
    """What to run: nodes are emptied before they are powered down, filled once they are powered up."""
    if plan.action is Action.NOTHING:
        return "echo Nothing to do"
    if plan.action is Action.ONLINE:
        power = "".join(f"  {_power_command('on', node)}\n" for node in nodes)
        return f"echo Power Commands\n{power}{commands(sets)}"
    tags = "".join(f"  {_tag_command(node)}\n" for node in nodes)
    power = "".join(f"  {_power_command('off', node)}\n" for node in nodes)
    return f"{commands(sets)}\necho Tagging Commands\n{tags}\necho Power Commands\n{power}"


def _power_command(word: str, node: str) -> str:
    return f"gnt-node power -f {word} {node}"


def _tag_command(node: str) -> str:
    return f"gnt-node add-tags {node} {_STANDBY_TAG}"


def _give_commands(line: CommandLine, lines: str) -> None:
    if line.print_commands == "-":
        if not line.json:
            print(f"\nCommands to run:\n{shown(lines)}", end="")
    elif line.print_commands is not None:
        files.write_text(line.print_commands, script(lines))
        if not line.json:
            print(f"The commands have been written to file '{line.print_commands}'")


def _show(line: CommandLine, title: str, state: State) -> None:
    if line.print_nodes is not None:
        files.say(tables.node_status(f"{title} cluster", state, line.print_nodes))


def _save(line: CommandLine, extension: str, when: str, cluster: Cluster) -> None:
    if line.save is not None:
        files.say(files.save(line.save, extension, when, cluster) + "\n")


if __name__ == "__main__":
    sys.exit(main())
