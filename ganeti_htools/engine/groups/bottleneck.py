"""Reasons why a group that may take an instance has no place for it."""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.allocation.move_parts import try_operation
from ganeti_htools.engine.allocation.shortage import explain, explain_move
from ganeti_htools.engine.allocation.solution import GroupOutcome
from ganeti_htools.engine.groups.group_state import best_place
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import route_out
from ganeti_htools.engine.redundancy.recoverability import describe_lost
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.types import MirrorType
from ganeti_htools.model.wording import shorten_names

# Groups explained in one reason.
EXPLAINED = 3

_WITHIN = {
    MirrorType.INTERNAL: Operation.REPLACE_SECONDARY,
    MirrorType.EXTERNAL: Operation.FAILOVER_TO,
    MirrorType.NONE: Operation.MOVE,
}
_UNREACHABLE = "it cannot get there from its nodes"


def no_room(now: Regrouping, index: int, groups: Sequence[int]) -> str:
    """Describe why each of these groups (rows) has no place for an instance. Empty without groups."""
    reasons, unexplained = list[str](), list[str]()
    for at, group in enumerate(groups):
        name = now.state.cluster.groups[group].name
        why = bottleneck(now, index, group) if at < EXPLAINED else None
        if why is None:
            unexplained.append(name)
        else:
            reasons.append(f"no room in {name} ({why})")
    return ", ".join([*reasons, *([f"no room in {shorten_names(unexplained)}"] if unexplained else [])])


def bottleneck(now: Regrouping, index: int, group: int) -> str | None:
    """Describe what a group (row) lacks for an instance, or who would lose redundancy; None if unknown."""
    if group in now.homes(index):
        return _in_own_group(now, index, group)
    alone, asked, options = now.group_state(group), now.unplaced(index), PlacementOptions()
    online, reached = np.flatnonzero(~alone.state.columns.offline), now.reached(index, alone)
    count = asked.row.template.required_nodes
    if len(online) < count:
        return f"{len(online)} of its nodes are online, the instance needs {count}"
    place = best_place(alone, asked, reached if len(reached) else online, None)
    if place is None or place.trial is None:
        outcomes = [] if place is None else [GroupOutcome(group, place)]
        return explain(alone.state, asked, count, outcomes, options)
    if not len(reached):
        return _UNREACHABLE
    nodes = alone.nodes[list(place.nodes)].tolist()
    return _harm(now, index, route_out(now.state, index, nodes)) or _UNREACHABLE


def _in_own_group(now: Regrouping, index: int, group: int) -> str | None:
    """Describe why an instance finds no other node in its own group; None if unknown."""
    state, options = now.state, PlacementOptions()
    operation = _WITHIN[state.cluster.instances[index].template.mirror]
    others = (state.group == group) & ~state.columns.offline
    others[list(state.nodes_of(index))] = False
    targets, parts = np.flatnonzero(others), list[MovePart]()
    if not len(targets):
        return "no other node is online"
    if operation is Operation.REPLACE_SECONDARY and state.columns.offline[state.pnode[index]]:
        parts.append(MovePart(Operation.FAILOVER))
        after = now.copy()
        if not after.move(index, parts):
            return None
        state = after.state
    trial = try_operation(state, state.instance(index), operation, targets, options)
    fits = targets[np.broadcast_to(trial.codes, targets.shape) == FITS]
    if not len(fits):
        role = SECONDARY if operation is Operation.REPLACE_SECONDARY else PRIMARY
        return explain_move(state, trial, targets, role, options)
    return _harm(now, index, [*parts, MovePart(operation, int(fits[0]))])


def _harm(now: Regrouping, index: int, parts: Sequence[MovePart]) -> str | None:
    """Describe what a move of an instance would spoil; None if it spoils nothing or is impossible."""
    after = now.copy()
    if not after.move(index, parts):
        return None
    groups = dict.fromkeys((*after.homes(index), *now.homes(index)))
    if lost := after.lost_since(now, groups):
        return describe_lost(after.state, lost)
    worse = [group for group in groups if after.diagnosis(group).worse_than(now.diagnosis(group))]
    names = [now.state.cluster.groups[group].name for group in worse]
    return f"{names[0]} would be {after.diagnosis(worse[0]).word}" if worse else None
