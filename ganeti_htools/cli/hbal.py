"""``hbal``: plan the moves that balance a node group (``hbal(1)``)."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ganeti_htools.backends.haskell import fixed, general
from ganeti_htools.cli import files
from ganeti_htools.cli.report import balance, tables
from ganeti_htools.cli.report.records import policy_record
from ganeti_htools.cli.report.script import commands, script, shown
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json
from ganeti_htools.cli.viewing import seen, view_of
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.balancing.balance import Balancing, Step, optimal_score, score_of, stepwise
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.cluster import Cluster, common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.jobsets import Move, Names, cost_of, jobsets

if TYPE_CHECKING:
    from ganeti_htools.engine.balancing.optimise import Plan as Optimised
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.review import Check, Review
    from ganeti_htools.planning.proposal import Proposal
    from ganeti_htools.planning.staying import Staying

_PURPOSE = "rebalancing"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HBAL, run, argv)


def balancing(line: CommandLine) -> Balancing:
    """What a command line asks of the plan."""
    return Balancing(
        disk_moves=not line.no_disk_moves,
        disk_moves_factor=line.avoid_disk_moves,
        long_threshold=line.long_solution_threshold,
        long_factor=line.avoid_long_solutions,
        instance_moves=not line.no_instance_moves,
        restricted_migration=line.restricted_migration,
        evacuation=line.evac_mode,
        ignore_soft_errors=line.ignore_soft_errors,
        min_gain=line.min_gain,
        min_gain_limit=line.min_gain_limit,
        min_score=line.min_score,
        max_length=line.max_length,
    )


def run(line: CommandLine) -> None:
    """Read, plan, tell. Raises HtoolsError."""
    for option, factor in (
        ("--avoid-disk-moves", line.avoid_disk_moves),
        ("--avoid-long-solutions", line.avoid_long_solutions),
    ):
        if line.optimise and factor:
            raise HtoolsError(f"--optimise judges whole plans: it cannot go with {option}")

    check_exec(HBAL, line)

    def tell(*texts: str) -> None:
        if not line.json:
            print(*texts, sep="\n", flush=True)

    cluster, generations = files.load_dated(line)
    state = seen(cluster, line)
    movable = view.movable(state, view_of(line))
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
    initial, optimal = score_of(state, scope), optimal_score(state, scope)
    before = _statistics(state, scope)
    if line.verbose > 2:
        tell(f"Initial coefficients: overall {fixed(initial, 8)}", balance.components(before))
    else:
        tell(f"Initial score: {fixed(initial, 8)}")
    if line.explain is not None:
        from ganeti_htools.cli.report import explanation  # seldom needed

        explanation.tell(state, scope, line, balancing(line), before, initial)
        return
    if initial - optimal < line.min_score:
        tell(
            f"Cluster is already well balanced (initial score {general(initial, 6)},",
            f"optimum score due to N+1 reservations {general(optimal, 6)},",
            f"minimum score {general(line.min_score, 6)}).",
            "Nothing to do, exiting",
        )
        left = _left_behind(state, scope, movable, line, 0)
        if line.json:
            balance.report(state, scope, group, [], [], (initial, initial), (before, before), left)
        return
    tell("Trying to minimize the CV...")
    told = None
    if line.daemon is not None:
        from ganeti_htools.cli import by_daemon  # seldom needed

        told = by_daemon.plan(line, HBAL, generations)
    found, made, greedy = _plan(state, scope, movable, line, tell, told)
    after = _statistics(found, scope)
    final = made[-1].step.score if made else initial
    sets = jobsets(made)
    if not made:
        tell("No solution found")
    elif line.verbose > 2:
        tell(f"Final coefficients:   overall {fixed(final, 8)}", balance.components(after))
    else:
        tell(f"Cluster score improved from {fixed(initial, 8)} to {fixed(final, 8)}")
    if line.verbose > 0:
        tell(f"Solution length={len(made)}")
        if made:
            tell(balance.cost_line(made, sets))
        if greedy is not None:
            tell(
                balance.brief("Greedy plan:   ", greedy, initial),
                balance.brief("Optimised plan:", made, initial),
            )
        if made and line.verbose == 2:
            tell(balance.changes(before, after))
    left = _left_behind(found, scope, movable, line, len(made))
    _give_commands(line, sets[:1] if line.first_job_group else sets, tell)
    _save(line, "balanced", "after balancing", _of_group(_described(found, cluster), found, scope))
    _show(found, scope, "Final", line)
    if line.verbose > 3:
        tell(balance.totals("Original", state, scope), balance.totals("Final", found, scope))
    outcome = _execute(line, state, group, sets, told, tell) if line.exec and made else None
    if line.json:
        balance.report(
            state, scope, group, made, sets, (initial, final), (before, after), left, outcome, greedy
        )
    if outcome is not None:
        from ganeti_htools.cli import executing

        executing.conclude(outcome)


def _left_behind(
    state: State, scope: Bools, movable: Bools, line: CommandLine, steps: int
) -> "Sequence[Staying]":
    """Say which instances a plan of so many steps leaves on nodes that are offline or drained."""
    if not (scope & state.columns.offline).any():
        return ()
    from ganeti_htools.planning.staying import staying  # seldom needed

    left = tuple(staying(state, scope, movable, balancing(line), steps))
    if left and line.verbose > 0 and not line.json:
        files.say("Left on nodes that are offline or drained:\n")
        files.say("".join(f"  {each.instance} on {', '.join(each.nodes)}: {each.why}\n" for each in left))
    return left


Tell = Callable[..., None]


def _tell_of_cluster(state: State, line: CommandLine, tell: Tell) -> None:
    cluster = state.cluster
    parted = np.flatnonzero(view.split(state)).tolist()
    if parted and line.verbose > 1:
        files.say("Found instances belonging to multiple node groups:\n")
        files.say("".join(f"  {cluster.instances[row].name}\n" for row in parted))
        files.say("These instances will not be moved.\n")
    tell(f"Loaded {len(cluster.nodes)} nodes, {len(cluster.instances)} instances")
    suffix = common_suffix(cluster)
    if suffix and line.verbose > 1:
        tell(f"Note: Stripping common suffix of '{suffix}' from names")


def _list_groups(title: str, names: Iterable[str]) -> NoReturn:
    files.say("".join(f"{text}\n" for text in (title, *(f"  {name}" for name in names))))
    raise HtoolsError("Aborting.")


def _name_groups(title: str, names: Iterable[str]) -> NoReturn:
    raise HtoolsError(f"{title} {', '.join(names)}")


def _select_group(
    state: State, wanted: str | None, refuse: Callable[[str, Iterable[str]], NoReturn] = _list_groups
) -> tuple[str, Bools]:
    """Name and nodes of the group to be balanced. Raises HtoolsError."""
    groups = state.cluster.groups
    if wanted is None:
        present = sorted(set(state.group.tolist()))
        if len(present) != 1:
            refuse("Found multiple node groups:", (groups[row].name for row in present))
        return groups[present[0]].name, np.ones(len(state.group), np.bool_)
    rows = [row for row, group in enumerate(groups) if wanted in (group.name, group.uuid)]
    if len(rows) != 1:
        title = f"Node group {wanted} not found. Node group list is:"
        refuse(title, (group.name for group in groups))
    return groups[rows[0]].name, state.group == rows[0]


def _plan(
    state: State,
    scope: Bools,
    movable: Bools,
    line: CommandLine,
    tell: Tell,
    told: Any = None,
    heed: Callable[[], None] = lambda: None,
) -> tuple[State, list[Move], list[Move] | None]:
    """Balance, telling each step: the state then, the moves, and those of the greedy plan if others might
    have been better. If htoolsd has ``told`` of its plan, it is that one. ``heed`` is called meanwhile.
    """
    names, found, greedy = Names(state), state.copy(), None
    here = np.flatnonzero(scope[state.pnode]).tolist()
    longest = max((len(names.instances[row]) for row in here), default=0)
    nodes = 2 * max((len(names.nodes[row]) for row in np.flatnonzero(scope).tolist()), default=0) + 1
    made: list[Move] = []
    with files.progress() as progress:
        steps: Iterable[Step] = stepwise(found, scope, balancing(line), movable)
        if told is not None:
            from ganeti_htools.planning.proposal import retraced

            steps = retraced(found, movable, told["found"]["steps"])
            if told["found"]["greedy"] is not None:
                usual_steps = retraced(state.copy(), movable, told["found"]["greedy"])
                greedy = list(map(Names(state).move, usual_steps))
        elif line.optimise:
            usual, best = _optimised(state, scope, movable, line, progress, heed)
            greedy, found, steps = list(map(Names(state).move, usual.steps)), best.after, best.steps
        for step in steps:
            move = names.move(step)
            made.append(move)
            was, now = ":".join(move.was), ":".join(move.now)
            score = fixed(step.score, 8).rjust(12)
            progress("")
            tell(
                f"  {len(made):3}. {move.instance:{longest}} {was:{nodes}} => {now:{nodes}} {score}"
                f" a={move.summary}"
            )
            progress(f"{len(made)} steps, score {fixed(step.score, 8)}")
    return found, made, greedy


def _optimised(
    state: State,
    scope: Bools,
    movable: Bools,
    line: CommandLine,
    progress: Callable[[str], None],
    heed: Callable[[], None],
) -> "tuple[Optimised, Optimised]":
    """The greedy plan and the best one found in the time given."""
    from ganeti_htools.engine.balancing.optimise import optimise  # seldom needed

    end: float | None = None

    def going(score: float) -> bool:
        nonlocal end
        heed()
        end = time.monotonic() + line.optimise if end is None else end
        progress(f"optimising, score {fixed(score, 8)}")
        return time.monotonic() < end

    return optimise(state, scope, balancing(line), movable, going)


def _execute(
    line: CommandLine, state: State, group: str, sets: Sequence[Sequence[Move]], told: Any, tell: Tell
) -> Mapping[str, Any]:
    """Carry the plan for a group out (``-X``), or have it carried out: the record of that."""
    from ganeti_htools.cli import executing  # what talks to Ganeti takes long to load
    from ganeti_htools.execution.record import record

    say = executing.undeterred(tell)
    if told is not None:
        from ganeti_htools.cli import by_daemon

        return by_daemon.carry_out(line, told["id"], say)
    plan = executing.moves(state, sets[:1] if line.first_job_group else sets)
    run = executing.begin(line, HBAL, _PURPOSE, plan)
    executing.carry_out(line, run, reviewer(line, group, say), say)
    return record(run)


def propose(cluster: Cluster, line: CommandLine, heed: Callable[[], None]) -> "Proposal":
    """The plan that the program makes for a cluster; ``heed`` is called meanwhile. Raises HtoolsError."""
    from ganeti_htools.cli import executing
    from ganeti_htools.planning import proposal

    line = replace(line, verbose=0)
    state = seen(files.with_dynamics(cluster, line), line)
    group, scope = _select_group(state, line.group, _name_groups)
    movable = view.movable(state, view_of(line))
    initial = score_of(state, scope)
    _, made, greedy = _plan(state, scope, movable, line, lambda *_texts: heed(), heed=heed)
    sets = jobsets(made)

    def told(moves: Sequence[Move]) -> list[dict[str, Any]]:
        return proposal.told(state, [move.step for move in moves])

    return proposal.Proposal(
        _PURPOSE,
        (group,),
        executing.moves(state, sets[:1] if line.first_job_group else sets),
        {"before": initial, "after": made[-1].step.score if made else initial},
        cost_of(made, sets),
        {"steps": told(made), "greedy": None if greedy is None else told(greedy)},
        lambda on_change, say: reviewer(replace(line, on_change=on_change), group, say),
    )


def reviewer(line: CommandLine, group: str, tell: Tell) -> "Check":
    """What looks at the rest of a plan on the cluster as it is then, and plans anew if the options allow it.

    ``group`` is the name of the node group that is balanced.
    """
    from ganeti_htools.cli import executing
    from ganeti_htools.engine.balancing import recheck
    from ganeti_htools.execution.review import Review

    line = replace(line, group=group, verbose=0)

    def check(cluster: Cluster, rest: "Jobsets", made: int) -> "Review":
        state = seen(files.with_dynamics(cluster, line), line)
        scope = state.group == view.group(state, group, f"node group {group} is gone")
        movable = view.movable(state, view_of(line))
        steps = [job.step for jobs in rest for job in jobs if job.step is not None]
        found = state.copy()
        obstacle = recheck.obstacle(found, scope, steps, balancing(line), movable)
        if obstacle is None and not score_of(found, scope) < score_of(state, scope):
            obstacle = "the rest of it would not improve the score any more"
        if obstacle is None:
            return Review()
        if line.on_change == "stop":
            return Review(obstacle)
        tell(f"The plan does not fit the cluster any more: {obstacle}", "Planning anew...")
        left = line.max_length if line.max_length < 0 else max(0, line.max_length - made)
        _, new, _ = _plan(state, scope, movable, replace(line, max_length=left), tell)
        sets = jobsets(new)
        return Review(obstacle, executing.moves(state, sets[:1] if line.first_job_group else sets))

    return check


def _statistics(state: State, scope: Bools) -> Statistics:
    return choice.base(state, scope, affinity.crowding(state, scope))


def _give_commands(line: CommandLine, sets: Sequence[Sequence[Move]], tell: Tell) -> None:
    if line.print_commands == "-":
        title = "Commands to run to reach the above solution:"
        tell("", "First set of jobs:" if line.first_job_group else title)
        if sets:
            tell(shown(commands(sets)).removesuffix("\n"))
    elif line.print_commands is not None:
        files.write_text(line.print_commands, script(commands(sets)))
        tell(f"The commands have been written to file '{line.print_commands}'")


def _described(state: State, cluster: Cluster) -> Cluster:
    """The cluster after the moves made on a state, without what options added to its description."""
    return replace(state.settled(), tags=cluster.tags)


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
        files.say(files.save(line.save, extension, when, cluster) + "\n")


def _show(state: State, scope: Bools, when: str, line: CommandLine) -> None:
    if line.print_instances:
        files.say(tables.instance_map(when, state, scope))
    if line.print_nodes is not None:
        files.say(tables.node_status(f"{when} cluster", state, line.print_nodes, scope))


if __name__ == "__main__":
    sys.exit(main())
