"""``hsqueeze``: which nodes a cluster can do without, or needs back (``hsqueeze(1)``)."""

import math
import sys
from collections.abc import Sequence

import orjson

from ganeti_htools.cli import commands, files, states, tables
from ganeti_htools.cli.options import HSQUEEZE, CommandLine, obey
from ganeti_htools.engine import jobsets, squeeze
from ganeti_htools.engine.balance import Step
from ganeti_htools.engine.squeeze import Action, Plan
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Instance
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.policy import ISpec
from ganeti_htools.model.state import NOWHERE, State
from ganeti_htools.model.types import DiskTemplate

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
    line = obey(HSQUEEZE, sys.argv[1:] if argv is None else argv)
    try:
        run(line)
    except HtoolsError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return 0


def run(line: CommandLine) -> None:
    """Plan and tell. Raises HtoolsError."""
    if line.arguments:
        raise HtoolsError("This program doesn't take any arguments.")
    cluster = files.load(line)
    state = states.of(cluster, line)
    _save(line, "original", "before hsqueeze run", cluster)
    _show_nodes(line, "Initial cluster", state)
    standard = cluster.ipolicy.std
    plan = squeeze.plan(
        state,
        minimum=_instance(standard, line.minimal_resources),
        target=_instance(standard, line.target_resources),
        movable=states.movable(state, line),
    )
    written = "" if line.json and line.print_commands == "-" else _commands_to_run(line, state, plan)
    print(_json(state, plan) if line.json else _report(line, state, plan) + written, end="", flush=True)
    if line.exec and plan.action is not Action.NOTHING:
        raise HtoolsError("hsqueeze: Execution of commands possible only on LUXI")
    _show_nodes(line, "Final cluster", plan.state)
    _save(line, "squeezed", _SAVED[plan.action], plan.state.settled())


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


def _report(line: CommandLine, state: State, plan: Plan) -> str:
    lines = []
    if line.verbose > 1:
        for kind, rows in _candidates(state).items():
            lines.append(f"{kind.title()} candidates: {','.join(state.names(rows))}\n")
    if not line.no_headers:
        lines.append(f"{_TITLES[plan.action]}\n")
    lines += [f"{name}\n" for name in state.names(plan.nodes)]
    if line.verbose > 1 and not plan.enough:
        lines.append("Onlining all nodes will not yield enough capacity\n")
    return "".join(lines)


def _commands_to_run(line: CommandLine, state: State, plan: Plan) -> str:
    return commands.deliver(line.print_commands, "Commands to run:", script(state, plan))


def _candidates(state: State) -> dict[str, list[int]]:
    return {
        "offline": squeeze.offline_candidates(state).tolist(),
        "online": squeeze.online_candidates(state).tolist(),
    }


def _commands(state: State, step: Step, nodes: Sequence[str]) -> list[str]:
    instance = state.cluster.instances[step.instance]
    return commands.of_step(step, instance, instance.name, nodes)


def script(state: State, plan: Plan) -> str:
    """The commands of a plan: nodes are emptied before they are powered down, filled once powered up."""
    if plan.action is Action.NOTHING:
        return "echo Nothing to do\n"
    suffix = tables.common_suffix(state.cluster)
    names = [node.name.removesuffix(suffix) for node in state.cluster.nodes]
    moves = commands.of_jobsets(
        [[_commands(state, step, names) for step in jobs] for jobs in jobsets.split(state, plan.steps)]
    )
    chosen = [names[row] for row in plan.nodes]
    if plan.action is Action.ONLINE:
        power = "".join(f"  gnt-node power -f on {name}\n" for name in chosen)
        return f"echo Power Commands\n{power}{moves}"
    tags = "".join(f"  gnt-node add-tags {name} {_STANDBY_TAG}\n" for name in chosen)
    power = "".join(f"  gnt-node power -f off {name}\n" for name in chosen)
    return f"{moves}\necho Tagging Commands\n{tags}\necho Power Commands\n{power}"


def _json(state: State, plan: Plan) -> str:
    names = [node.name for node in state.cluster.nodes]
    report = {
        "action": plan.action.value,
        "nodes": state.names(plan.nodes),
        "enough": plan.enough,
        "candidates": {kind: state.names(rows) for kind, rows in _candidates(state).items()},
        "jobsets": [
            [
                {
                    "instance": state.cluster.instances[step.instance].name,
                    "move": step.kind.value,
                    "primary": names[step.pnode],
                    "secondary": None if step.snode == NOWHERE else names[step.snode],
                    "score": step.score,
                    "commands": [f"gnt-instance {text}" for text in _commands(state, step, names)],
                }
                for step in jobs
            ]
            for jobs in jobsets.split(state, plan.steps)
        ],
    }
    return orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _show_nodes(line: CommandLine, title: str, state: State) -> None:
    if line.print_nodes is not None:
        files.say(f"\n{title} status:\n{tables.nodes(state, line.print_nodes)}\n")


def _save(line: CommandLine, extension: str, when: str, cluster: Cluster) -> None:
    if line.save is not None:
        files.say(files.save(line.save, extension, when, cluster) + "\n")


if __name__ == "__main__":
    sys.exit(main())
