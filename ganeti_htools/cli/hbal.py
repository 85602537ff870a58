"""``hbal``: plan the moves that balance a node group (``hbal(1)``)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ganeti_htools.backends.haskell import general
from ganeti_htools.cli.cluster.loading import load_dated
from ganeti_htools.cli.cluster.saving import save
from ganeti_htools.cli.cluster.viewing import seen
from ganeti_htools.cli.report import balance as balance_report
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.report.balance import After, Before, GroupReport
from ganeti_htools.cli.report.records import policy_record
from ganeti_htools.cli.report.script import commands, give_commands
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.cli.terminal.saying import progress, say
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import balancing_of, execution_of
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.views import view_of
from ganeti_htools.engine.balancing.balance import optimal_score, score_of
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.cluster import Cluster, common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import hbal as planning
from ganeti_htools.planning import view
from ganeti_htools.planning.hbal import Balanced, GroupPlan, Options
from ganeti_htools.planning.jobsets import jobsets
from ganeti_htools.planning.node_groups import NoGroupError
from ganeti_htools.planning.proposal import begin
from ganeti_htools.sources.source import Reading

if TYPE_CHECKING:
    from ganeti_htools.execution.wording import Say
    from ganeti_htools.planning.staying import Staying


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
    if line.explain is not None and (line.worst_group or line.all_groups):
        raise HtoolsError("--explain is about one instance, in the group of --group")
    return Options(
        view_of(line),
        balancing_of(line),
        execution_of(line),
        line.group,
        line.optimise,
        line.first_job_group,
        line.worst_group,
        line.all_groups,
    )


def run(line: CommandLine) -> None:
    """Read, plan, tell. Raises HtoolsError."""
    options, tell = _options(line), printer(line)
    check_exec(HBAL, line)
    reading = load_dated(line)
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
    save(line, "original", "before balancing", lambda: view.loaded(state, cluster))
    groups = _select_groups(state, options)
    if line.explain is not None:
        from ganeti_htools.cli.report import explanation  # seldom needed

        before = _before(state, *groups[0], line, tell)
        explanation.tell_moves(state, before.scope, line, options.balancing, before.figures, before.score)
        return
    _balance(state, groups, reading, options, line, tell)


def _balance(
    state: State,
    groups: Sequence[tuple[str, Bools]],
    reading: Reading,
    options: Options,
    line: CommandLine,
    tell: "Say",
) -> None:
    """Plan group by group, tell of the plan, and carry it out if that is wanted. Raises HtoolsError."""
    reports: list[GroupReport] = []

    @cache
    def told() -> Any:
        return plans.of_daemon(line, HBAL.name, options, reading.generations)

    def balance(state: State, name: str, scope: Bools, options: Options) -> Balanced:
        before = _before(state, name, scope, line, tell)
        well = _well_balanced(before, line, tell)
        plan = Balanced((), state) if well else _plan(before, options, told, tell)
        after = _after(plan, before)
        if not well:
            tell(*balance_report.about_plan(before, after, line.verbose))
        left = _left_behind(plan.after, scope, options, line, len(plan.moves))
        reports.append(GroupReport(before, after, left, not well))
        return plan

    parts = planning.concerned(list(planning.in_turn(state, groups, options, balance)), options)
    about = [report for report in reports if report.before.group in {part.group for part in parts}]
    moves = [move for part in parts for move in part.balanced.moves]
    if any(report.planned for report in reports):
        sets = [jobs for report in about for jobs in report.after.sets]
        if line.all_groups and moves and line.verbose > 0:
            tell(f"All groups: {balance_report.cost_line(sets)}")
        first = options.first_job_group
        title = "First set of jobs:" if first else "Commands to run to reach the above solution:"
        give_commands(line, title, commands(planning.carried_out(sets, options)), tell)
        tags, scope = reading.cluster.tags, np.logical_or.reduce([part.scope for part in parts])
        last = parts[-1].balanced.after
        # Without the tags that options added.
        save(line, "balanced", "after balancing", lambda: _of_groups(last, scope, tags))
    for before, after, _, planned in reports:
        if planned:
            _show(after.plan.after, before.scope, "Final", line)
            if line.verbose > 3:
                sides = ("Original", before.state), ("Final", after.plan.after)
                tell(*(balance_report.totals(title, state, before.scope) for title, state in sides))
    outcome = _execute(parts, options, told(), line, tell) if line.exec and moves else None
    if line.json:
        balance_report.report(state, about, line.all_groups, outcome)
    if outcome is not None:
        from ganeti_htools.cli.runs.ending import conclude

        conclude(outcome)


def _before(state: State, group: str, scope: Bools, line: CommandLine, tell: "Say") -> Before:
    """Tell of a node group that is to be balanced."""
    before = Before(state, group, scope, score_of(state, scope), choice.base(state, scope))
    tell(*balance_report.about_group(before, line))
    _show(state, scope, "Initial", line)
    tell(*balance_report.about_score(before, line.verbose))
    return before


def _well_balanced(before: Before, line: CommandLine, tell: "Say") -> bool:
    """Whether the score is as good as it can get. If it is, that is told."""
    optimal = optimal_score(before.state, before.scope)
    if not before.score - optimal < line.min_score:
        return False
    tell(
        f"Cluster is already well balanced (initial score {general(before.score, 6)},",
        f"optimum score due to N+1 reservations {general(optimal, 6)},",
        f"minimum score {general(line.min_score, 6)}).",
        f"Nothing to do{' in this group' if line.worst_group or line.all_groups else ', exiting'}",
    )
    return True


def _plan(before: Before, options: Options, told: Callable[[], Any], tell: "Say") -> Balanced:
    """Make the plan and tell each step at once. A plan of htoolsd (``told``) is not looked for again."""
    tell("Trying to minimize the CV...")
    made = told()
    with progress() as live:
        if made is not None:
            found = planning.found_in(made["found"], before.group)
            return planning.plan_again(before.state, before.scope, options, found, tell, live)
        return planning.plan(before.state, before.scope, options, tell, live)


def _after(plan: Balanced, before: Before) -> After:
    score = plan.moves[-1].step.score if plan.moves else before.score
    return After(plan, jobsets(plan.moves), score, choice.base(plan.after, before.scope))


def _left_behind(
    state: State, scope: Bools, options: Options, line: CommandLine, steps: int
) -> "Sequence[Staying]":
    """Find and tell which instances a plan of so many steps leaves on nodes that are offline or drained."""
    if not (scope & state.columns.offline).any():
        return ()
    from ganeti_htools.planning.staying import staying  # seldom needed

    movable = view.movable(state, options.view)
    left = tuple(staying(state, scope, movable, options.balancing, steps))
    if left and line.verbose > 0 and not line.json:
        say("Left on nodes that are offline or drained:\n")
        say("".join(f"  {each.instance} on {', '.join(each.nodes)}: {each.why}\n" for each in left))
    return left


def _tell_of_cluster(state: State, line: CommandLine, tell: "Say") -> None:
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


def _select_groups(state: State, options: Options) -> Sequence[tuple[str, Bools]]:
    """Names and nodes of the groups to be balanced.

    Raises HtoolsError, after the groups that there are have been listed.
    """
    try:
        return planning.select_groups(state, options)
    except NoGroupError as error:
        say("".join(f"{text}\n" for text in (error.title, *(f"  {name}" for name in error.names))))
        raise HtoolsError("Aborting.") from None


def _execute(
    parts: Sequence[GroupPlan], options: Options, told: Any, line: CommandLine, tell: "Say"
) -> Mapping[str, Any]:
    """Carry the plan out (``-X``); the run's record."""
    from ganeti_htools.planning.balance_review import reviewer  # needed only where jobs are submitted

    groups = [part.group for part in parts]
    return plans.carry_out(
        line,
        told,
        lambda: begin(HBAL.name, planning.PURPOSE, planning.jobs(parts, options), options.execution),
        lambda say: reviewer(options, groups, line.on_change, say, progress),
        tell,
    )


def _of_groups(state: State, scope: Bools, tags: tuple[str, ...]) -> Cluster:
    """The cluster in a state, with these tags: instances with their primary in scope, and all nodes in scope
    or needed by these.
    """
    here = scope[state.pnode]
    needed = scope.copy()
    needed[state.snode[here & (state.snode != NOWHERE)]] = True
    cluster = state.to_cluster()
    return replace(
        cluster,
        tags=tags,
        nodes=tuple(node for node, keep in zip(cluster.nodes, needed, strict=True) if keep),
        instances=tuple(row for row, keep in zip(cluster.instances, here, strict=True) if keep),
    )


def _show(state: State, scope: Bools, when: str, line: CommandLine) -> None:
    if line.print_instances:
        say(tables.instance_map(when, state, scope))
    if line.print_nodes is not None:
        say(tables.node_status(f"{when} cluster", state, line.print_nodes, scope))


if __name__ == "__main__":
    sys.exit(main())
