"""``hbal``: plan the moves that balance a node group (``hbal(1)``)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ganeti_htools.backends.haskell import fixed, general
from ganeti_htools.cli import clusters
from ganeti_htools.cli.report import balance, tables
from ganeti_htools.cli.report.records import policy_record
from ganeti_htools.cli.report.script import commands, script, shown
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json
from ganeti_htools.cli.terminal.saying import progress, say
from ganeti_htools.cli.typed import balancing_of, execution_of
from ganeti_htools.cli.viewing import seen, view_of
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.balancing.balance import optimal_score, score_of
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster, common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import hbal as planning
from ganeti_htools.planning import view
from ganeti_htools.planning.hbal import Balanced, NoGroupError, Options
from ganeti_htools.planning.jobsets import Move, jobsets

if TYPE_CHECKING:
    from ganeti_htools.planning.staying import Staying

Tell = Callable[..., None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HBAL, run, argv)


def _options(line: CommandLine) -> Options:
    """What a command line asks of the plan. Raises HtoolsError."""
    for option, factor in (
        ("--avoid-disk-moves", line.avoid_disk_moves),
        ("--avoid-long-solutions", line.avoid_long_solutions),
    ):
        if line.optimise and factor:
            raise HtoolsError(f"--optimise judges whole plans: it cannot go with {option}")
    return Options(
        view_of(line), balancing_of(line), execution_of(line), line.group, line.optimise, line.first_job_group
    )


def run(line: CommandLine) -> None:
    """Read, plan, tell. Raises HtoolsError."""
    options = _options(line)
    check_exec(HBAL, line)

    def tell(*texts: str) -> None:
        if not line.json:
            print(*texts, sep="\n", flush=True)

    reading = clusters.load_dated(line)
    cluster = reading.cluster
    state = seen(cluster, line)
    if line.verbose > 1:
        tell(f"Loaded cluster tags: {','.join(cluster.tags)}")
        tell(f"Loaded cluster ipolicy: {policy_record(cluster.ipolicy)}")
    if not cluster.instances:
        tell("Cluster is empty, exiting.")
        if line.json:
            print_json({"nodes": len(cluster.nodes), "instances": 0, "steps": []})
        return
    _tell_of_cluster(state, line, tell)
    _save(line, "original", "before balancing", view.loaded(state, cluster))
    group, scope = _select_group(state, line.group)
    tell(*balance.about_group(state, scope, group, line))
    _show(state, scope, "Initial", line)
    initial, before = score_of(state, scope), _statistics(state, scope)
    if line.verbose > 2:
        tell(f"Initial coefficients: overall {fixed(initial, 8)}", balance.components(before))
    else:
        tell(f"Initial score: {fixed(initial, 8)}")
    if line.explain is not None:
        from ganeti_htools.cli.report import explanation  # seldom needed

        explanation.tell_moves(state, scope, line, options.balancing, before, initial)
        return
    if _well_balanced(state, scope, initial, line, tell):
        left = _left_behind(state, scope, options, line, 0)
        if line.json:
            balance.report(state, scope, group, [], [], (initial, initial), (before, before), left)
        return
    tell("Trying to minimize the CV...")
    told = None
    if line.daemon is not None:
        from ganeti_htools.cli import by_daemon  # seldom needed

        told = by_daemon.plan(line, HBAL.name, options, reading.generations)
    plan = _plan(state, scope, options, told, tell)
    after, sets = _statistics(plan.after, scope), jobsets(plan.moves)
    _tell_of_plan(plan, sets, initial, (before, after), line, tell)
    left = _left_behind(plan.after, scope, options, line, len(plan.moves))
    _give_commands(line, sets[:1] if line.first_job_group else sets, tell)
    balanced = replace(plan.after.settled(), tags=cluster.tags)  # without what options added
    _save(line, "balanced", "after balancing", _of_group(balanced, plan.after, scope))
    _show(plan.after, scope, "Final", line)
    if line.verbose > 3:
        tell(balance.totals("Original", state, scope), balance.totals("Final", plan.after, scope))
    outcome = _execute(line, options, state, group, plan, told, tell) if line.exec and plan.moves else None
    if line.json:
        scores = initial, _final(plan, initial)
        balance.report(
            state, scope, group, plan.moves, sets, scores, (before, after), left, outcome, plan.greedy
        )
    if outcome is not None:
        from ganeti_htools.cli import executing

        executing.conclude(outcome)


def _well_balanced(state: State, scope: Bools, initial: float, line: CommandLine, tell: Tell) -> bool:
    """Whether the score is as good as it can get, which is told."""
    optimal = optimal_score(state, scope)
    if not initial - optimal < line.min_score:
        return False
    tell(
        f"Cluster is already well balanced (initial score {general(initial, 6)},",
        f"optimum score due to N+1 reservations {general(optimal, 6)},",
        f"minimum score {general(line.min_score, 6)}).",
        "Nothing to do, exiting",
    )
    return True


def _plan(state: State, scope: Bools, options: Options, told: Any, tell: Tell) -> Balanced:
    """The plan, each step told as soon as it is found; that of htoolsd, if that has ``told`` of one."""
    with progress() as live:
        if told is not None:
            return planning.plan_again(state, scope, options, told["found"], tell, live)
        return planning.plan(state, scope, options, tell, live)


def _final(plan: Balanced, initial: float) -> float:
    return plan.moves[-1].step.score if plan.moves else initial


def _tell_of_plan(
    plan: Balanced,
    sets: Sequence[Sequence[Move]],
    initial: float,
    figures: tuple[Statistics, Statistics],
    line: CommandLine,
    tell: Tell,
) -> None:
    """What the plan gains and costs."""
    made, final = plan.moves, _final(plan, initial)
    if not made:
        tell("No solution found")
    elif line.verbose > 2:
        tell(f"Final coefficients:   overall {fixed(final, 8)}", balance.components(figures[1]))
    else:
        tell(f"Cluster score improved from {fixed(initial, 8)} to {fixed(final, 8)}")
    if line.verbose > 0:
        tell(f"Solution length={len(made)}")
        if made:
            tell(balance.cost_line(made, sets))
        if plan.greedy is not None:
            tell(
                balance.brief("Greedy plan:   ", plan.greedy, initial),
                balance.brief("Optimised plan:", made, initial),
            )
        if made and line.verbose == 2:
            tell(balance.changes(*figures))


def _left_behind(
    state: State, scope: Bools, options: Options, line: CommandLine, steps: int
) -> "Sequence[Staying]":
    """Say which instances a plan of so many steps leaves on nodes that are offline or drained."""
    if not (scope & state.columns.offline).any():
        return ()
    from ganeti_htools.planning.staying import staying  # seldom needed

    movable = view.movable(state, options.view)
    left = tuple(staying(state, scope, movable, options.balancing, steps))
    if left and line.verbose > 0 and not line.json:
        say("Left on nodes that are offline or drained:\n")
        say("".join(f"  {each.instance} on {', '.join(each.nodes)}: {each.why}\n" for each in left))
    return left


def _tell_of_cluster(state: State, line: CommandLine, tell: Tell) -> None:
    cluster = state.cluster
    parted = np.flatnonzero(view.split(state)).tolist()
    if parted and line.verbose > 1:
        say("Found instances belonging to multiple node groups:\n")
        say("".join(f"  {cluster.instances[row].name}\n" for row in parted))
        say("These instances will not be moved.\n")
    tell(f"Loaded {len(cluster.nodes)} nodes, {len(cluster.instances)} instances")
    suffix = common_suffix(cluster)
    if suffix and line.verbose > 1:
        tell(f"Note: Stripping common suffix of '{suffix}' from names")


def _select_group(state: State, wanted: str | None) -> tuple[str, Bools]:
    """Name and nodes of the group to be balanced.

    Raises HtoolsError, after the groups that there are have been listed.
    """
    try:
        return planning.select_group(state, wanted)
    except NoGroupError as error:
        say("".join(f"{text}\n" for text in (error.title, *(f"  {name}" for name in error.names))))
        raise HtoolsError("Aborting.") from None


def _execute(
    line: CommandLine, options: Options, state: State, group: str, plan: Balanced, told: Any, tell: Tell
) -> Mapping[str, Any]:
    """Carry the plan for a group out (``-X``), or have it carried out: the record of that."""
    from ganeti_htools.cli import executing  # what talks to Ganeti takes long to load
    from ganeti_htools.execution.record import record
    from ganeti_htools.planning.proposal import begin

    out = executing.undeterred(tell)
    if told is not None:
        from ganeti_htools.cli import by_daemon

        return by_daemon.carry_out(line, told["id"], out)
    run = begin(HBAL.name, planning.PURPOSE, planning.jobs(state, plan.moves, options), options.execution)
    check = planning.reviewer(options, group, line.on_change, out, progress)
    executing.carry_out(line, run, check, out)
    return record(run)


def _statistics(state: State, scope: Bools) -> Statistics:
    return choice.base(state, scope, affinity.crowding(state, scope))


def _give_commands(line: CommandLine, sets: Sequence[Sequence[Move]], tell: Tell) -> None:
    if line.print_commands == "-":
        title = "Commands to run to reach the above solution:"
        tell("", "First set of jobs:" if line.first_job_group else title)
        if sets:
            tell(shown(commands(sets)).removesuffix("\n"))
    elif line.print_commands is not None:
        write_text(line.print_commands, script(commands(sets)))
        tell(f"The commands have been written to file '{line.print_commands}'")


def _of_group(cluster: Cluster, state: State, scope: Bools) -> Cluster:
    """Instances with their primary in scope, and all nodes in scope or needed by these."""
    here = scope[state.pnode]
    needed = scope.copy()
    needed[state.snode[here & (state.snode != NOWHERE)]] = True
    return replace(
        cluster,
        nodes=tuple(node for node, keep in zip(cluster.nodes, needed, strict=True) if keep),
        instances=tuple(row for row, keep in zip(cluster.instances, here, strict=True) if keep),
    )


def _save(line: CommandLine, extension: str, when: str, cluster: Cluster) -> None:
    if line.save is not None:
        say(clusters.save(line.save, extension, when, cluster) + "\n")


def _show(state: State, scope: Bools, when: str, line: CommandLine) -> None:
    if line.print_instances:
        say(tables.instance_map(when, state, scope))
    if line.print_nodes is not None:
        say(tables.node_status(f"{when} cluster", state, line.print_nodes, scope))


if __name__ == "__main__":
    sys.exit(main())
