from dataclasses import replace
from typing import Any

from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from htoolsd.ledger.desired_state import desired_state
from htoolsd.ledger.records import provider_uuid
from htoolsd.ledger.resources import DesiredProvider
from tests.support import by_hand

XEN, SSD = (DesiredUnit(StorageType.LVM_VG, key) for key in ("xenvg", "ssdvg"))
SAN = DesiredUnit(StorageType.EXT, "san")
HOME = DesiredUnit(StorageType.SHARED_FILE, "/srv/home")


def offers(cluster: Cluster, static: int = 0) -> dict[str, DesiredProvider]:
    """What the cluster c1 offers, by the names of providers."""
    found = desired_state(cluster, "c1", static).providers
    for uuid, offer in found.items():
        assert uuid == offer.provider.uuid == provider_uuid(offer.provider.name)
    return {offer.provider.name: offer for offer in found.values()}


def node1(**facts: Any) -> DesiredProvider:
    """What a node offers that is the only one."""
    return offers(by_hand.cluster({"node1": 10_000}, [], **facts))["c1/node1"]


def of_node1(**facts: Any) -> dict[str, Inventory]:
    """The inventories of a node that tells them."""
    found = node1(**facts).inventories
    assert found is not None
    return dict(found)


class TestNodes:
    """A node is a provider, of what Ganeti tells of it."""

    def test_what_it_has(self) -> None:
        found = node1(n_mem=500, n_cpu=2)
        assert (found.provider.name, found.provider.can_host, found.shared) == ("c1/node1", True, False)
        assert found.inventories == {
            "MEMORY_MB": Inventory(10_000),
            "VCPU": Inventory(64, allocation_ratio=4.0),
            "CUSTOM_SPINDLES": Inventory(64, allocation_ratio=32.0),
            "CUSTOM_DISK_MIB_LVM_VG": Inventory(900_000),
        }
        assert found.own_use == {"MEMORY_MB": 500, "VCPU": 2}

    def test_ratios_are_those_of_its_group(self) -> None:
        policy = replace(DEFAULT_IPOLICY, vcpu_ratio=2.5, spindle_ratio=3.0)
        cluster = by_hand.cluster({"node1": 10_000}, [])
        cluster = replace(cluster, groups=(Group("group1", "uuid-1", ipolicy=policy),))
        found = offers(cluster)["c1/node1"].inventories or {}
        assert (found["VCPU"].capacity, found["CUSTOM_SPINDLES"].capacity) == (160, 192)

    def test_a_ratio_below_0_limits_nothing(self) -> None:
        group = Group("group1", "uuid-1", ipolicy=replace(DEFAULT_IPOLICY, vcpu_ratio=-1.0))
        cluster = replace(by_hand.cluster({"node1": 10_000}, []), groups=(group,))
        assert "VCPU" not in (offers(cluster)["c1/node1"].inventories or {})

    def test_spindles_of_exclusive_storage_are_used_once(self) -> None:
        assert of_node1(excl_stor=True)["CUSTOM_SPINDLES"] == Inventory(64)
        assert "CUSTOM_SPINDLES" not in of_node1(t_spindles=0)

    def test_what_does_not_report_is_not_known(self) -> None:
        (found,) = offers(by_hand.cluster({"node1": 0}, [])).values()
        assert found.inventories is None

    def test_a_drained_node_goes_on_having_what_it_has(self) -> None:
        assert of_node1(offline=True) == of_node1()

    def test_of_kvm_the_memory_of_the_node_itself_may_be_given(self) -> None:
        cluster = by_hand.cluster({"node1": 10_000}, [], n_mem=7000, hypervisor="kvm")
        assert offers(cluster)["c1/node1"].own_use["MEMORY_MB"] == 7000
        assert offers(cluster, 4096)["c1/node1"].own_use["MEMORY_MB"] == 4096
        xen = by_hand.cluster({"node1": 10_000}, [], n_mem=7000, hypervisor="xen-pvm")
        assert offers(xen, 4096)["c1/node1"].own_use["MEMORY_MB"] == 7000


class TestDisks:
    """A class for each local unit of the cluster, an inventory where the node has it."""

    def test_units(self) -> None:
        units = (Unit(XEN, 1000, 10), Unit(SSD, 500, 0), Unit(HOME, 9000, 1))
        found = of_node1(storage=units)
        assert found["CUSTOM_DISK_MIB_LVM_VG_XENVG"] == Inventory(1000)
        assert found["CUSTOM_DISK_MIB_LVM_VG_SSDVG"] == Inventory(500)
        assert [name for name in found if "DISK" in name and "LVM_VG" not in name] == []

    def test_a_unit_of_size_0_is_none(self) -> None:
        assert "CUSTOM_DISK_MIB_LVM_VG_SSDVG" not in of_node1(storage=(Unit(XEN, 1000, 10), Unit(SSD, 0, 0)))

    def test_while_no_node_tells_units_the_default_group_has_its_name_all_the_same(self) -> None:
        cluster = replace(by_hand.cluster({"node1": 10_000}, []), default_units=(XEN,))
        assert "CUSTOM_DISK_MIB_LVM_VG_XENVG" in (offers(cluster)["c1/node1"].inventories or {})

    def test_units_whose_names_collide_are_told_apart_whatever_their_order(self) -> None:
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

    def test_one_whose_room_is_not_told_has_no_inventory(self) -> None:
        found = offers(self.cluster())["c1/ext/san"]
        assert not found.provider.can_host
        assert found.inventories == {}

    def test_the_room_of_the_configuration_less_what_that_reserves(self) -> None:
        found = offers(self.cluster(Pool(SAN, 1000, 100)))["c1/ext/san"]
        assert found.inventories == {"CUSTOM_DISK_MIB_POOL": Inventory(900)}
        assert not found.shared

    def test_a_shared_one_has_the_name_of_the_configuration(self) -> None:
        found = offers(self.cluster(Pool(SAN, 1000, provider="san.example.org")))
        assert "c1/ext/san" not in found
        assert found["san.example.org"].inventories == {"CUSTOM_DISK_MIB_POOL": Inventory(1000)}
        assert found["san.example.org"].shared

    def test_of_the_figures_of_nodes_the_least_counts(self) -> None:
        cluster = by_hand.cluster({"node1": 10_000, "node2": 10_000}, [])
        nodes = tuple(
            replace(node, storage=(Unit(HOME, total, 5),))
            for node, total in zip(cluster.nodes, (700, 600), strict=True)
        )
        found = offers(replace(cluster, nodes=nodes, pools=(Pool(HOME, 50),)))["c1/sharedfile//srv/home"]
        assert found.inventories == {"CUSTOM_DISK_MIB_POOL": Inventory(600)}
