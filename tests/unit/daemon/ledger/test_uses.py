from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.ledger.records import provider_uuid
from htoolsd.ledger.resources import cluster_resources, instance_use
from tests.support import by_hand

XEN, SSD = (DesiredUnit(StorageType.LVM_VG, key) for key in ("xenvg", "ssdvg"))
SAN = DesiredUnit(StorageType.EXT, "san")
SIZES = {"node1": 10_000, "node2": 10_000}
UNNAMED = "CUSTOM_DISK_MIB_LVM_VG"


def used(row: Instance, cluster: Cluster | None = None) -> dict[str, Any]:
    """What an instance of the cluster c1 uses, by the names of providers."""
    cluster = cluster or by_hand.cluster(SIZES, [row])
    names = {provider_uuid(f"c1/{name}"): name for name in (*SIZES, "ext/san")}
    return {
        names[uuid]: dict(each) for uuid, each in instance_use(row, cluster_resources(cluster, "c1")).items()
    }


def drbd(**facts: Any) -> Instance:
    """A mirrored instance on both nodes."""
    return by_hand.instance("web1", DiskTemplate.DRBD, "node1", "node2", **facts)


BOTH = {"CUSTOM_SPINDLES": 1, UNNAMED: 1024}


def test_memory_and_cpus_of_the_primary_disks_of_both() -> None:
    assert used(drbd()) == {"node1": {"MEMORY_MB": 1000, "VCPU": 1} | BOTH, "node2": BOTH}


@pytest.mark.parametrize("status", Status)
def test_memory_of_those_that_use_it(status: Status) -> None:
    found = used(drbd(status=status))["node1"]
    assert ("MEMORY_MB" in found) == status.uses_memory
    assert ("VCPU" in found) == (status is not Status.OFFLINE)


def test_a_forthcoming_one_uses_what_it_is_going_to() -> None:
    assert used(drbd(forthcoming=True, status=Status.DOWN)) == used(drbd())


def test_custom_classes_of_the_primary() -> None:
    found = used(drbd(tags=("htools:resource:CUSTOM_GPU:2", "other")))
    assert found["node1"]["CUSTOM_GPU"] == 2
    assert found["node2"] == BOTH
    assert (
        "CUSTOM_GPU" not in used(drbd(tags=("htools:resource:CUSTOM_GPU:2",), status=Status.OFFLINE))["node1"]
    )


def test_disks_by_unit_on_each_node_that_has_it() -> None:
    row = replace(drbd(), disks=(Disk(300, unit=XEN), Disk(200, unit=SSD)))
    cluster = by_hand.cluster(SIZES, [row])
    storage = ((Unit(XEN, 9000, 0), Unit(SSD, 9000, 0)), (Unit(XEN, 9000, 0),))
    nodes = tuple(replace(node, storage=units) for node, units in zip(cluster.nodes, storage, strict=True))
    found = used(row, replace(cluster, nodes=nodes))
    assert found["node1"]["CUSTOM_DISK_MIB_LVM_VG_XENVG"] == 428
    assert found["node1"]["CUSTOM_DISK_MIB_LVM_VG_SSDVG"] == 328
    assert found["node2"] == {"CUSTOM_SPINDLES": 1, "CUSTOM_DISK_MIB_LVM_VG_XENVG": 428}


def test_of_exclusive_storage_the_spindles_of_the_disks() -> None:
    row = replace(drbd(), disks=(Disk(1024, 3),), spindle_use=7)
    exclusive = by_hand.cluster(SIZES, [row], excl_stor=True)
    assert used(row, exclusive)["node2"]["CUSTOM_SPINDLES"] == 3
    assert used(row)["node2"]["CUSTOM_SPINDLES"] == 7
    untold = replace(row, disks=(Disk(1024),))
    assert "CUSTOM_SPINDLES" not in used(untold, by_hand.cluster(SIZES, [untold], excl_stor=True))["node2"]


def test_disks_of_pools_are_on_the_pool() -> None:
    row = by_hand.instance("web1", DiskTemplate.EXT, "node1")
    row = replace(row, disks=(Disk(700, unit=SAN), Disk(300, unit=SAN)), dsk=1000)
    assert used(row) == {"node1": {"MEMORY_MB": 1000, "VCPU": 1}, "ext/san": {"CUSTOM_DISK_MIB_POOL": 1000}}
    assert used(row, by_hand.cluster(SIZES, []))["ext/san"] == {"CUSTOM_DISK_MIB_POOL": 1000}


def test_who_uses_nothing_is_nowhere() -> None:
    assert used(by_hand.instance("web1", DiskTemplate.DISKLESS, "node1", status=Status.OFFLINE)) == {}
