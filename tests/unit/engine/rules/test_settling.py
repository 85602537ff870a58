"""A placement carried out changes the state to the one that would be derived afterwards."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.tags import demand
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

NODES = dict.fromkeys("abc", 10_000)
EVERYWHERE = np.ones(3, np.bool_)


def test_loads_that_were_equal_are_counted_apart_after_an_instance_with_different_loads() -> None:
    load = Load(cpu=1, mem=2, dsk=3, net=4)
    old, new = instance("old", DiskTemplate.EXT, "a"), instance("new", DiskTemplate.EXT, "c", load=load)
    state = derive(cluster(NODES, [old]))
    assert state.columns.aliases["load_mem"] == "load_cpu"
    requested = state.requested_instance(instance("new", DiskTemplate.EXT, "", load=load))
    settling.settle(state, placements.allocate_one(state, requested, np.arange(3), EVERYWHERE).only(2))
    expected = derive(cluster(NODES, [old, new])).columns
    for name in ("load_cpu", "load_mem", "load_dsk", "load_net"):
        assert getattr(state.columns, name).tolist() == getattr(expected, name).tolist(), name


def test_copy_has_its_own_reserves_once_an_instance_moves_there() -> None:
    described = cluster(
        NODES, [replace(instance("one", DiskTemplate.DRBD, "a", "b"), tags=(demand("CUSTOM_GPU", 2),))]
    )
    nodes = tuple(replace(node, inventories=(("CUSTOM_GPU", Inventory(8)),)) for node in described.nodes)
    state = derive(replace(described, nodes=nodes))
    other = state.copy()
    assert other.peers is state.peers
    settling.settle(other, move(other, other.instance(0), MoveKind.FAILOVER, None, EVERYWHERE).only(0))
    for before, after in ((state.peers, other.peers), (state.class_peers[0], other.class_peers[0])):
        assert np.argwhere(before).tolist() == [[0, 1]]
        assert np.argwhere(after).tolist() == [[1, 0]]


def test_instance_without_primary_is_mirrored_and_nowhere() -> None:
    state = derive(cluster(NODES, [instance("one", DiskTemplate.PLAIN, "a")]))
    off = settling.without_primary(state, 0)
    assert off.cluster.instances[0].template is DiskTemplate.DRBD
    assert off.columns.i_mem.tolist() == [0, 0, 0]
    assert state.cluster.instances[0].template is DiskTemplate.PLAIN
    assert state.columns.i_mem.tolist() == [1000, 0, 0]
