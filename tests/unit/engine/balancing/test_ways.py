from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.ways import NodePair, exchanged_goals, first_moves, goals_of, shortest
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT
NODES = {f"n{i}": 10_000 for i in range(6)}


def one(*lost: int) -> State:
    """A mirrored instance on n0 and n1, with 1000 MiB of memory and 1024 MiB of disk."""
    state = derive(by_hand.cluster(NODES, [instance("a", DRBD, "n0", "n1")]))
    state.columns.offline[list(lost)] = True
    return state


@pytest.mark.parametrize(
    ("goal", "kinds"),
    [
        ((1, 0), [(MoveKind.FAILOVER, NOWHERE)]),
        ((0, 2), [(MoveKind.REPLACE_SECONDARY, 2)]),
        ((2, 0), [(MoveKind.REPLACE_AND_FAILOVER, 2)]),
        ((1, 2), [(MoveKind.FAILOVER_AND_REPLACE, 2)]),
        ((2, 1), [(MoveKind.REPLACE_PRIMARY, 2)]),
    ],
)
def test_most_places_are_one_move_away(goal: NodePair, kinds: list[tuple[MoveKind, int]]) -> None:
    state = one()
    assert first_moves(state, (0, 1), goal) == kinds
    for kind, node in kinds:
        assert kind.nodes(0, 1, node) == goal


@pytest.mark.parametrize("lost", [(), (0,)])
def test_two_new_nodes_are_half_the_way_each(lost: tuple[int, ...]) -> None:
    state, goal = one(*lost), (2, 3)
    moves = first_moves(state, (0, 1), goal)
    assert len(moves) == 4
    for kind, node in moves:
        between = kind.nodes(0, 1, node)
        assert len(set(between) & set(goal)) == 1
        assert goal in [second.nodes(*between, new) for second, new in first_moves(state, between, goal)]
    # A lost primary is left at once.
    assert (0 in moves[0][0].nodes(0, 1, moves[0][1])) is not bool(lost)


def test_without_a_secondary_there_is_one_way() -> None:
    state = derive(by_hand.cluster(NODES, [instance("a", EXT, "n0")]))
    assert first_moves(state, (0, NOWHERE), (3, NOWHERE)) == [(MoveKind.FAILOVER_TO, 3)]
    assert shortest(state, {0: (3, NOWHERE)}) == (1000, 1)


def test_copied_data_of_the_shortest_ways() -> None:
    state = one()
    assert shortest(state, {}) == (0, 0)
    assert shortest(state, {0: (0, 1)}) == (0, 0)
    assert shortest(state, {0: (1, 0)}) == (1000, 1)
    assert shortest(state, {0: (0, 2)}) == (1024, 1)
    assert shortest(state, {0: (2, 3)}) == (1024 + 1000 + 1024, 2)


def test_goals_are_the_changed_places() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", EXT, "n2")]
    state = derive(by_hand.cluster(NODES, rows))
    moved = derive(by_hand.cluster(NODES, [replace(rows[0], snode="n4"), rows[1]]))
    assert goals_of(state, state) == {}
    assert goals_of(state, moved) == {0: (0, 4)}


def test_equal_instances_exchange_goals() -> None:
    rows = [
        instance("a", DRBD, "n0", "n1"),
        instance("b", DRBD, "n2", "n3"),
        instance("c", DRBD, "n0", "n1", mem=2000),
        instance("d", DRBD, "n4", "n3"),
    ]
    state = derive(by_hand.cluster({f"n{i}": 10_000 for i in range(6)}, rows))
    batches, _ = batches_of(state, np.ones(4, np.bool_))
    # Places of each other, of one that is larger, and of one that stays: only the first are exchanged.
    assert exchanged_goals(state, batches, {0: (2, 5), 1: (1, 0), 2: (4, 5)}) == {
        0: (1, 0),
        1: (2, 5),
        2: (4, 5),
    }
    near = {0: (1, 0), 1: (2, 5), 2: (0, 5)}
    assert exchanged_goals(state, batches, near) == near


MIGRATION = ("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new")


@pytest.mark.parametrize("ruled", [False, True])
def test_equal_instances_keep_goals_that_tags_forbid_to_others(ruled: bool) -> None:
    rows = [
        instance("a", DRBD, "n0", "n1"),
        instance("b", DRBD, "n2", "n3", tags=("htools:node:n2", "htools:node:n5") if ruled else ()),
    ]
    described = by_hand.cluster(NODES, rows)
    if not ruled:  # new nodes: n0, n1, n3; an instance on them does not go to old ones
        tags = {
            node.name: ("cpu:new" if node.name in ("n0", "n1", "n3") else "cpu:old",)
            for node in described.nodes
        }
        nodes = tuple(replace(node, tags=tags[node.name]) for node in described.nodes)
        described = replace(described, nodes=nodes, tags=MIGRATION)
    state = derive(described)
    batches, _ = batches_of(state, np.ones(2, np.bool_))
    goals = {0: (3, 2), 1: (5, 0)} if not ruled else {0: (3, 2), 1: (5, 2)}
    assert exchanged_goals(state, batches, goals) == goals
    free = derive(by_hand.cluster(NODES, [replace(row, tags=()) for row in rows]))
    batches, _ = batches_of(free, np.ones(2, np.bool_))
    assert exchanged_goals(free, batches, goals) == {0: goals[1], 1: goals[0]}
