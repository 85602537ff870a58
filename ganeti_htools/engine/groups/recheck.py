"""Moves between node groups looked at again, on a cluster that may have changed."""

from collections.abc import Sequence

from ganeti_htools.engine.allocation.move_parts import MovePart, NamedMove
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.columns import NOWHERE


def obstacle(now: Regrouping, moves: Sequence[NamedMove]) -> str | None:
    """Make moves one after the other, in place; why one cannot be made, which is where it ends.

    No group may be less healthy in the end than it is before.
    """
    rows = {instance.name: row for row, instance in enumerate(now.state.cluster.instances)}
    groups = sorted(now.rules.groups)
    before = {group: now.health(group) for group in groups}
    for move in moves:
        why = _cannot_be_made(now, rows.get(move.instance, NOWHERE), move)
        if why is not None:
            return f"instance {move.instance} {why}"
    for group in groups:
        if now.health(group).worse_than(before[group]):
            return f"group {now.state.cluster.groups[group].name} would be {now.health(group).word}"
    return None


def _cannot_be_made(now: Regrouping, row: int, move: NamedMove) -> str | None:
    """Make a move; why it cannot be made, None if it has been."""
    if row == NOWHERE:
        return "is gone"
    state = now.state
    here = tuple(
        state.names(node for node in (int(state.pnode[row]), int(state.snode[row])) if node != NOWHERE)
    )
    if here != move.was:
        return f"is on {', '.join(here)}, not on {', '.join(move.was)}"
    parts = []
    for operation, name in move.parts:
        node = NOWHERE if name is None else state.nodes.get(name, NOWHERE)
        if name is not None and node == NOWHERE:
            return f"cannot go to node {name}, which is gone"
        if node != NOWHERE and state.columns.offline[node]:
            return f"cannot go to node {name}, which is offline or drained"
        parts.append(MovePart(operation, node))
    if not now.rules.movable[row]:
        return "must not be moved"
    return None if now.make(row, parts) else f"does not fit on {', '.join(move.now)} any more"
