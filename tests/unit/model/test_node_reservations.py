"""What administrators keep of nodes counts as if the node's own system used it."""

from dataclasses import replace

import numpy as np

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inconsistencies import missing_resources
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import classes_of_units
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

SLASH, DASH = (DesiredUnit(StorageType.LVM_VG, key) for key in ("a/b", "a-b"))
BOTH = cluster({"node1": 10_000, "node2": 10_000}, [instance("a", DiskTemplate.DRBD, "node1", "node2")])


def keeping(described: Cluster, **reserved: int) -> Cluster:
    """The cluster whose first node keeps so much of some classes."""
    kept = tuple((name, Inventory(0, amount)) for name, amount in reserved.items())
    return replace(described, nodes=(replace(described.nodes[0], inventories=kept), *described.nodes[1:]))


def test_memory_and_cpus_are_used_by_the_node() -> None:
    before, after = (derive(each) for each in (BOTH, keeping(BOTH, MEMORY_MB=512, VCPU=3)))
    assert (after.columns.n_mem - before.columns.n_mem).tolist() == [512, 0]
    assert (before.columns.unallocated - after.columns.unallocated).tolist() == [512, 0]
    assert (before.columns.f_mem_forth - after.columns.f_mem_forth).tolist() == [512, 0]
    assert (after.columns.x_mem == before.columns.x_mem).all()
    assert (after.columns.u_cpu - before.columns.u_cpu).tolist() == [3, 0]
    assert after.columns.shape == before.columns.shape
    assert missing_resources(after) == missing_resources(before)


def test_too_little_memory_for_peers_is_left() -> None:
    turned = replace(BOTH, instances=(replace(BOTH.instances[0], pnode="node2", snode="node1"),))
    assert not derive(turned).columns.fail_n1[0]
    assert derive(keeping(turned, MEMORY_MB=9_500)).columns.fail_n1[0]


def test_disk_of_the_only_unit() -> None:
    for key, name in (("", "CUSTOM_DISK_MIB_LVM_VG"), ("xenvg", "CUSTOM_DISK_MIB_LVM_VG_XENVG")):
        known = replace(BOTH, default_units=(DesiredUnit(StorageType.LVM_VG, key),))
        after = derive(keeping(known, **{name: 700}))
        assert (derive(known).columns.f_dsk - after.columns.f_dsk).tolist() == [700, 0], name
        assert missing_resources(after) == missing_resources(derive(known))


def test_disk_of_each_unit_that_a_node_has() -> None:
    storage = (Unit(SLASH, 5000, 4000), Unit(DASH, 5000, 4000))
    nodes = tuple(replace(node, storage=storage) for node in BOTH.nodes)
    told = replace(BOTH, nodes=nodes, instances=())
    state = derive(told)
    names = classes_of_units(state.units.local)  # the plain names of both are the same
    after = derive(keeping(told, **{names[DASH]: 700, "CUSTOM_DISK_MIB_LVM_VG_SSD": 9}))
    at = state.units.local.index(DASH)
    figure = f"f_dsk_{at}" if at else "f_dsk"
    assert getattr(after.columns, figure).tolist() == [3300, 4000]
    assert after.to_cluster() == after.cluster


def test_spindles_count_where_ganeti_counts_them() -> None:
    usual = derive(keeping(BOTH, CUSTOM_SPINDLES=2))
    assert (usual.columns.inst_spindles - derive(BOTH).columns.inst_spindles).tolist() == [2, 0]
    apart = replace(BOTH, nodes=tuple(replace(node, excl_stor=True, f_spindles=9) for node in BOTH.nodes))
    assert derive(keeping(apart, CUSTOM_SPINDLES=2)).columns.f_spindles.tolist() == [7, 9]


def test_to_cluster_returns_unreserved_figures() -> None:
    kept = keeping(BOTH, MEMORY_MB=512, VCPU=3, CUSTOM_SPINDLES=2, CUSTOM_DISK_MIB_LVM_VG=700)
    assert derive(kept).to_cluster() == kept


def test_without_inventories_nothing_is_reserved() -> None:
    before, after = derive(BOTH), derive(keeping(BOTH, VCPU=0))
    assert all(np.array_equal(*pair) for pair in zip(before.columns, after.columns, strict=True))
