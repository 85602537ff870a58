"""Changes of the nodes that instances leave."""

import numpy as np
import pytest

from ganeti_htools.engine.balancing.effects import Effect
from ganeti_htools.engine.balancing.own_nodes import OwnNodes
from ganeti_htools.engine.rules.components import INDEX
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.searches import searching

DRBD = DiskTemplate.DRBD
ALL = np.ones(2, np.bool_)


def test_effects_of_both_nodes_are_put_together() -> None:
    own = OwnNodes(2, 3)
    first = Effect({0: (np.array([1.0, 2.0]), np.array([1.0, 4.0]))}, 0.5)
    second = Effect({1: (np.array([-1.0, 0.0]), np.array([3.0, 0.0]))}, np.array([1.0, 2.0]))
    own.put(np.array([2, 0]), [first, second], ALL, np.array([True, False]))
    assert own.changes.tolist() == [[2, 0, 1], [0, 0, -1]]
    assert own.squares.tolist() == [[4, 0, 1], [0, 0, 3]]
    assert own.rest.tolist() == [2.5, 0, 1.5]
    assert own.free.tolist() == [False, False, True]


def test_bounds_cover_members_that_may_go() -> None:
    own = OwnNodes(1, 2)
    effect = Effect({0: (np.array([3.0, -9.0]), np.array([5.0, 99.0]))}, 0.0)
    own.put(np.array([0, 1]), [effect], ALL, np.array([True, False]))
    # Squares about a mean of 1: 5 - 2 * 3, of two nodes.
    assert [each.tolist() for each in own.bounds(np.array([1.0]), np.array([2.0]))] == [[-0.5], [-0.5], [3.0]]
    own.put(np.array([0, 1]), [effect], ALL, ALL)
    assert [each.tolist() for each in own.bounds(np.array([1.0]), np.array([2.0]))] == [[-0.5], [58.5], [9.0]]


def test_changes_of_a_replaced_primary() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n1", "n0", mem=2000)]
    state = derive(by_hand.cluster({f"n{number}": 10_000 for number in range(4)}, rows))
    search = searching(state)
    memory = search.space.parts.leaders.index(INDEX["free_mem_cv"])
    own = search.own[0].kinds
    # The new primary is not among their own nodes; a new secondary changes no memory.
    assert own[MoveKind.REPLACE_PRIMARY].changes[memory] == pytest.approx([0.1, 0.2])
    assert own[MoveKind.REPLACE_SECONDARY].changes[memory] == pytest.approx([0, 0])
    assert own[MoveKind.FAILOVER].changes[memory] == pytest.approx([0, 0])
    assert own[MoveKind.FAILOVER].free.all()
