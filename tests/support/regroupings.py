"""What plans between node groups may do, and whether they keep to it."""

from collections.abc import Sequence
from random import Random

import numpy as np

from ganeti_htools.engine.groups.outcome import RegroupingLimits, cost
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.columns import sorted_unique
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType
from ganeti_htools.planning.groups.hregroup import reported


def groups_of(state: State) -> list[int]:
    rows: list[int] = sorted_unique(state.group).tolist()
    return rows


def rules_of(state: State, **facts: bool) -> RegroupingRules:
    """All groups, all instances."""
    return RegroupingRules(np.ones(len(state.pnode), np.bool_), frozenset(state.group.tolist()), **facts)


def narrow_rules(state: State, rng: Random) -> RegroupingRules:
    """Most groups, most instances, perhaps no disks."""
    chosen = frozenset(group for group in groups_of(state) if rng.random() < 0.8)
    movable = np.array([rng.random() < 0.9 for _ in state.pnode], np.bool_)
    return RegroupingRules(movable, chosen, mirrored=rng.random() < 0.6, plain=rng.random() < 0.5)


def check_moves(
    state: State, rules: RegroupingRules, limits: RegroupingLimits, moves: Sequence[Move]
) -> None:
    """Moves from a state keep to what was allowed."""
    rows = state.cluster.instances
    assert limits.moves < 0 or len(moves) <= limits.moves
    assert limits.copy < 0 or sum(cost(rows, move) for move in moves) <= limits.copy
    for move in moves:
        assert rules.movable[move.instance]
        assert {*state.group[[*move.nodes, state.pnode[move.instance]]].tolist()} <= rules.groups
        copying = any(part.operation.copies_disks for part in move.parts)
        mirrored = rows[move.instance].template.mirror is MirrorType.INTERNAL
        assert not copying or (rules.mirrored if mirrored else rules.plain)


def read_again(before: State, after: State) -> State:
    """The state as it is read from the nodes once instances have moved."""
    return derive(reported(before, after))
