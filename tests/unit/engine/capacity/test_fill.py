"""Many equal instances put on nodes, one after the other."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.fill import fill
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

NEW = replace(instance("new", DiskTemplate.EXT, ""), mem=1_000)
DRBD = replace(NEW, template=DiskTemplate.DRBD)


def two_nodes() -> State:
    """One instance runs on a."""
    return derive(cluster({"a": 3_500, "b": 3_500}, [instance("first", DiskTemplate.EXT, "a")]))


def test_until_none_fits() -> None:
    state = two_nodes()
    filled = fill(state, NEW, np.arange(2))
    assert filled.placed == 5
    assert sorted(state.pnode.tolist()) == [0, 0, 0, 1, 1, 1]
    assert {fail: number for fail, number in filled.failures.items() if number} == {Fail.MEM: 2}


def test_not_more_than_asked_for() -> None:
    state, told = two_nodes(), list[int]()
    filled = fill(state, NEW, np.arange(2), limit=2, progress=told.append)
    assert (filled.placed, told) == (2, [1, 2])
    assert not any(filled.failures.values())  # one more would fit on either node
    assert fill(state, NEW, np.arange(2), limit=0).placed == 0


def test_only_on_the_nodes_given() -> None:
    state = two_nodes()
    assert fill(state, NEW, np.array([1])).placed == 3
    assert state.pnode.tolist() == [0, 1, 1, 1]


def test_instances_get_numbers_and_come_last() -> None:
    state = two_nodes()
    fill(state, NEW, np.arange(2), first=7, limit=2)
    names = [row.name for row in state.cluster.instances]
    assert names == ["first", "new-7", "new-8"]
    assert state.stamp.argsort().tolist() == [0, 1, 2]
    assert state.snode.tolist() == [NOWHERE] * 3


@pytest.mark.parametrize("row", [NEW, DRBD])
def test_the_state_is_that_of_the_cluster_then(row: Instance) -> None:
    state = two_nodes()
    filled = fill(state, row, np.arange(2), limit=2)
    assert filled.placed == 2
    again = derive(state.to_cluster())
    for name in ("i_mem", "f_dsk", "u_cpu", "r_mem", "fail_n1", "primaries", "secondaries"):
        assert getattr(state.columns, name).tolist() == getattr(again.columns, name).tolist(), name
    assert np.array_equal(state.peers, again.peers)


@pytest.mark.parametrize(("mem", "placed"), [(500, 762), (1_000, 652)])
def test_two_nodes_become_equal_while_they_keep_different_amounts_for_others(mem: int, placed: int) -> None:
    """The placement that makes them equal needs figures of both as secondaries of different primaries."""
    state = derive(simu.parse(["p,6,1t,128g,32,64"]))
    assert fill(state, replace(DRBD, mem=mem), np.arange(6)).placed == placed
    assert np.array_equal(state.columns.r_mem, state.peers.max(axis=0))
