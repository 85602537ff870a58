"""``hcheck``: tell whether a cluster is healthy, and whether rebalancing would help (``hcheck(1)``)."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli import clusters
from ganeti_htools.cli.hbal import balancing
from ganeti_htools.cli.report import keys, tables
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.cli.terminal.saying import progress, say
from ganeti_htools.cli.viewing import seen, view_of
from ganeti_htools.commandline.programs import HCHECK
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.balancing.balance import stepwise
from ganeti_htools.engine.redundancy import check
from ganeti_htools.engine.redundancy.check import Health, Loss, Tolerance
from ganeti_htools.engine.redundancy.global_n1 import Refuge, Return
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import view

# What is counted: the end of its key, and what it is called.
COUNTS = (
    ("N1_FAIL", "Nodes not N+1 happy"),
    ("CONFLICT_TAGS", "Nodes with conflicting instances"),
    ("OFFLINE_PRI", "Instances having the primary node offline"),
    ("OFFLINE_SEC", "Instances having a secondary node offline"),
    ("GN1_FAIL", "Nodes not directly evacuateable"),
)
PHASES = {"INIT": "initially", "FINAL": "after rebalancing"}


@dataclass(frozen=True, slots=True)
class Group:
    """A node group (row): its health and its score."""

    row: int
    health: Health
    score: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found of the groups and of all together, before or after rebalancing."""

    groups: tuple[Group, ...]
    cluster: Health


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HCHECK, run, argv)


def run(line: CommandLine) -> int:
    """Load, check and print; the exit status. Raises HtoolsError."""
    if line.machine_readable and line.json:
        raise HtoolsError("Only one of --machine-readable and --json can be printed.")
    state = seen(clusters.load(line), line)
    movable = view.movable(state, view_of(line))
    if line.print_instances:
        say(tables.instance_map("Instances", state))
    if line.print_nodes is not None:
        say(tables.node_status("Cluster", state, line.print_nodes))
    if line.what_if_lost is not None:
        return what_if_lost(state, line, line.what_if_lost)
    return check_all(state, movable, line)


def check_all(state: State, movable: Bools, line: CommandLine) -> int:
    """Check all groups, and again after rebalancing if that might help."""
    capacity = not line.no_capacity_checks
    rows = check.groups(state)
    before = _findings([_group(state, row, capacity) for row in rows], capacity)
    unhealthy = any(before.cluster.counts)
    simulate = unhealthy and not line.no_simulation
    if not line.json:
        _print_before(state, before, unhealthy, line)
    after = before
    if simulate:
        after = _findings(
            [_group(_balanced(state, row, movable, line), row, capacity) for row in rows], capacity
        )
    if line.json:
        print_json(_as_json(state, before, after if simulate else None))
    elif simulate or line.machine_readable:
        _print_findings(state, after, "FINAL", unhealthy, line)
    if line.machine_readable:
        print(keys.lines("HCHECK", [("OK", "1")]), end="")
    return int(simulate)


def _findings(groups: Sequence[Group], capacity: bool) -> Findings:
    return Findings(tuple(groups), check.total([group.health for group in groups], capacity))


def _group(state: State, row: int, capacity: bool) -> Group:
    scope: Bools = state.group == row
    return Group(row, check.health(state, scope, capacity), check.score(check.figures(state, scope)))


def _balanced(state: State, row: int, movable: Bools, line: CommandLine) -> State:
    """The state with that group rebalanced as ``hbal(1)`` would."""
    state = state.copy()
    with progress() as tell:
        for number, step in enumerate(stepwise(state, state.group == row, balancing(line), movable), 1):
            tell(f"group {state.cluster.groups[row].name}: {number} steps, score {fixed(step.score, 8)}")
    return state


def _print_before(state: State, before: Findings, unhealthy: bool, line: CommandLine) -> None:
    if line.machine_readable:
        uuids = [(f"GROUP_UUID_{row}", group.uuid) for row, group in enumerate(state.cluster.groups)]
        print(keys.lines("HCHECK", uuids), end="")
    elif line.verbose >= 1:
        if line.no_simulation:
            print("Running in no-simulation mode.")
        elif unhealthy:
            print("Cluster needs rebalancing.")
        else:
            print("No need to rebalance cluster, no problems found.")
    _print_findings(state, before, "INIT", unhealthy, line)


def _print_findings(state: State, findings: Findings, phase: str, unhealthy: bool, line: CommandLine) -> None:
    for group in findings.groups:
        level = f"GROUP_{group.row}"
        title = f"Statistics for group {state.cluster.groups[group.row].name} {PHASES[phase]}"
        last = ("SCORE", "Group score", fixed(group.score, 8))
        _print_counts(f"{phase}_{level}", title, group.health, last, line)
        if phase == "INIT" and line.verbose > 1 and not line.machine_readable:
            print(f"    {_tolerated(check.tolerance(state, state.group == group.row))}")
    # Rebalancing is needed if it was before, as with Ganeti's hcheck.
    health = str(int(unhealthy)) if line.machine_readable else str(unhealthy)
    last = ("NEED_REBALANCE", "Cluster is not healthy", health)
    _print_counts(f"{phase}_CLUSTER", f"Cluster statistics {PHASES[phase]}", findings.cluster, last, line)


def _print_counts(
    prefix: str, title: str, health: Health, last: tuple[str, str, str], line: CommandLine
) -> None:
    rows = [(*names, str(count)) for names, count in zip(COUNTS, health.counts, strict=False)]
    rows.append(last)
    if line.machine_readable:
        print(keys.lines("HCHECK", [(f"{prefix}_{key}", value) for key, _, value in rows]), end="")
    elif line.verbose >= 1:
        print(f"\n{title}")
        print("".join(f"    {name}: {value}\n" for _, name, value in rows), end="")


def _tolerated(count: Tolerance) -> str:
    told = f"Nodes that may be lost one after the other, largest first: {count.intact}"
    return f"{told} ({count.recreating} if data may be lost)" if count.recreating > count.intact else told


def _as_json(state: State, before: Findings, after: Findings | None) -> dict[str, Any]:
    finals: Sequence[Group | None] = after.groups if after else [None] * len(before.groups)
    return {
        "healthy": not any(before.cluster.counts),
        "groups": [
            {
                "name": state.cluster.groups[group.row].name,
                "uuid": state.cluster.groups[group.row].uuid,
                "tolerated_losses": tolerated.intact,
                "tolerated_losses_without_data": tolerated.recreating,
                "initial": {**_counts(group.health), "score": group.score},
                "final": final and {**_counts(final.health), "score": final.score},
            }
            for group, final in zip(before.groups, finals, strict=True)
            for tolerated in [check.tolerance(state, state.group == group.row)]
        ],
        "cluster": {"initial": _counts(before.cluster), "final": after and _counts(after.cluster)},
    }


def _counts(health: Health) -> dict[str, int]:
    names = ("n1_fail", "conflict_tags", "offline_pri", "offline_nodes", "gn1_fail")
    return dict(zip(names, health.counts, strict=False))


def what_if_lost(state: State, line: CommandLine, name: str) -> int:
    """Tell what becomes of the instances of a node, or of each online one.

    0 if all come back with their data, 1 if some do not come back, 2 if some come back without data.
    """
    if line.machine_readable:
        raise HtoolsError("--what-if-lost has no KEY=VALUE form; take --json.")
    one = name != "any"
    nodes = [view.node(state, name)] if one else np.flatnonzero(~state.columns.offline).tolist()
    rows = sorted({int(state.group[node]) for node in nodes})
    losses = []
    with progress() as tell:
        for node in nodes:
            losses.append(check.lose(state, node))
            tell(f"{len(losses)} of {len(nodes)} nodes")
    tolerated = {row: check.tolerance(state, state.group == row) for row in rows}
    names = {row: state.cluster.groups[row].name for row in rows}
    if line.json:
        print_json(
            {
                "lost": [_loss_json(state, loss) for loss in losses],
                "tolerated_losses": {names[row]: count.intact for row, count in tolerated.items()},
                "tolerated_losses_without_data": {
                    names[row]: count.recreating for row, count in tolerated.items()
                },
            }
        )
    elif line.verbose >= 1:
        for loss in losses:
            _print_loss(state, loss, one or line.verbose > 1)
        for row, count in tolerated.items():
            print(f"Group {names[row]}: {_tolerated(count)}")
    if any(loss.lost for loss in losses):
        return 1
    return 2 if any(loss.recreated for loss in losses) else 0


OUTCOMES = {
    Return.FAILOVER: "fails over to",
    Return.MOVE: "moves to",
    Return.RECREATE: "is recreated, without its data, on",
}


def _print_loss(state: State, loss: Loss, everything: bool) -> None:
    (name,) = state.names([loss.node])
    back = f"{loss.restarted} of {len(loss.refuges)} instances come back"
    if loss.recreated:
        back = (
            f"{loss.recreated} of {len(loss.refuges)} instances come back without their data,"
            f" {loss.restarted} with it, {loss.lost} not at all"
        )
    print(f"Without node {name}: {back}; {loss.unmirrored} elsewhere left without secondary")
    for refuge in sorted(loss.refuges, key=_restarted):
        if everything or not _restarted(refuge):
            print(f"    {_instance_name(state, refuge)} {_outcome(state, refuge)}")


def _restarted(refuge: Refuge) -> bool:
    return refuge.node != NOWHERE and refuge.kind is not Return.RECREATE


def _outcome(state: State, refuge: Refuge) -> str:
    if refuge.node == NOWHERE:
        return "does not come back"
    return f"{OUTCOMES[refuge.kind]} {state.names([refuge.node])[0]}"


def _instance_name(state: State, refuge: Refuge) -> str:
    return state.cluster.instances[refuge.instance].name


def _loss_json(state: State, loss: Loss) -> dict[str, Any]:
    return {
        "node": state.names([loss.node])[0],
        "survived": loss.restarted == len(loss.refuges),
        "with_data": loss.restarted,
        "without_data": loss.recreated,
        "not_back": loss.lost,
        "unmirrored": loss.unmirrored,
        "instances": [
            {
                "name": _instance_name(state, refuge),
                "by": refuge.kind.value,
                "node": None if refuge.node == NOWHERE else state.names([refuge.node])[0],
            }
            for refuge in loss.refuges
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
