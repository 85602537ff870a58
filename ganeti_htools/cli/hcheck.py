"""``hcheck``: tell whether a cluster is healthy, and whether rebalancing would help (``hcheck(1)``)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.cluster import load, make_state
from ganeti_htools.cli.report import contradictions, health, losses, storage, tables
from ganeti_htools.cli.report.health import GroupFindings, HealthFindings, Outlook
from ganeti_htools.cli.report.layout import key_lines, wrapped
from ganeti_htools.cli.report.storage_faults import storage_faults
from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import balancing_of, view_of
from ganeti_htools.commandline.programs import HCHECK
from ganeti_htools.engine.balancing.balance import stepwise
from ganeti_htools.engine.groups.diagnosis import diagnose
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.engine.rules.contradictions import check_rules
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError, HtoolsError, during
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.inconsistencies import tag_faults
from ganeti_htools.model.state import State
from ganeti_htools.model.without_instances import emptied
from ganeti_htools.model.wording import counted
from ganeti_htools.planning import view
from ganeti_htools.planning.repair.instance_faults import instance_faults


def run(line: CommandLine) -> int:
    """Read the cluster, check it, report; the exit status. Raises HtoolsError."""
    if line.machine_readable and line.json:
        raise HtoolsError("Only one of --machine-readable and --json can be printed.")
    if line.losses and line.what_if_lost is not None:
        raise HtoolsError("Only one of --losses and --what-if-lost can be shown.")
    what_if = "any" if line.losses else line.what_if_lost
    if line.rules and (line.machine_readable or what_if is not None):
        raise HtoolsError("--rules cannot go with --machine-readable, --what-if-lost or --losses.")
    if line.plan is not None:
        return _plan(line, line.plan)
    state = make_state(load(line), line)
    movable = view.movable(state, view_of(line), sets=True)
    if line.print_instances:
        say(tables.instance_map("Instances", state))
    say(tables.node_status("Cluster", state, line.print_nodes))
    if what_if is not None:
        return _what_if_lost(state, line, what_if)
    if line.rules:
        return _rules(state, line)
    return _check(state, movable, line)


def _check(state: State, movable: Bools, line: CommandLine) -> int:
    """Check all groups, and once more as they would be after rebalancing if that might help.

    The result is 1 if it might help, else 0.
    """
    capacity = not line.no_capacity_checks
    rows = redundancy_health.groups(state)
    worded = capacity and (line.json or line.verbose > 1)
    before = _findings([_group(state, row, capacity, worded) for row in rows], capacity)
    simulate = not (before.healthy or line.no_simulation)
    faults = storage_faults(state)
    wrong = list(instance_faults(state.cluster.instances, state.cluster.iallocator))
    if line.verbose >= 1 and not line.json:
        for fault in storage.warnings(faults):
            warn(f"Warning: {fault}")
        for each in wrong:
            warn(f"Warning: {each.text}; next: {each.command}")
        for group, templates in health.policies_not_enabled(state.cluster).items():
            named = ", ".join(templates)
            warn(f"Warning: group {group}: its policy allows {named}, which the cluster does not enable")
    if line.machine_readable:
        print(health.group_keys(state), end="")
    elif line.verbose >= 1 and not line.json:
        print(_verdict(before, line))
    outlook = {} if line.machine_readable else _outlook(state, before, line)
    _print_findings(state, before, "INIT", before, line, outlook)
    after = None
    if simulate:
        balanced = [_group(_balanced(state, row, movable, line), row, capacity, False) for row in rows]
        after = _findings(balanced, capacity)
    if line.json:
        stored = {"storage": storage.faults_json(faults)} if state.units.reported else {}
        broken = {"broken_rules": health.broken_rules_json(state, broken_rules(state))} if state.rules else {}
        running = {"instance_faults": [each.to_json() for each in wrong]} if wrong else {}
        without_effect = tag_faults(state.cluster)
        tags = {"tag_faults": without_effect} if without_effect else {}
        document = health.as_json(state, before, after, outlook)
        print_json(document | stored | broken | running | tags, state.cluster)
    elif after or line.machine_readable:
        _print_findings(state, after or before, "FINAL", before, line)
    if line.machine_readable:
        print(key_lines("HCHECK", [("OK", "1")]), end="")
    elif line.verbose >= 1 and not line.json:
        if line.verbose > 1:
            print(f"Rules of Ganeti {rules_of(state.cluster.ganeti).name}")
        if state.rules is not None:
            print(health.broken_rules_text(state, broken_rules(state)), end="")
        if without_effect := tag_faults(state.cluster):
            print("\n    ".join([f"Tags without effect: {len(without_effect)}", *without_effect]))
    return int(simulate)


def _verdict(before: HealthFindings, line: CommandLine) -> str:
    if line.no_simulation:
        return "Running in no-simulation mode."
    if before.healthy:
        return "No need to rebalance cluster, no problems found."
    return "Cluster needs rebalancing."


def _print_findings(
    state: State,
    findings: HealthFindings,
    phase: str,
    before: HealthFindings,
    line: CommandLine,
    outlook: Outlook | None = None,
) -> None:
    # Rebalancing is needed if it was before, as with Ganeti's hcheck.
    rebalancing = not before.healthy
    if line.machine_readable:
        print(health.as_keys(findings, phase, rebalancing), end="")
    elif line.verbose >= 1 and not line.json:
        more = phase == "INIT" and line.verbose > 1
        print(health.as_text(state, findings, phase, rebalancing, more, outlook), end="")


def _findings(groups: Sequence[GroupFindings], capacity: bool) -> HealthFindings:
    return HealthFindings(
        tuple(groups), redundancy_health.total([group.health for group in groups], capacity)
    )


def _group(state: State, row: int, capacity: bool, worded: bool) -> GroupFindings:
    """Check a group (row). ``worded``: also find nodes that cannot be lost, for the health in words."""
    scope: Bools = state.group == row
    return GroupFindings(
        row,
        redundancy_health.health(state, scope, capacity),
        diagnose(state, scope, unrecoverable(state, scope) if worded else None),
        float(choice.base(state, scope).score()),
    )


def _outlook(state: State, before: HealthFindings, line: CommandLine) -> Outlook:
    """Predict the result of redistribution for each unhealthy group, if there are several groups."""
    wanted = not line.no_simulation and (line.json or line.verbose > 1)
    if not wanted or len(before.groups) < 2 or all(group.ill.good for group in before.groups):
        return {}
    from ganeti_htools.planning.groups import hregroup  # seldom needed

    options = hregroup.RegroupOptions(view=view_of(line), disk_moves=not line.no_disk_moves)
    with progress("looking for room in other groups") as tell:
        plan = hregroup.plan(state, options, tell)
    failed = dict(plan.outcome.failed)
    return {group.row: failed.get(group.row) for group in before.groups if not group.ill.good}


def _balanced(state: State, row: int, movable: Bools, line: CommandLine) -> State:
    """The state with that group rebalanced as ``hbal(1)`` would."""
    state = state.copy()
    with progress(f"balancing {state.cluster.groups[row].name}") as tell:
        for number, step in enumerate(stepwise(state, state.group == row, balancing_of(line), movable), 1):
            tell(f"{counted(number, 'step')}, score {fixed(step.score, 8)}")
    return state


def _rules(state: State, line: CommandLine) -> int:
    """Report rules that no placement satisfies; 1 if there are some, 2 if some are undecided, else 0."""
    instances = state.cluster.instances
    options = replace(view_of(line), select_instances=(), exclude_instances=())
    with progress("checking rules"):
        found = check_rules(view.state_of(emptied(state.cluster), options, asked=instances), instances)
    if line.json:
        print_json(contradictions.as_json(state, found), state.cluster)
    elif line.verbose >= 1:
        print(wrapped(contradictions.as_text(state, found)), end="")
    if found.contradictions:
        return 1
    return 2 if found.undecided else 0


def _plan(line: CommandLine, path: str) -> int:
    """Judge the plan in a file; 0 if it holds, 3 if it does not."""
    import orjson  # seldom needed

    from ganeti_htools.backends.text import digest
    from ganeti_htools.cli.report import certificate
    from ganeti_htools.files import read_bytes
    from ganeti_htools.judge.judge import judge
    from ganeti_htools.judge.plan import statement_of

    if line.machine_readable or line.rules or line.losses or line.what_if_lost is not None:
        raise HtoolsError("--plan cannot go with --machine-readable, --rules, --losses and --what-if-lost.")
    with during(path):
        try:
            document = orjson.loads(read_bytes(path))
        except orjson.JSONDecodeError as error:
            raise DataError(f"not JSON: {error}") from None
        made_for = statement_of(document).get("cluster")
    cluster = load(line)
    found = judge(cluster, document)
    if made_for not in (None, digest(cluster)):
        found.notes.append("the cluster is not the one that the plan was made for")
    if line.json:
        print_json(found.to_json(), cluster)
    elif line.verbose >= 1:
        print(wrapped("\n".join(certificate.lines(found))))
    return 3 if found.findings else 0


def _what_if_lost(state: State, line: CommandLine, name: str) -> int:
    """Report what happens to the instances if a node is lost, or each online node (``any``).

    0 if all come back with their data, 1 if some do not come back, 2 if some come back without data.
    """
    if line.machine_readable:
        raise HtoolsError("--what-if-lost and --losses have no KEY=VALUE form; take --json.")
    one = name != "any"
    nodes = [view.node(state, name)] if one else np.flatnonzero(~state.columns.offline).tolist()
    lost = []
    with progress("losing nodes") as tell:
        for node in nodes:
            lost.append(redundancy_health.lose(state, node))
            tell(f"{len(lost)} of {len(nodes)} nodes")
    groups = sorted({int(state.group[node]) for node in nodes})
    tolerances = {row: redundancy_health.tolerance(state, state.group == row) for row in groups}
    if line.json:
        print_json(losses.as_json(state, lost, tolerances), state.cluster)
    elif line.verbose >= 1 and line.losses:
        print(losses.as_table(state, lost), end="")
    elif line.verbose >= 1:
        print(wrapped(losses.as_text(state, lost, tolerances, one or line.verbose > 1)), end="")
    if any(loss.lost for loss in lost):
        return 1
    return 2 if any(loss.recreated for loss in lost) else 0


main = partial(execute, HCHECK, run)
