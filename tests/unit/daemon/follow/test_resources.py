"""Resources of a cluster: what nodes and pools provide, what instances use."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.follow.desired_state import desired_state
from htoolsd.follow.resources import (
    CountingRules,
    DesiredProvider,
    cluster_resources,
    instance_use,
)
from htoolsd.store.records import Amounts, provider_uuid
from tests.support import by_hand

XEN, SSD = (DesiredUnit(StorageType.LVM_VG, key) for key in ("xenvg", "ssdvg"))
SAN = DesiredUnit(StorageType.EXT, "san")
HOME = DesiredUnit(StorageType.SHARED_FILE, "/srv/home")


def provided(cluster: Cluster, static: int = 0) -> dict[str, DesiredProvider]:
    """Return the providers of the cluster c1 by name."""
    found = desired_state(cluster, "c1", CountingRules(static)).providers
    for uuid, offer in found.items():
        assert uuid == offer.provider.uuid == provider_uuid(offer.provider.name)
    return {offer.provider.name: offer for offer in found.values()}


def node1(**facts: Any) -> DesiredProvider:
    """Return the provider of the only node."""
    return provided(by_hand.cluster({"node1": 10_000}, [], **facts))["c1/node1"]


def of_node1(**facts: Any) -> dict[str, Inventory]:
    """Return the inventories of a node that reports."""
    found = node1(**facts).inventories
    assert found is not None
    return dict(found)


def own_use(provider: DesiredProvider) -> Amounts:
    """Return what a node uses of itself."""
    assert provider.own_use is not None
    return provider.own_use.allocations[provider.provider.uuid]


class TestNodes:
    """A node is a provider of what Ganeti reports."""

    def test_node_has_memory_cpus_spindles_and_disk(self) -> None:
        found = node1(n_mem=500, n_cpu=2)
        assert (found.provider.name, found.provider.can_host, found.shared) == ("c1/node1", True, False)
        assert found.inventories == {
            "MEMORY_MB": Inventory(10_000),
            "VCPU": Inventory(64, allocation_ratio=4.0),
            "CUSTOM_SPINDLES": Inventory(64, allocation_ratio=32.0),
            "CUSTOM_DISK_MIB_LVM_VG": Inventory(900_000),
        }
        assert own_use(found) == {"MEMORY_MB": 500, "VCPU": 2}

    def test_ratios_are_those_of_the_group(self) -> None:
        policy = replace(DEFAULT_IPOLICY, vcpu_ratio=2.5, spindle_ratio=3.0)
        cluster = by_hand.cluster({"node1": 10_000}, [])
        cluster = replace(cluster, groups=(Group("group1", "uuid-1", ipolicy=policy),))
        found = provided(cluster)["c1/node1"].inventories or {}
        assert (found["VCPU"].capacity, found["CUSTOM_SPINDLES"].capacity) == (160, 192)

    def test_no_inventory_for_a_negative_ratio(self) -> None:
        group = Group("group1", "uuid-1", ipolicy=replace(DEFAULT_IPOLICY, vcpu_ratio=-1.0))
        cluster = replace(by_hand.cluster({"node1": 10_000}, []), groups=(group,))
        assert "VCPU" not in (provided(cluster)["c1/node1"].inventories or {})

    def test_spindles_of_exclusive_storage_have_ratio_1(self) -> None:
        assert of_node1(excl_stor=True)["CUSTOM_SPINDLES"] == Inventory(64)
        assert "CUSTOM_SPINDLES" not in of_node1(t_spindles=0)

    def test_silent_node_has_unknown_inventories(self) -> None:
        (found,) = provided(by_hand.cluster({"node1": 0}, [])).values()
        assert found.inventories is None

    def test_drained_node_keeps_its_inventories(self) -> None:
        assert of_node1(offline=True) == of_node1()

    def test_static_memory_replaces_that_of_kvm_nodes(self) -> None:
        cluster = by_hand.cluster({"node1": 10_000}, [], n_mem=7000, hypervisor="kvm")
        assert own_use(provided(cluster)["c1/node1"])["MEMORY_MB"] == 7000
        assert own_use(provided(cluster, 4096)["c1/node1"])["MEMORY_MB"] == 4096
        xen = by_hand.cluster({"node1": 10_000}, [], n_mem=7000, hypervisor="xen-pvm")
        assert own_use(provided(xen, 4096)["c1/node1"])["MEMORY_MB"] == 7000


class TestDisks:
    """A class for each local unit of the cluster, an inventory where the node has it."""

    def test_each_unit_has_a_class(self) -> None:
        units = (Unit(XEN, 1000, 10), Unit(SSD, 500, 0), Unit(HOME, 9000, 1))
        found = of_node1(storage=units)
        assert found["CUSTOM_DISK_MIB_LVM_VG_XENVG"] == Inventory(1000)
        assert found["CUSTOM_DISK_MIB_LVM_VG_SSDVG"] == Inventory(500)
        assert [name for name in found if "DISK" in name and "LVM_VG" not in name] == []

    def test_unit_of_size_0_has_no_class(self) -> None:
        assert "CUSTOM_DISK_MIB_LVM_VG_SSDVG" not in of_node1(storage=(Unit(XEN, 1000, 10), Unit(SSD, 0, 0)))

    def test_default_group_has_its_class_without_reported_units(self) -> None:
        cluster = replace(by_hand.cluster({"node1": 10_000}, []), default_units=(XEN,))
        assert "CUSTOM_DISK_MIB_LVM_VG_XENVG" in (provided(cluster)["c1/node1"].inventories or {})

    def test_colliding_unit_names_get_stable_classes(self) -> None:
        one, other = (DesiredUnit(StorageType.LVM_VG, key) for key in ("vg-a", "vg.a"))

        def disks(*units: DesiredUnit) -> dict[str, int]:
            found = of_node1(storage=tuple(Unit(each, len(each.key) + ord(each.key[2]), 0) for each in units))
            return {name: each.total for name, each in found.items() if "DISK" in name}

        assert disks(one, other) == disks(other, one)
        assert len(disks(one, other)) == 2
        assert all(name.startswith("CUSTOM_DISK_MIB_LVM_VG_VG_A_") for name in disks(one, other))


class TestPools:
    """A pool is a provider on which nothing can be hosted."""

    def cluster(self, *pools: Pool) -> Cluster:
        row = by_hand.instance("web1", DiskTemplate.EXT, "node1")
        row = replace(row, disks=(Disk(1024, unit=SAN),))
        return replace(by_hand.cluster({"node1": 10_000}, [row]), pools=pools)

    def test_pool_of_unknown_size_has_no_inventory(self) -> None:
        found = provided(self.cluster())["c1/ext/san"]
        assert not found.provider.can_host
        assert found.inventories == {}

    def test_configured_pool_has_its_size_less_its_reservation(self) -> None:
        found = provided(self.cluster(Pool(SAN, 1000, 100)))["c1/ext/san"]
        assert found.inventories == {"CUSTOM_DISK_MIB_POOL": Inventory(900)}
        assert not found.shared

    def test_shared_pool_has_the_configured_name(self) -> None:
        found = provided(self.cluster(Pool(SAN, 1000, provider="san.example.org")))
        assert "c1/ext/san" not in found
        assert found["san.example.org"].inventories == {"CUSTOM_DISK_MIB_POOL": Inventory(1000)}
        assert found["san.example.org"].shared

    def test_smallest_reported_size_counts(self) -> None:
        cluster = by_hand.cluster({"node1": 10_000, "node2": 10_000}, [])
        nodes = tuple(
            replace(node, storage=(Unit(HOME, total, 5),))
            for node, total in zip(cluster.nodes, (700, 600), strict=True)
        )
        found = provided(replace(cluster, nodes=nodes, pools=(Pool(HOME, 50),)))["c1/sharedfile//srv/home"]
        assert found.inventories == {"CUSTOM_DISK_MIB_POOL": Inventory(600)}


SIZES = {"node1": 10_000, "node2": 10_000}
UNNAMED = "CUSTOM_DISK_MIB_LVM_VG"


def used(row: Instance, cluster: Cluster | None = None) -> dict[str, Any]:
    """Return what an instance of the cluster c1 uses, by the names of providers."""
    cluster = cluster or by_hand.cluster(SIZES, [row])
    names = {provider_uuid(f"c1/{name}"): name for name in (*SIZES, "ext/san")}
    return {
        names[uuid]: dict(each) for uuid, each in instance_use(row, cluster_resources(cluster, "c1")).items()
    }


def drbd(**facts: Any) -> Instance:
    """A mirrored instance on both nodes."""
    return by_hand.instance("web1", DiskTemplate.DRBD, "node1", "node2", **facts)


BOTH = {"CUSTOM_SPINDLES": 1, UNNAMED: 1024}


def test_instance_uses_memory_of_primary_and_disks_of_both() -> None:
    assert used(drbd()) == {"node1": {"MEMORY_MB": 1000, "VCPU": 1} | BOTH, "node2": BOTH}


@pytest.mark.parametrize("status", Status)
def test_memory_counts_by_status(status: Status) -> None:
    found = used(drbd(status=status))["node1"]
    assert ("MEMORY_MB" in found) == status.uses_memory
    assert ("VCPU" in found) == (status is not Status.OFFLINE)


def test_forthcoming_instance_uses_its_future_resources() -> None:
    assert used(drbd(forthcoming=True, status=Status.DOWN)) == used(drbd())


def test_custom_classes_count_on_the_primary() -> None:
    found = used(drbd(tags=("htools:resource:CUSTOM_GPU:2", "other")))
    assert found["node1"]["CUSTOM_GPU"] == 2
    assert found["node2"] == BOTH
    assert (
        "CUSTOM_GPU" not in used(drbd(tags=("htools:resource:CUSTOM_GPU:2",), status=Status.OFFLINE))["node1"]
    )


def test_disks_count_by_unit_on_nodes_with_the_unit() -> None:
    row = replace(drbd(), disks=(Disk(300, unit=XEN), Disk(200, unit=SSD)))
    cluster = by_hand.cluster(SIZES, [row])
    storage = ((Unit(XEN, 9000, 0), Unit(SSD, 9000, 0)), (Unit(XEN, 9000, 0),))
    nodes = tuple(replace(node, storage=units) for node, units in zip(cluster.nodes, storage, strict=True))
    found = used(row, replace(cluster, nodes=nodes))
    assert found["node1"]["CUSTOM_DISK_MIB_LVM_VG_XENVG"] == 428
    assert found["node1"]["CUSTOM_DISK_MIB_LVM_VG_SSDVG"] == 328
    assert found["node2"] == {"CUSTOM_SPINDLES": 1, "CUSTOM_DISK_MIB_LVM_VG_XENVG": 428}


def test_spindles_of_disks_count_with_exclusive_storage() -> None:
    row = replace(drbd(), disks=(Disk(1024, 3),), spindle_use=7)
    exclusive = by_hand.cluster(SIZES, [row], excl_stor=True)
    assert used(row, exclusive)["node2"]["CUSTOM_SPINDLES"] == 3
    assert used(row)["node2"]["CUSTOM_SPINDLES"] == 7
    untold = replace(row, disks=(Disk(1024),))
    assert "CUSTOM_SPINDLES" not in used(untold, by_hand.cluster(SIZES, [untold], excl_stor=True))["node2"]


def test_disks_of_pools_count_on_the_pool() -> None:
    row = by_hand.instance("web1", DiskTemplate.EXT, "node1")
    row = replace(row, disks=(Disk(700, unit=SAN), Disk(300, unit=SAN)), dsk=1000)
    assert used(row) == {"node1": {"MEMORY_MB": 1000, "VCPU": 1}, "ext/san": {"CUSTOM_DISK_MIB_POOL": 1000}}
    assert used(row, by_hand.cluster(SIZES, []))["ext/san"] == {"CUSTOM_DISK_MIB_POOL": 1000}


def test_diskless_offline_instance_uses_nothing() -> None:
    assert used(by_hand.instance("web1", DiskTemplate.DISKLESS, "node1", status=Status.OFFLINE)) == {}
