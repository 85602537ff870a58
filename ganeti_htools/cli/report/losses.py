"""Report of ``hcheck --what-if-lost`` about lost nodes, as text and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti_htools.cli.report.health import tolerated
from ganeti_htools.engine.redundancy.health import Loss, Tolerance
from ganeti_htools.engine.redundancy.rule import Means, Recovery
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.state import State

OUTCOMES = {
    Means.FAILOVER: "fails over to",
    Means.MOVE: "moves to",
    Means.RECREATE: "is recreated, without its data, on",
}


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
