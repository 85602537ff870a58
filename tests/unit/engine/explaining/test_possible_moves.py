"""Explanations of all moves of an instance that the options allow."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.explaining.possible_moves import PossibleMove, possible_moves
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

INSTANCES = [
    instance("drbd", DiskTemplate.DRBD, "a", "b"),
    instance("ext", DiskTemplate.EXT, "a"),
    instance("plain", DiskTemplate.PLAIN, "a"),
]
STATE = derive(cluster({"a": 10_000, "b": 10_000, "c": 10_000, "d": 500}, INSTANCES))
EVERYONE = np.ones(4, np.bool_)


def moves_of(index: int, options: BalancingOptions, scope: Bools = EVERYONE) -> list[PossibleMove]:
    (found,) = possible_moves(STATE, scope, np.arange(len(INSTANCES)) == index, options).values()
    return found


def test_moves_of_a_mirrored_instance() -> None:
    found = moves_of(0, BalancingOptions())
    failover, *others = found
    assert (failover.kind, failover.node, failover.place.pnode, failover.place.snode) == (
        MoveKind.FAILOVER,
        NOWHERE,
        1,
        0,
    )
    kinds = {kind for kind in MoveKind if kind.mirrored and kind.takes_node}
    for row in (2, 3):
        assert {move.kind for move in others if move.node == row} == kinds
    for move in others:
        assert {move.place.pnode, move.place.snode} >= {move.node}
        assert move.place.why == ("FailMem" if move.node == 3 else "")


@pytest.mark.parametrize(
    ("index", "options", "expected"),
    [
        (0, BalancingOptions(disk_moves=False), {MoveKind.FAILOVER}),
        (0, BalancingOptions(instance_moves=False, disk_moves=False), set()),
        (1, BalancingOptions(disk_moves=False), {MoveKind.FAILOVER_TO}),
        (2, BalancingOptions(), set()),
    ],
)
def test_only_moves_that_the_options_allow(
    index: int, options: BalancingOptions, expected: set[MoveKind]
) -> None:
    assert {move.kind for move in moves_of(index, options)} == expected


def test_only_nodes_in_scope() -> None:
    found = moves_of(1, BalancingOptions(), np.array([True, True, True, False]))
    assert [move.node for move in found] == [1, 2]


def test_moves_of_several_instances() -> None:
    found = possible_moves(STATE, EVERYONE, np.array([False, True, True]), BalancingOptions())
    assert found == {1: moves_of(1, BalancingOptions()), 2: []}


@pytest.mark.parametrize("offline", ["c", "abcd"])
def test_moves_when_no_score_is_a_number(offline: str) -> None:
    """Node c reports no memory. Other components are explained nevertheless."""
    nodes = [
        replace(node, offline=node.name in offline, t_mem=0.0 if node.name == "c" else node.t_mem)
        for node in STATE.cluster.nodes
    ]
    state = derive(replace(STATE.cluster, nodes=tuple(nodes)))
    found = possible_moves(state, EVERYONE, np.array([True, True, False]), BalancingOptions())
    assert {move.node for moves in found.values() for move in moves} == (
        {NOWHERE, 1, 3} if offline == "c" else set()
    )
