import numpy as np

from ganeti_htools.engine.redundancy.health import bad_instances, bad_nodes
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT


def state_of(*more: Instance) -> State:
    """A cluster whose second node has not enough memory for ``a``."""
    full = instance("a", DRBD, "n0", "n1", mem=6000), instance("b", EXT, "n1", mem=6000)
    return derive(by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, (*full, *more)))


def test_a_secondary_without_memory_for_its_primaries_is_bad() -> None:
    state = state_of()
    everyone = np.ones(3, np.bool_)
    assert bad_nodes(state, everyone).tolist() == [False, True, False]
    assert bad_instances(state, everyone).tolist() == [True, True]


def test_only_nodes_in_scope_count() -> None:
    state = state_of()
    scope = np.array([True, False, True])
    assert not bad_nodes(state, scope).any()
    assert not bad_instances(state, scope).any()


def test_nodes_that_are_offline_do_not_count() -> None:
    state = state_of()
    state.columns.offline[1] = True
    assert not bad_nodes(state, np.ones(3, np.bool_)).any()


def test_instances_without_secondary_and_forthcoming_ones() -> None:
    """No secondary is row -1, which must not be taken for the last node."""
    full = instance("c", DRBD, "n0", "n2", mem=3000), instance("d", EXT, "n2", mem=9000)
    state = state_of(*full, instance("e", EXT, "n0", mem=100), instance("f", EXT, "n2", forthcoming=True))
    everyone = np.ones(3, np.bool_)
    assert bad_nodes(state, everyone).tolist() == [False, True, True]
    assert bad_instances(state, everyone).tolist() == [True, True, True, True, False, False]
