"""``hregroup``: repair, empty and balance node groups with the room of others (``hregroup(1)``)."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti_htools.cli.cluster.loading import load_dated
from ganeti_htools.cli.cluster.saving import save
from ganeti_htools.cli.cluster.viewing import seen
from ganeti_htools.cli.report import regroup, tables
from ganeti_htools.cli.report.script import give_commands, listed
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.cli.terminal.saying import progress, say
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import execution_of
from ganeti_htools.commandline.programs import HREGROUP
from ganeti_htools.commandline.views import view_of
from ganeti_htools.engine.groups.outcome import Outcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import group_moves, view
from ganeti_htools.planning import hregroup as planning
from ganeti_htools.planning.hregroup import PURPOSES, Options
from ganeti_htools.planning.proposal import begin

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.wording import Say

GROUPS = "groups"  # the action that only tells
UNREPAIRED = 3  # the exit status where something is left unrepaired


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HREGROUP, run, argv)


def _options(line: CommandLine) -> Options:
    """What a command line asks of the plan. Raises HtoolsError."""
    actions = (GROUPS, *PURPOSES)
    if len(line.arguments) != 1 or line.arguments[0] not in actions:
        raise HtoolsError(f"expected one of the actions {', '.join(actions)}")
    action: Any = line.arguments[0]
    if action != "compress" and (line.group is not None or line.groups != 1 or line.reserve):
        raise HtoolsError("--group, --groups and --reserve go with compress only")
    return Options(
        view_of(line),
        execution_of(line),
        action="redistribute" if action == GROUPS else action,
        among=line.among,
        disk_moves=not line.no_disk_moves,
        allow_plain=line.allow_plain,
        allow_drbd=line.allow_drbd,
        max_moves=line.max_moves,
        max_copy=line.max_copy,
        empty=() if line.group is None else (line.group,),
        number=line.groups,
        reserve=line.reserve,
        min_gain=line.min_gain,
    )


def run(line: CommandLine) -> int:
    """Read, plan, tell; the exit status. Raises HtoolsError."""
    options, tell = _options(line), printer(line)
    check_exec(HREGROUP, line)
    reading = load_dated(line)
    state = seen(reading.cluster, line)
    rules = planning.rules_of(state, options)
    before = Regrouping(state, rules)
    _show(line, "Initial", state)
    if line.arguments[0] == GROUPS:
        if line.json:
            print_json(regroup.groups_json(before))
        else:
            tell(regroup.groups_text(before).removesuffix("\n"))
        return 0
    if line.explain is not None:
        choices = regroup.choices(before, view.instance(state, line.explain))
        if line.json:
            print_json(choices)
        else:
            tell(regroup.choices_text(choices).removesuffix("\n"))
        return 0
    save(line, "original", "before regrouping", lambda: view.loaded(state, reading.cluster))
    told = plans.of_daemon(line, HREGROUP.name, options, reading.generations)
    outcome = _plan(state, options, told)
    moves = group_moves.moves_of(state, outcome)
    tell(*regroup.about(state, options, outcome, moves, line.verbose))
    jobs = group_moves.jobs(state, moves)
    give_commands(line, "Commands to run:", listed([[job.commands for job in each] for each in jobs]), tell)
    save(line, "regrouped", "after regrouping", lambda: planning.reported(state, outcome.after.state))
    _show(line, "Final", outcome.after.state)
    decided = planning.as_decided(state, options, outcome)
    ran = _execute(line, decided, jobs, told, tell) if line.exec and moves else None
    if line.json:
        print_json(regroup.as_json(before, options, outcome, moves, ran))
    if ran is not None:
        from ganeti_htools.cli.runs.ending import conclude

        conclude(ran)
    return UNREPAIRED if planning.unrepaired(options, outcome) else 0


def _plan(state: State, options: Options, told: Any) -> Outcome:
    """Make the plan. A plan of htoolsd (``told``) is not looked for again."""
    if told is not None:
        return planning.plan_again(state, options, told["found"])
    with progress() as live:
        return planning.plan(state, options, live)


def _execute(
    line: CommandLine, options: Options, jobs: "Jobsets", told: Any, tell: "Say"
) -> Mapping[str, Any]:
    """Carry the plan out (``-X``); the run's record."""
    return plans.carry_out(
        line,
        told,
        lambda: begin(HREGROUP.name, PURPOSES[options.action], jobs, options.execution),
        lambda say: planning.reviewer(options, line.on_change, say, progress),
        tell,
    )


def _show(line: CommandLine, title: str, state: State) -> None:
    if line.print_nodes is not None:
        say(tables.node_status(f"{title} cluster", state, line.print_nodes))


if __name__ == "__main__":
    sys.exit(main())
