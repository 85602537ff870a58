"""``hregroup``: repair, empty and balance node groups with the room of other groups (``hregroup(1)``)."""

from functools import partial
from typing import Any

from ganeti_htools.cli.cluster import make_state, read_cluster, save
from ganeti_htools.cli.report import regroup, tables
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.report.moves import copying_time
from ganeti_htools.cli.report.page import check_page, write_page
from ganeti_htools.cli.report.script import give_commands, job_script
from ganeti_htools.cli.runs import plans
from ganeti_htools.cli.terminal.messages import say
from ganeti_htools.cli.terminal.program import check_exec, execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import execution_of, view_of
from ganeti_htools.commandline.programs import HREGROUP
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.options import CopyingOptions
from ganeti_htools.model.wording import did_you_mean
from ganeti_htools.planning import view
from ganeti_htools.planning.groups import hregroup as planning
from ganeti_htools.planning.groups.hregroup import PURPOSES, RegroupOptions
from ganeti_htools.planning.jobsets import jobsets
from ganeti_htools.planning.plan import statement

GROUPS = "groups"  # the action that only reports
UNREPAIRED = 3  # the exit status of an incomplete plan


def _options(line: CommandLine) -> RegroupOptions:
    """Read the options of the plan from a command line. Raises HtoolsError."""
    actions = (GROUPS, *PURPOSES)
    if len(line.arguments) != 1 or line.arguments[0] not in actions:
        hint = did_you_mean(line.arguments[0], actions) if line.arguments else ""
        raise HtoolsError(f"expected one of the actions {', '.join(actions)}", hint)
    action: Any = line.arguments[0]
    if action != "compress" and (line.group is not None or line.groups != 1 or line.reserve):
        raise HtoolsError("--group, --groups and --reserve go with compress only")
    if action != "redistribute" and line.partial:
        raise HtoolsError("--partial goes with redistribute only")
    return RegroupOptions(
        view=view_of(line),
        execution=execution_of(line),
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
        partial=line.partial,
    )


def run(line: CommandLine) -> int:
    """Read the cluster, plan, report and carry out. Returns the exit status; raises HtoolsError."""
    options, tell = _options(line), printer(line)
    check_exec(HREGROUP, line)
    check_page(line)
    reading = read_cluster(line)
    state = make_state(reading.cluster, line)
    rules = planning.rules_of(state, options)
    before = Regrouping(state, rules)
    say(tables.node_status("Initial cluster", state, line.print_nodes))
    if line.arguments[0] == GROUPS:
        write_page(line, "hregroup: node groups", state)
        if line.json:
            print_json(regroup.groups_json(before), state.cluster)
        else:
            tell(wrapped(regroup.groups_text(before).removesuffix("\n")))
        return 0
    if line.explain is not None:
        choices = regroup.choices(before, view.instance(state, line.explain))
        if line.json:
            print_json(choices, state.cluster)
        else:
            tell(wrapped(regroup.choices_text(choices).removesuffix("\n")))
        return 0
    save(line, "original", "before regrouping", lambda: view.without_options(state, reading.cluster))
    plan, answer = plans.make(line, planning.HREGROUP, state, options, reading.generations)
    after = plan.outcome.after.state
    tell(*map(wrapped, regroup.about(plan, line.verbose)))
    give_commands(line, "Commands to run:", lambda: job_script(plan.jobs()), tell)
    sentence, *notes = list(regroup.conclusions(plan))[: -1 if plan.moves else None]
    title, sets = f"hregroup: {options.action} groups", jobsets(plan.moves)
    time = copying_time(plan, sets, answer, CopyingOptions()) if sets else ""
    write_page(
        line, title, state, after if sets else None, sets, notes, sentence=f"{sentence}.", time_of_moves=time
    )
    save(line, "regrouped", "after regrouping", lambda: planning.reported(state, after))
    say(tables.node_status("Final cluster", after, line.print_nodes))
    outcome = plans.carry_out(line, HREGROUP.name, plan, answer, tell) if line.exec and plan.moves else None
    if line.json:
        print_json(
            regroup.as_json(before, plan, outcome)
            | {"plan": statement(HREGROUP.name, plan, reading.cluster)},
            state.cluster,
        )
    plans.conclude(outcome)
    return UNREPAIRED if plan.incomplete else 0


main = partial(execute, HREGROUP, run)
