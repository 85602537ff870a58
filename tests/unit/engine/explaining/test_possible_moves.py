"""All moves of an instance that options allow are told of, with what they do."""

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import Balancing
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

INSTANCES = [
    instance("drbd", DiskTemplate.DRBD, "a", "b"),
    instance("ext", DiskTemplate.EXT, "a"),
    instance("plain", DiskTemplate.PLAIN, "a"),
]
STATE = derive(cluster({"a": 10_000, "b": 10_000, "c": 10_000, "d": 500}, INSTANCES))
EVERYONE = np.ones(4, np.bool_)


def test_moves_of_a_mirrored_instance() -> None:
    found = possible_moves(STATE, EVERYONE, 0, Balancing())
    failover, *others = found
    assert (failover.kind, failover.node, failover.pnode, failover.snode) == (
        MoveKind.FAILOVER,
        NOWHERE,
        1,
        0,
    )
    kinds = {kind for kind in MoveKind if kind.mirrored and kind.takes_node}
    for row in (2, 3):
        assert {move.kind for move in others if move.node == row} == kinds
    for move in others:
        assert {move.pnode, move.snode} >= {move.node}
        assert (move.fail is Fail.MEM) == (move.node == 3)


@pytest.mark.parametrize(
    ("index", "options", "expected"),
    [
        (0, Balancing(disk_moves=False), {MoveKind.FAILOVER}),
        (0, Balancing(instance_moves=False, disk_moves=False), set()),
        (1, Balancing(disk_moves=False), {MoveKind.FAILOVER_TO}),
        (2, Balancing(), set()),
    ],
)
def test_only_moves_that_the_options_allow(index: int, options: Balancing, expected: set[MoveKind]) -> None:
    assert {move.kind for move in possible_moves(STATE, EVERYONE, index, options)} == expected


def test_only_nodes_in_scope() -> None:
    found = possible_moves(STATE, np.array([True, True, True, False]), 1, Balancing())
    assert [move.node for move in found] == [1, 2]
