"""Report of ``hcheck --what-if-lost`` and ``--losses`` about lost nodes, as text and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti_htools.cli.report.health import tolerated
from ganeti_htools.cli.report.layout import first_of, fitting_table, wrapped
from ganeti_htools.engine.redundancy.health import Loss, Tolerance
from ganeti_htools.engine.redundancy.rule import Means, Recovery
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted

OUTCOMES = {
    Means.FAILOVER: "fails over to",
    Means.MOVE: "moves to",
    Means.RECREATE: "is recreated, without its data, on",
}


TITLES = {"memory": "Memory", "disk": "Disk", "cpus": "CPUs", "spindles": "Spindles"}


def as_table(state: State, losses: Sequence[Loss]) -> str:
    """Show for each lost node the fullest other node after its loss, by resource, in a row.

    The answer for all nodes stands above the table, the instances that do not come back below it.
    """
    suffix = common_suffix(state.cluster)

    def name(node: int) -> str:
        return state.cluster.nodes[node].name.removesuffix(suffix)

    def cell(loss: Loss, resource: str) -> str:
        if resource not in loss.fullest:
            return "-"
        node, share = loss.fullest[resource]
        return f"{share:4.0%} {name(node)}"

    fatal = [loss for loss in losses if loss.lost]
    answer = f"Each of {counted(len(losses), 'node')} may fail: all instances come back"
    if fatal:
        gone = counted(sum(loss.lost for loss in fatal), "instance")
        nodes = f"{len(fatal)} of {counted(len(losses), 'node')}"
        answer = f"{nodes} cannot fail without loss: {gone} would not come back"
    elif any(loss.recreated for loss in losses):
        answer += ", but some without their data"
    rows = [(name(loss.node), *(cell(loss, resource) for resource in TITLES)) for loss in losses]
    table = fitting_table(("Lost", *TITLES.values()), rows, [False] * 5)
    notes = []
    for loss in losses:
        for which, means in ((False, "do not come back"), (True, "come back without their data")):
            names = [
                _instance(state, each)
                for each in loss.recoveries
                if not _restarted(each) and (each.node != NOWHERE) is which
            ]
            if names:
                notes.append(f"Without {name(loss.node)}, {means}: {first_of(names)}\n")
    title = wrapped(f"{answer}. The fullest other node after each loss:\n")
    return title + table + wrapped("".join(notes))


def as_text(
    state: State, losses: Sequence[Loss], tolerances: Mapping[int, Tolerance], everything: bool
) -> str:
    """Describe what happens to the instances of each lost node; ``tolerances`` are those of groups, by row.

    Without ``everything``, only count instances that come back with their data.
    """
    lines = [line for loss in losses for line in _loss(state, loss, everything)]
    names = state.cluster.groups
    lines += (f"Group {names[row].name}: {tolerated(count)}" for row, count in tolerances.items())
    return "".join(f"{line}\n" for line in lines)


def _loss(state: State, loss: Loss, everything: bool) -> list[str]:
    (name,) = state.names([loss.node])
    back = f"{loss.restarted} of {len(loss.recoveries)} instances come back"
    if loss.recreated:
        back = (
            f"{loss.recreated} of {len(loss.recoveries)} instances come back without their data,"
            f" {loss.restarted} with it, {loss.lost} not at all"
        )
    listed = [
        f"    {_instance(state, recovery)} {_outcome(state, recovery)}"
        for recovery in sorted(loss.recoveries, key=_restarted)
        if everything or not _restarted(recovery)
    ]
    return [f"Without node {name}: {back}; {loss.unmirrored} elsewhere left without secondary", *listed]


def _restarted(recovery: Recovery) -> bool:
    """Whether the instance comes back with its data."""
    return recovery.node != NOWHERE and recovery.kind is not Means.RECREATE


def _outcome(state: State, recovery: Recovery) -> str:
    if recovery.node == NOWHERE:
        return "does not come back" + (
            f": its tags allow no node ({recovery.rules})" if recovery.rules else ""
        )
    return f"{OUTCOMES[recovery.kind]} {state.names([recovery.node])[0]}"


def _instance(state: State, recovery: Recovery) -> str:
    return state.cluster.instances[recovery.instance].name


def as_json(state: State, losses: Sequence[Loss], tolerances: Mapping[int, Tolerance]) -> dict[str, Any]:
    """The losses and what each group (by row) tolerates as a JSON document."""
    groups = state.cluster.groups
    return {
        "lost": [_loss_json(state, loss) for loss in losses],
        "tolerated_losses": {groups[row].name: count.intact for row, count in tolerances.items()},
        "tolerated_losses_without_data": {
            groups[row].name: count.recreating for row, count in tolerances.items()
        },
    }


def _loss_json(state: State, loss: Loss) -> dict[str, Any]:
    return {
        "node": state.names([loss.node])[0],
        "survived": loss.restarted == len(loss.recoveries),
        "with_data": loss.restarted,
        "without_data": loss.recreated,
        "not_back": loss.lost,
        "unmirrored": loss.unmirrored,
        "fullest": {
            resource: {"node": state.names([node])[0], "percent": round(100 * share, 1)}
            for resource, (node, share) in loss.fullest.items()
        },
        "instances": [
            {
                "name": _instance(state, recovery),
                "by": recovery.kind.value,
                "node": None if recovery.node == NOWHERE else state.names([recovery.node])[0],
                **({"rules": recovery.rules} if recovery.rules else {}),
            }
            for recovery in loss.recoveries
        ],
    }
