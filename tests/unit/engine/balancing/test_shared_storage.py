import numpy as np
import pytest

from ganeti_htools.engine.balancing import shared_storage
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.shared_instances import SharedInstances, shared_instances
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

EXT = DiskTemplate.EXT
SIZES = {"n0": 9000, "n1": 9000}


def everything(state: State) -> SharedInstances:
    found = shared_instances(state, np.ones(len(state.pnode), np.bool_))
    assert found is not None
    return found


def test_no_instances() -> None:
    state = derive(by_hand.cluster(SIZES, [instance("a", DiskTemplate.PLAIN, "n0")]))
    found = shared_instances(state, np.ones(1, np.bool_))
    assert found is not None
    assert len(found.rows) == 0
    after, steps = shared_storage.rebalance_shared(state, np.ones(2, np.bool_), found)
    assert not steps
    assert after.pnode.tolist() == [0]


def test_one_of_two_goes_to_the_empty_node() -> None:
    state = derive(by_hand.cluster(SIZES, [instance("a", EXT, "n0"), instance("b", EXT, "n0")]))
    everywhere = np.ones(2, np.bool_)
    after, (step,) = shared_storage.rebalance_shared(state, everywhere, everything(state))
    assert (step.instance, step.node, step.nodes) == (0, 1, (1,))
    assert after.pnode.tolist() == [1, 0]
    assert after.columns.primaries.tolist() == [1, 1]
    assert step.score == pytest.approx(score_of(after, everywhere), abs=1e-9)
    assert state.pnode.tolist() == [0, 0]


def test_instances_on_offline_nodes_go_first() -> None:
    rows = [instance("a", EXT, "n0"), instance("b", EXT, "n0"), instance("c", EXT, "n2")]
    state = derive(by_hand.cluster(SIZES | {"n2": 9000}, rows))
    state.columns.offline[2] = True
    _, steps = shared_storage.rebalance_shared(state, np.ones(3, np.bool_), everything(state))
    assert [(step.instance, step.node) for step in steps] == [(2, 1)]
