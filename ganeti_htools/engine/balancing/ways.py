"""The shortest ways of instances to their final places, and the exchange of places so
that little is copied.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ganeti_htools.engine.balancing.new_nodes import instance_classes
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules.batches import Batch
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State

NodePair = tuple[int, int]  # rows of primary and secondary (NOWHERE for none)


class Places(Protocol):
    """Rows of primary and secondary of all instances."""

    @property
    def pnode(self) -> Ints: ...

    @property
    def snode(self) -> Ints: ...


def goals_of(state: State, found: Places) -> dict[int, NodePair]:
    """Find the final nodes of the instances that have moved."""
    changed = np.flatnonzero((found.pnode != state.pnode) | (found.snode != state.snode))
    return {int(row): (int(found.pnode[row]), int(found.snode[row])) for row in changed}


def volume_of(state: State, index: int, kind: MoveKind) -> int:
    return sum(copied(kind, state.cluster.instances[index]))


def first_moves(state: State, place: NodePair, goal: NodePair) -> list[tuple[MoveKind, int]]:
    """Return the moves to a place, or half the way if two are needed; the one that copies least comes first.

    A lost primary is left before anything else.
    """
    (p, s), (pnode, snode) = place, goal
    if s == NOWHERE:
        return [(MoveKind.FAILOVER_TO, pnode)]
    if goal == (s, p):
        return [(MoveKind.FAILOVER, NOWHERE)]
    if pnode == p:
        return [(MoveKind.REPLACE_SECONDARY, snode)]
    if snode == p:
        return [(MoveKind.REPLACE_AND_FAILOVER, pnode)]
    if pnode == s:
        return [(MoveKind.FAILOVER_AND_REPLACE, snode)]
    if snode == s:
        return [(MoveKind.REPLACE_PRIMARY, pnode)]
    before = [(MoveKind.REPLACE_AND_FAILOVER, pnode), (MoveKind.REPLACE_SECONDARY, snode)]
    after = [(MoveKind.REPLACE_PRIMARY, pnode), (MoveKind.FAILOVER_AND_REPLACE, snode)]
    return [*after, *before] if state.columns.offline[p] else [*before, *after]


def _distance(state: State, index: int, goal: NodePair) -> tuple[int, int]:
    """Compute the data (MiB) that the shortest way of an instance copies, and its number of moves."""
    place = state.node_pair(index)
    if place == goal:
        return 0, 0
    first = first_moves(state, place, goal)
    kinds = [first[0][0], MoveKind.REPLACE_SECONDARY] if len(first) > 1 else [first[0][0]]
    return sum(volume_of(state, index, kind) for kind in kinds), len(kinds)


def shortest(state: State, goals: Mapping[int, NodePair]) -> tuple[int, int]:
    """Compute the data (MiB) that the shortest ways of all instances copy, and their number of moves."""
    ways = [_distance(state, index, goal) for index, goal in goals.items()]
    return sum(volume for volume, _ in ways), sum(length for _, length in ways)


def exchanged_goals(
    state: State, batches: Sequence[Batch], goals: Mapping[int, NodePair]
) -> dict[int, NodePair]:
    """Exchange goals between equal instances, which may go to the same nodes, where that copies less."""
    result = dict(goals)
    for batch in batches:
        classes, _ = instance_classes(batch)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, number in zip(batch.rows.tolist(), classes.tolist(), strict=True):
            if index in goals:
                running = state.cluster.instances[index].status.running
                groups.setdefault((number, running, *_bounds(state, index)), []).append(index)
        for members in groups.values():
            dealt = _dealt(state, members, goals)
            if shortest(state, dealt) < shortest(state, {index: goals[index] for index in members}):
                result |= dealt
    return result


def _bounds(state: State, index: int) -> Iterator[bytes]:
    """Yield what limits the nodes to which an instance may go: migration tags of its primary, and rules."""
    if state.allowed_migrations is not None:
        yield state.allowed_migrations[state.pnode[index]].tobytes()
    if state.rules is not None:
        rules = state.rules.instances.take(np.array([index]))
        yield from (figures.tobytes() for figures in (rules.choice, rules.distances, rules.sets))


def _dealt(state: State, members: Sequence[int], goals: Mapping[int, NodePair]) -> dict[int, NodePair]:
    """Deal the goals of some instances anew, the shortest way first."""
    owners: dict[int, list[int]] = {}  # owners of goals, by the goals' nodes
    for index in members:
        for node in goals[index]:
            owners.setdefault(node, []).append(index)
    pairs = sorted(
        (_distance(state, index, goals[owner]), index, owner)
        for index in members
        for owner in {
            owner for node in (state.pnode[index], state.snode[index]) for owner in owners.get(int(node), ())
        }
    )
    owner_of: dict[int, int] = {}
    left = dict.fromkeys(members)
    for _, index, owner in pairs:
        if index not in owner_of and owner in left:
            owner_of[index] = owner
            del left[owner]
    owner_of |= zip((index for index in members if index not in owner_of), left, strict=True)
    return {index: goals[owner] for index, owner in owner_of.items()}
