"""``hbal``: plan and carry out the moves that balance node groups (``hbal(1)``)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ganeti_htools import machine
from ganeti_htools.backends.haskell import general
from ganeti_htools.cli.cluster import make_state, read_cluster, save
from ganeti_htools.cli.report import balance as balance_report
from ganeti_htools.cli.report import health, tables
from ganeti_htools.cli.report.balance import After, Before, GroupReport, StepLines
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.report.moves import copying_time, limits
from ganeti_htools.cli.report.page import check_page, write_page
from ganeti_htools.cli.report.records import policy_record
from ganeti_htools.cli.report.script import give_commands, job_script
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import balancing_of, copying_of, execution_of, view_of
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.engine.balancing.balance import optimal_score, score_of
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.execution.review import Say
from ganeti_htools.model.cluster import Cluster, common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import did_you_mean
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing import hbal as planning
from ganeti_htools.planning.balancing.hbal import BalancingPlan, GroupPlan, HbalOptions
from ganeti_htools.planning.balancing.node_groups import NoGroupError
from ganeti_htools.planning.jobsets import PlannedMove, jobsets
from ganeti_htools.planning.plan import statement
from ganeti_htools.sources.source import Reading

if TYPE_CHECKING:
    from ganeti_htools.planning.balancing.stranded import StrandedInstance


_PAGE = "hbal: moves that balance the cluster"


def _options(line: CommandLine) -> HbalOptions:
    """Read the options of the plan from a command line. Raises HtoolsError."""
    copying = copying_of(line)
    for option, factor in (
        ("--avoid-disk-moves", line.avoid_disk_moves),
        ("--avoid-long-solutions", line.avoid_long_solutions),
    ):
        if line.optimise and factor:
            raise HtoolsError(f"--optimise compares whole plans: it cannot go with {option}")
        if copying.wanted and factor:
            raise HtoolsError(f"prices and limits of copying cannot go with {option}")
    if line.pick and not line.front:
        raise HtoolsError("--pick chooses a plan of --front: it needs both")
    if line.exec and line.front and not line.pick:
        raise HtoolsError("--front shows plans: with --exec, --pick chooses the one to carry out")
    if line.repair_rules and (line.optimise or line.worst_group or line.explain is not None):
        raise HtoolsError("--repair-rules cannot go with --optimise, --worst-group and --explain")
    if line.witness is not None and (line.exec or line.repair_rules or line.explain is not None):
        raise HtoolsError("--witness compares plans: it cannot go with --exec, --repair-rules and --explain")
    if line.explain is not None and (line.worst_group or line.all_groups):
        raise HtoolsError("--explain is about one instance, in the group of --group")
    return HbalOptions(
        view=view_of(line),
        execution=execution_of(line),
        balancing=balancing_of(line),
        group=line.group,
        optimise=line.optimise,
        first_job_group=line.first_job_group,
        worst_group=line.worst_group,
        all_groups=line.all_groups,
        repair_rules=line.repair_rules,
        copying=copying,
    )


def run(line: CommandLine) -> None:
    """Read the cluster, plan, report and carry out. Raises HtoolsError."""
    options, tell = _options(line), printer(line)
    check_exec(HBAL, line)
    check_page(line)
    reading = read_cluster(line)
    cluster = reading.cluster
    view.named_instances(cluster, options.view)  # Debian's complains about these before it prints anything
    if line.verbose > 1:
        tell(f"Loaded cluster tags: {','.join(cluster.tags)}")
        tell(f"Loaded cluster ipolicy: {policy_record(cluster.ipolicy)}")
    state = make_state(cluster, line)
    if not cluster.instances:
        tell("Cluster is empty, exiting.")
        if line.json:
            print_json({"nodes": len(cluster.nodes), "instances": 0, "steps": []}, cluster)
        write_page(line, _PAGE, state, notes=["The cluster has no instances."])
        return
    _report_cluster(state, line, tell)
    save(line, "original", "before balancing", lambda: view.without_options(state, cluster))
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
    options: HbalOptions,
    line: CommandLine,
    tell: Say,
) -> None:
    """Plan group by group, report the plan, and carry it out with ``-X``. Raises HtoolsError."""
    reports: list[GroupReport] = []
    seconds: dict[str, float] = {}

    @cache
    def answer() -> Any:
        return plans.of_daemon(line, HBAL.name, options, reading.generations)

    def plan_group(state: State, name: str, scope: Bools, options: HbalOptions) -> GroupPlan:
        before, began = _before(state, name, scope, line, tell), machine.steady()
        balanced = not options.repair_rules and _is_balanced(before, line, tell)
        part = GroupPlan(state, name, scope, (), state) if balanced else _plan(before, options, answer, tell)
        after, seconds[name] = _after(part, before), machine.steady() - began
        if not balanced:
            tell(*map(wrapped, balance_report.about_plan(before, after, line.verbose)))
            for text in limits(line.max_moves, line.max_copy, line.max_time):
                tell(text)
            if options.repair_rules:
                tell(health.broken_rules_text(part.after, broken_rules(part.after)).rstrip())
        stranded = _stranded(part, options, line)
        reports.append(GroupReport(before, after, stranded, not balanced))
        return part

    plan = planning.plan_groups(state, groups, options, plan_group)
    moves = [move for part in plan.parts for move in part.moves]
    time = ""
    if options.copying.wanted or (line.html and moves):
        sets = [jobs for part in plan.parts for jobs in jobsets(part.moves)]
        time = copying_time(plan, sets, answer(), plan.options.copying, "--bandwidth=RATE or ")
    if options.copying.wanted:
        tell(wrapped(f"Copying takes {time}" if moves else f"Times of copying: {time}"))
    about = [report for report in reports if report.before.group in plan.groups]
    if any(report.planned for report in reports):
        if line.all_groups and moves and line.verbose > 0:
            tell(wrapped(f"All groups: {balance_report.cost_line(plan.cost())}"))
        first = options.first_job_group
        title = "First set of jobs:" if first else "Commands to run to reach the above solution:"
        give_commands(line, title, lambda: job_script(plan.jobs()), tell)
        save(line, "balanced", "after balancing", lambda: _balanced_cluster(plan, reading.cluster.tags))
    for before, after, _, planned in reports:
        if planned:
            _show(after.plan.after, before.scope, "Final", line)
            if line.verbose > 3:
                sides = ("Original", before.state), ("Final", after.plan.after)
                tell(*(balance_report.totals(title, state, before.scope) for title, state in sides))
    sentence, figures = ("", {}) if moves else balance_report.page_answer(reports)
    write_page(
        line,
        _PAGE,
        state,
        plan.parts[-1].after if moves else None,
        [jobs for report in reports for jobs in report.after.sets],
        balance_report.page_notes(reports),
        lambda: balance_report.page_front(reports),
        sentence,
        figures,
        time_of_moves=time if moves else "",
    )
    beside: dict[str, Any] = {}
    if line.witness is not None:
        from ganeti_htools.cli.runs import other_hbal  # with trio

        with progress("Ganeti's hbal"):
            beside["witness"] = other_hbal.compare(line, reading.cluster, about, seconds)
        tell(*other_hbal.lines(beside["witness"]))
    outcome = plans.carry_out(line, HBAL.name, plan, answer(), tell) if line.exec and moves else None
    if line.json:
        more = {"plan": statement(HBAL.name, plan, reading.cluster)} | beside
        balance_report.report(state, about, line.all_groups, more, outcome, options.repair_rules)
    plans.conclude(outcome)


def _before(state: State, group: str, scope: Bools, line: CommandLine, tell: Say) -> Before:
    """Report a node group before it is balanced."""
    before = Before(state, group, scope, score_of(state, scope), choice.base(state, scope))
    tell(*balance_report.about_group(before, line))
    _show(state, scope, "Initial", line)
    tell(*balance_report.about_score(before, line.verbose))
    return before


def _is_balanced(before: Before, line: CommandLine, tell: Say) -> bool:
    """Whether the score is as low as it can get, which is then reported."""
    optimal = optimal_score(before.state, before.scope)
    if not before.score - optimal < line.min_score:
        return False
    tell(
        f"Cluster is already well balanced (initial score {general(before.score)},",
        f"optimum score due to N+1 reservations {general(optimal)},",
        f"minimum score {general(line.min_score)}).",
        f"Nothing to do{' in this group' if line.worst_group or line.all_groups else ', exiting'}",
    )
    return True


def _plan(before: Before, options: HbalOptions, answer: Callable[[], Any], tell: Say) -> GroupPlan:
    """Plan for a group, or restore its plan from htoolsd's answer; report each step as it is found."""
    tell("Repairing broken rules..." if options.repair_rules else "Trying to minimize the CV...")
    found, lines = answer(), StepLines(before.state, before.scope)

    def on_move(move: PlannedMove) -> None:
        tell(lines.line(move))

    group = before.state, before.group, before.scope, options
    if found is not None:
        return planning.restore_group(*group, found["found"], on_move)
    with progress(f"balancing {before.group}") as live:
        return planning.balance_group(*group, live, on_move)


def _after(plan: GroupPlan, before: Before) -> After:
    return After(plan, jobsets(plan.moves), plan.score_after, choice.base(plan.after, before.scope))


def _stranded(plan: GroupPlan, options: HbalOptions, line: CommandLine) -> "Sequence[StrandedInstance]":
    """Find and report the instances that a plan leaves on nodes that are offline or drained."""
    state, scope = plan.after, plan.scope
    if not (scope & state.columns.offline).any():
        return ()
    from ganeti_htools.planning.balancing.stranded import stranded_instances  # seldom needed

    movable = view.movable(state, options.view)
    found = tuple(stranded_instances(state, scope, movable, options.balancing, len(plan.moves)))
    if found and line.verbose > 0 and not line.json:
        warn("Left on nodes that are offline or drained:")
        for each in found:
            warn(f"  {each.instance} on {', '.join(each.nodes)}: {each.why}")
    return found


def _report_cluster(state: State, line: CommandLine, tell: Say) -> None:
    cluster = state.cluster
    split = np.flatnonzero(view.across_groups(state)).tolist()
    if split and line.verbose > 1:
        warn("Found instances belonging to multiple node groups:")
        for row in split:
            warn(f"  {cluster.instances[row].name}")
        warn("These instances will not be moved.")
    tell(f"Loaded {len(cluster.nodes)} nodes, {len(cluster.instances)} instances")
    suffix = common_suffix(cluster)
    if suffix and line.verbose > 1:
        tell(f"Note: Stripping common suffix of '{suffix}' from names")


def _select_groups(state: State, options: HbalOptions) -> Sequence[tuple[str, Bools]]:
    """Select the groups to balance. Raises HtoolsError after listing the groups, if it is unclear which."""
    try:
        return planning.select_groups(state, options)
    except NoGroupError as error:
        warn(error.title)
        for name in error.names:
            warn(f"  {name}")
        nearest = did_you_mean(options.group, error.names) if options.group else ""
        hint = nearest or "expected --group=NAME, --worst-group or --all-groups"
        raise HtoolsError("Aborting.", hint) from None


def _balanced_cluster(plan: BalancingPlan, tags: tuple[str, ...]) -> Cluster:
    """Return the balanced groups after the plan, with these tags instead of those that options added.

    The cluster has the instances with their primary in these groups, and all nodes of the groups or of these
    instances.
    """
    state, scope = plan.parts[-1].after, np.logical_or.reduce([part.scope for part in plan.parts])
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
    say(tables.node_status(f"{when} cluster", state, line.print_nodes, scope))


main = partial(execute, HBAL, run)
