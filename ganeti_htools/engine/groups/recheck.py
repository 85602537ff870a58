"""Recheck moves between node groups on a cluster that may have changed."""

from collections.abc import Sequence

from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import nodes_after
from ganeti_htools.engine.moving.named_moves import remaining_move
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import MovePart, NamedMove


def obstacle(now: Regrouping, moves: Sequence[NamedMove]) -> str | None:
    """Make moves in place, one after the other, and return the first reason against them, or None.

    A partly moved instance goes the rest of its route. No move may take an instance's redundancy. In the end
    no group may be less healthy and no moved instance between two groups.
    """
    rows = now.state.rows_by_name()
    groups = sorted(now.rules.groups)
    before = {group: now.diagnosis(group) for group in groups}
    for move in moves:
        last = now.copy()
        why = _cannot_be_made(now, rows.get(move.instance, NOWHERE), move)
        if why is not None:
            return f"instance {move.instance} {why}"
        if lost := now.lost_since(last, groups):
            return now.describe_lost(lost)
    names = [group.name for group in now.state.cluster.groups]
    for move in moves:
        homes = now.homes(rows[move.instance])
        if len(homes) > 1:
            return f"instance {move.instance} would be between groups {' and '.join(names[g] for g in homes)}"
    for group in groups:
        if now.diagnosis(group).worse_than(before[group]):
            return f"group {names[group]} would be {now.diagnosis(group).word}"
    return None


def _cannot_be_made(now: Regrouping, row: int, move: NamedMove) -> str | None:
    """Make the rest of a move. Returns the obstacle, or None once the move is made."""
    if row == NOWHERE:
        return "is gone"
    state, names = now.state, [group.name for group in now.state.cluster.groups]
    rest = remaining_move(state, row, move)
    if rest is None:
        here = ", ".join(state.names(state.nodes_of(row)))
        return f"is on {here}, not on {', '.join(move.was)}"
    parts = []
    for operation, name in rest.parts:
        node = NOWHERE if name is None else state.nodes.get(name, NOWHERE)
        if name is not None and node == NOWHERE:
            return f"cannot go to node {name}, which is gone"
        if node != NOWHERE and state.columns.offline[node]:
            return f"cannot go to node {name}, which is offline or drained"
        parts.append(MovePart(operation, node))
    if not now.rules.movable[row]:
        return "must not be moved"
    target = int(state.group[nodes_after(now.state, row, parts)[0]])
    if target not in now.homes(row) and (why := now.refusal(row, target)) is not None:
        return f"cannot go to group {names[target]}: {why}"
    fail = now.failure(row, parts)
    if fail is not None:
        return f"does not fit on {', '.join(move.now)} any more ({fail.value})"
    now.move(row, parts)
    return None
