"""Instances that a balancing plan leaves on nodes that are offline or drained, and why."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.explaining.possible_moves import PossibleMove, possible_moves
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, MirrorType
from ganeti_htools.planning import view


class StrandedInstance(NamedTuple):
    """An instance, its nodes that are offline or drained, and why it stays there."""

    instance: str
    nodes: list[str]
    why: str


def stranded_instances(
    state: State, scope: Bools, movable: Bools, options: BalancingOptions, steps: int
) -> Iterator[StrandedInstance]:
    """Find the instances that a plan of ``steps`` steps leaves behind; ``state`` is the state after the plan.

    At least one of their nodes that are offline or drained is in scope.
    """
    full = 0 <= options.max_length <= steps
    stranded = _on_offline(state, state.pnode, scope) | _on_offline(state, state.snode, scope)
    if not stranded.any():
        return
    moves = possible_moves(state, scope, stranded & movable, options)
    for index in np.flatnonzero(stranded).tolist():
        nodes = list(state.node_pair(index))
        left = [node for node in nodes if node != NOWHERE and state.columns.offline[node]]
        why = reason_to_stay(state, index, movable)
        why = why or _obstacle(state, index, len(left), moves[index], full)
        yield StrandedInstance(state.cluster.instances[index].name, state.names(left), why)


def reason_to_stay(state: State, index: int, movable: Bools) -> str | None:
    """Return the reason why no balancing plan moves an instance (row), whatever it gains; None if it may."""
    if view.across_groups(state)[index]:
        return "its nodes are in two node groups"
    if not movable[index]:
        diskless = state.cluster.instances[index].template is DiskTemplate.DISKLESS
        left_out = "the options leave it out" + " (diskless: --move-diskless moves it)" * diskless
        return placement_rules.reason_to_stay(state, index) or left_out
    return None if state.cluster.instances[index].auto_balance else "auto_balance is off"


def _on_offline(state: State, rows: Ints, scope: Bools) -> Bools:
    found: Bools = (rows != NOWHERE) & (scope & state.columns.offline)[rows]
    return found


def _obstacle(state: State, index: int, left: int, moves: Sequence[PossibleMove], full: bool) -> str:
    """Return why an instance with ``left`` nodes that are offline or drained has not moved off them."""
    offline = state.columns.offline
    helpful = [
        place
        for place in (move.place for move in moves)
        if sum(bool(offline[node]) for node in (place.pnode, place.snode) if node != NOWHERE) < left
    ]
    if not all(place.why for place in helpful):
        return "the plan ends before" if full else "moving it would not gain enough"
    if helpful:
        counts = Counter(place.why for place in helpful)
        return f"it fits nowhere: {', '.join(f'{name}: {count}' for name, count in counts.most_common())}"
    template = state.cluster.instances[index].template
    if template.mirror is MirrorType.NONE:
        return f"{template.value} instances cannot be moved"
    if template.mirror is MirrorType.INTERNAL and state.snode[index] == NOWHERE:
        return "it has no secondary"
    return "no other node is online, or the options do not allow the move"
