from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.follow.desired_state import SyncedState, desired_state
from htoolsd.follow.diff import LedgerUpdater, diff
from htoolsd.follow.resources import CountingRules
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Consumer, LedgerChanges, consumer_uuid, provider_uuid
from tests.support import by_hand
from tests.support.ledgers import standing

SIZES = {"node1": 10_000, "node2": 10_000, "node3": 10_000}
SAN = DesiredUnit(StorageType.EXT, "san")
SSD = DesiredUnit(StorageType.LVM_VG, "ssdvg")
NOTHING = LedgerChanges()


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    made = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield made
    made.close()


def web(number: int, **facts: Any) -> Instance:
    """An instance on the first two nodes."""
    return by_hand.instance(f"web{number}", DiskTemplate.DRBD, "node1", "node2", **facts)


def cluster(*rows: Instance) -> Cluster:
    return by_hand.cluster(SIZES, rows)


def follow(ledger: Ledger, now: Cluster, name: str = "c1", synced: SyncedState | None = None) -> SyncedState:
    """Update the ledger, and check that nothing differs afterwards."""
    desired = desired_state(now, name, before=synced.desired if synced else None)
    before = ledger.refresh(synced.snapshot) if synced else ledger.snapshot()
    ledger.apply(diff(desired, before, synced))
    then = SyncedState(desired, ledger.refresh(before))
    assert then.snapshot == ledger.snapshot()
    assert diff(desired, then.snapshot, then) == NOTHING
    assert diff(desired, ledger.snapshot(), then) == NOTHING
    return then


def used(ledger: Ledger, name: str) -> dict[str, Mapping[str, int]]:
    """Return the allocations of a consumer, by the names of providers."""
    names = {each.uuid: each.name for each in ledger.providers()}
    found = ledger.snapshot().allocations.get(consumer_uuid(name), {})
    return {names[uuid]: amounts for uuid, amounts in found.items()}


def inventory(ledger: Ledger, provider: str, name: str) -> Inventory:
    return inventories(ledger, provider)[name]


def inventories(ledger: Ledger, provider: str) -> Mapping[str, Inventory]:
    return standing(ledger, provider_uuid(provider)).inventories


def administer(ledger: Ledger, provider: str, name: str, **figures: Any) -> None:
    """Set figures of a provider's inventory."""
    known = standing(ledger, provider_uuid(provider)).provider
    here = standing(ledger, known.uuid).inventories.get(name, Inventory(0))
    ledger.set_inventory(known.uuid, known.generation, name, replace(here, **figures))


def claim(ledger: Ledger, name: str, provider: str, promised: str | None = "{}", **amounts: int) -> None:
    """Claim amounts of a provider for a consumer."""
    consumer = Consumer(consumer_uuid(name), name, "instance" if promised else "claim", promised=promised)
    ledger.claim(consumer, {provider_uuid(provider): amounts}, {})


class TestChanges:
    """The first update writes the whole cluster, later ones only the changes."""

    def test_empty_ledger_gets_the_whole_cluster(self, ledger: Ledger) -> None:
        follow(ledger, cluster(web(1)))
        assert [each.name for each in ledger.providers()] == ["c1/node1", "c1/node2", "c1/node3"]
        assert inventory(ledger, "c1/node3", "MEMORY_MB") == Inventory(10_000)
        assert used(ledger, "c1/web1")["c1/node1"]["MEMORY_MB"] == 1000
        assert (
            standing(ledger, provider_uuid("c1/node1")).used["VCPU"] == 2
        )  # the instance's, and the node's own

    def test_changed_instance_touches_only_its_nodes(self, ledger: Ledger) -> None:
        synced = follow(ledger, cluster(web(1), web(2)))
        was = {each.name: each.generation for each in ledger.providers()}
        follow(ledger, cluster(web(1), web(2, mem=700)), synced=synced)
        now = {each.name: each.generation for each in ledger.providers()}
        assert [name for name in now if now[name] != was[name]] == ["c1/node1", "c1/node2"]
        assert all(now[name] >= was[name] for name in now)
        assert used(ledger, "c1/web2")["c1/node1"]["MEMORY_MB"] == 700

    def test_unchanged_cluster_writes_nothing(self, ledger: Ledger) -> None:
        now = cluster(web(1))
        synced = follow(ledger, now)
        again = desired_state(now, "c1", before=synced.desired)
        assert diff(again, ledger.snapshot(), synced) == NOTHING
        assert again.consumers[consumer_uuid("c1/web1")] is synced.desired.consumers[consumer_uuid("c1/web1")]

    def test_instance_without_use_is_no_consumer(self, ledger: Ledger) -> None:
        row = by_hand.instance("web1", DiskTemplate.DISKLESS, "node1")
        follow(ledger, cluster(row))
        follow(ledger, cluster(replace(row, status=Status.OFFLINE)))
        assert "c1/web1" not in [each.name for each in ledger.consumers()]

    def test_gone_and_renamed_nodes_are_updated(self, ledger: Ledger) -> None:
        follow(ledger, cluster(web(1)))
        follow(ledger, by_hand.cluster({"node1": 10_000, "node2": 10_000, "node4": 500}, [web(1)]))
        assert [each.name for each in ledger.providers()] == ["c1/node1", "c1/node2", "c1/node4"]
        assert inventory(ledger, "c1/node4", "MEMORY_MB") == Inventory(500)

    def test_silent_node_keeps_its_inventories(self, ledger: Ledger) -> None:
        follow(ledger, cluster())
        follow(ledger, by_hand.cluster(SIZES | {"node1": 0}, []))
        assert inventory(ledger, "c1/node1", "MEMORY_MB") == Inventory(10_000)
        assert standing(ledger, provider_uuid("c1/node1")).used == {"VCPU": 1}

    def test_storage_unit_is_added_and_removed(self, ledger: Ledger) -> None:
        row = replace(web(1), disks=(Disk(1000, unit=SSD),))
        one, *others = cluster(row).nodes
        told = replace(one, storage=(Unit(SSD, 5000, 9),))
        bare = replace(one, storage=())
        follow(ledger, replace(cluster(row), nodes=(told, *others)))
        assert inventory(ledger, "c1/node1", "CUSTOM_DISK_MIB_LVM_VG_SSDVG") == Inventory(5000)
        assert used(ledger, "c1/web1")["c1/node1"]["CUSTOM_DISK_MIB_LVM_VG_SSDVG"] == 1024
        follow(ledger, replace(cluster(row), nodes=(bare, *others)))
        assert "CUSTOM_DISK_MIB_LVM_VG_SSDVG" not in inventories(ledger, "c1/node1")
        assert "CUSTOM_DISK_MIB_LVM_VG_SSDVG" not in used(ledger, "c1/web1")["c1/node1"]


class TestAdministratorsFigures:
    """Totals and ratios are Ganeti's; all other figures stay."""

    def test_totals_and_ratios_return_to_ganetis(self, ledger: Ledger) -> None:
        follow(ledger, cluster())
        administer(ledger, "c1/node1", "VCPU", total=5, allocation_ratio=9.0, reserved=1)
        follow(ledger, cluster())
        assert inventory(ledger, "c1/node1", "VCPU") == Inventory(64, 1, allocation_ratio=4.0)

    def test_custom_class_stays_and_instances_use_it(self, ledger: Ledger) -> None:
        rows = [web(1, tags=("htools:resource:CUSTOM_GPU:1",))]
        follow(ledger, cluster(*rows))
        assert "CUSTOM_GPU" not in used(ledger, "c1/web1")["c1/node1"]  # nobody has it
        administer(ledger, "c1/node1", "CUSTOM_GPU", total=2)
        follow(ledger, cluster(*rows))
        assert inventory(ledger, "c1/node1", "CUSTOM_GPU") == Inventory(2)
        assert used(ledger, "c1/web1")["c1/node1"]["CUSTOM_GPU"] == 1

    def test_figures_of_a_missing_unit_hold_when_it_returns(self, ledger: Ledger) -> None:
        told = replace(cluster().nodes[0], storage=(Unit(SSD, 5000, 9),))
        here = replace(cluster(), nodes=(told,))
        follow(ledger, here)
        administer(ledger, "c1/node1", "CUSTOM_DISK_MIB_LVM_VG_SSDVG", reserved=700)
        follow(ledger, replace(cluster(), nodes=cluster().nodes[:1]))
        assert inventory(ledger, "c1/node1", "CUSTOM_DISK_MIB_LVM_VG_SSDVG") == Inventory(0, 700)
        follow(ledger, here)
        assert inventory(ledger, "c1/node1", "CUSTOM_DISK_MIB_LVM_VG_SSDVG") == Inventory(5000, 700)


class TestPromises:
    """Living promises are not changed."""

    def test_claimed_instance_keeps_its_promise(self, ledger: Ledger) -> None:
        synced = follow(ledger, cluster())
        claim(ledger, "c1/web1", "c1/node1", MEMORY_MB=1000)
        synced = follow(ledger, cluster(web(1, status=Status.DOWN)), synced=synced)
        assert used(ledger, "c1/web1") == {"c1/node1": {"MEMORY_MB": 1000}}
        ledger.release(*ledger.consumers(consumer_uuid("c1/web1")))
        follow(ledger, synced.desired.cluster, synced=synced)
        assert "MEMORY_MB" not in used(ledger, "c1/web1")["c1/node1"]

    def test_promise_to_a_missing_instance_stays(self, ledger: Ledger) -> None:
        follow(ledger, cluster())
        claim(ledger, "c1/web1", "c1/node1", MEMORY_MB=1000)
        claim(ledger, "somebody", "c1/node1", None, MEMORY_MB=1)
        follow(ledger, cluster())
        assert used(ledger, "c1/web1") == {"c1/node1": {"MEMORY_MB": 1000}}
        assert used(ledger, "somebody") == {"c1/node1": {"MEMORY_MB": 1}}

    def test_gone_node_stays_while_it_has_claims(self, ledger: Ledger) -> None:
        follow(ledger, cluster())
        claim(ledger, "c1/web1", "c1/node3", MEMORY_MB=1000)
        left = by_hand.cluster({"node1": 10_000, "node2": 10_000}, [])
        follow(ledger, left)
        assert used(ledger, "c1/web1") == {"c1/node3": {"MEMORY_MB": 1000}}
        ledger.release(*ledger.consumers(consumer_uuid("c1/web1")))
        follow(ledger, left)
        assert [each.name for each in ledger.providers()] == ["c1/node1", "c1/node2"]


class TestSeveralClusters:
    """Each cluster updates its own part; clusters share only pools of the same name."""

    def on_san(self, name: str, size: int, total: int) -> Cluster:
        row = by_hand.instance(name, DiskTemplate.EXT, "node1")
        row = replace(row, disks=(Disk(size, unit=SAN),), dsk=size)
        return replace(by_hand.cluster({"node1": 10_000}, [row]), pools=(Pool(SAN, total, 0, "san"),))

    def test_clusters_do_not_touch_each_other(self, ledger: Ledger) -> None:
        follow(ledger, cluster(web(1)), "c1")
        follow(ledger, cluster(web(1), web(2)), "c2")
        follow(ledger, cluster(), "c2")
        follow(ledger, cluster(web(1)), "c1")
        assert used(ledger, "c1/web1")["c1/node1"]["MEMORY_MB"] == 1000
        assert used(ledger, "c2/web1") == {}

    def test_pool_counts_the_use_of_both_clusters(self, ledger: Ledger) -> None:
        follow(ledger, self.on_san("web1", 100, 1000), "c1")
        follow(ledger, self.on_san("web1", 250, 1000), "c2")
        assert standing(ledger, provider_uuid("san")).used == {"CUSTOM_DISK_MIB_POOL": 350}
        assert inventory(ledger, "san", "CUSTOM_DISK_MIB_POOL") == Inventory(1000)

    def test_different_pool_sizes_are_not_written_endlessly(self, ledger: Ledger) -> None:
        one = follow(ledger, self.on_san("web1", 100, 1000), "c1")
        follow(ledger, self.on_san("web1", 250, 2000), "c2")
        same = desired_state(self.on_san("web1", 100, 1000), "c1", before=one.desired)
        assert diff(same, ledger.snapshot(), one) == NOTHING
        follow(ledger, self.on_san("web1", 100, 3000), "c1", one)
        assert inventory(ledger, "san", "CUSTOM_DISK_MIB_POOL") == Inventory(3000)


class TestTags:
    """Settings in tags of nodes win over those of the ledger."""

    def tagged(self, *tags: str, **changes: Any) -> Cluster:
        """A cluster whose first node has tags about inventories."""
        now = cluster()
        first = replace(now.nodes[0], tags=tuple(f"htools:inventory:{tag}" for tag in tags), **changes)
        return replace(now, nodes=(first, *now.nodes[1:]))

    def test_tag_is_written_to_an_empty_ledger(self, ledger: Ledger) -> None:
        follow(ledger, self.tagged("CUSTOM_GPU:4:1", "MEMORY_MB:-:100:2"))
        assert inventory(ledger, "c1/node1", "CUSTOM_GPU") == Inventory(4, 1, tagged=True)
        memory = inventory(ledger, "c1/node1", "MEMORY_MB")
        assert (memory.total, memory.reserved, memory.min_unit) == (int(cluster().nodes[0].t_mem), 100, 2)

    def test_tag_wins_over_the_ledger(self, ledger: Ledger) -> None:
        follow(ledger, cluster())
        administer(ledger, "c1/node1", "CUSTOM_GPU", total=2, max_unit=1)
        administer(ledger, "c1/node1", "VCPU", reserved=3, step_size=2)
        follow(ledger, self.tagged("CUSTOM_GPU:4", "VCPU:-:1"))
        assert inventory(ledger, "c1/node1", "CUSTOM_GPU") == Inventory(4, tagged=True)
        cpus = inventory(ledger, "c1/node1", "VCPU")
        assert (cpus.reserved, cpus.step_size) == (1, 1)

    def test_setting_ends_with_its_tag_although_the_ledger_had_been_away(self, ledger: Ledger) -> None:
        follow(ledger, self.tagged("CUSTOM_GPU:4", "MEMORY_MB:-:100"))
        follow(ledger, cluster())  # nothing is known of an earlier update
        assert "CUSTOM_GPU" not in inventories(ledger, "c1/node1")
        assert inventory(ledger, "c1/node1", "MEMORY_MB") == Inventory(int(cluster().nodes[0].t_mem))

    def test_setting_that_was_never_in_a_tag_is_kept(self, ledger: Ledger) -> None:
        follow(ledger, cluster())
        administer(ledger, "c1/node1", "CUSTOM_GPU", total=2)
        administer(ledger, "c1/node1", "MEMORY_MB", reserved=100)
        follow(ledger, self.tagged("CUSTOM_X:1"))
        assert inventory(ledger, "c1/node1", "CUSTOM_GPU") == Inventory(2)
        memory = inventory(ledger, "c1/node1", "MEMORY_MB")
        assert memory.reserved == 100

    def test_tag_of_a_node_that_does_not_report_counts(self, ledger: Ledger) -> None:
        synced = follow(ledger, cluster())
        memory = inventory(ledger, "c1/node1", "MEMORY_MB")
        follow(ledger, self.tagged("CUSTOM_GPU:4", "MEMORY_MB:-:9", t_mem=0.0), synced=synced)
        assert inventory(ledger, "c1/node1", "CUSTOM_GPU") == Inventory(4, tagged=True)
        assert inventory(ledger, "c1/node1", "MEMORY_MB") == replace(memory, reserved=9, tagged=True)

    def test_tag_of_a_pool_of_the_cluster_counts(self, ledger: Ledger) -> None:
        pools = (Pool(SAN, 1000),)
        follow(ledger, replace(cluster(), pools=pools, tags=("htools:inventory:ext/san:-:70",)))
        provider = "c1/ext/san"
        assert inventory(ledger, provider, "CUSTOM_DISK_MIB_POOL") == Inventory(1000, 70, tagged=True)
        follow(ledger, replace(cluster(), pools=pools))
        assert inventory(ledger, provider, "CUSTOM_DISK_MIB_POOL") == Inventory(1000)

    def test_tag_of_the_cluster_does_not_change_a_shared_pool(self, ledger: Ledger) -> None:
        pools = (Pool(SAN, 1000, provider="san.example.org"),)
        follow(ledger, replace(cluster(), pools=pools, tags=("htools:inventory:ext/san:-:70",)))
        assert inventory(ledger, "san.example.org", "CUSTOM_DISK_MIB_POOL") == Inventory(1000)


def test_use_of_a_pool_of_unknown_size_is_recorded(ledger: Ledger) -> None:
    row = by_hand.instance("web1", DiskTemplate.EXT, "node1")
    row = replace(row, dsk=500, disks=(Disk(500, unit=SAN),))
    synced = follow(ledger, replace(cluster(), instances=(row,)))
    assert used(ledger, "c1/web1")["c1/ext/san"] == {"CUSTOM_DISK_MIB_POOL": 500}
    assert "CUSTOM_DISK_MIB_POOL" not in inventories(ledger, "c1/ext/san")
    follow(ledger, cluster(), synced=synced)
    assert used(ledger, "c1/web1") == {}


def test_cpus_of_a_node_limit_the_virtual_cpus_of_an_instance_while_that_is_wanted(ledger: Ledger) -> None:
    updater, first = LedgerUpdater(), cluster(web(1))
    node = replace(first.nodes[0], tags=("htools:inventory:VCPU:-:0:1:2",))
    first = replace(first, nodes=(node, *first.nodes[1:]))
    larger = replace(first, nodes=tuple(replace(each, t_cpu=96.0) for each in first.nodes))

    def largest(now: Cluster, limits_vcpus: bool) -> list[int | None]:
        rules = CountingRules(limits_vcpus=limits_vcpus)
        updater.apply(ledger, now, "c1", rules)
        synced = updater.apply(ledger, now, "c1", rules)
        assert synced.snapshot == ledger.snapshot()
        return [inventory(ledger, f"c1/{name}", "VCPU").max_unit for name in SIZES]

    assert largest(first, False)[:2] == [2, None]
    assert largest(first, True)[:2] == [2, 64]
    assert largest(larger, True)[:2] == [2, 96]
    assert largest(larger, False)[:2] == [2, None]
    administer(ledger, "c1/node2", "VCPU", max_unit=4)
    assert largest(larger, True)[:2] == [2, 4]
    assert largest(larger, False)[:2] == [2, 4]
