from dataclasses import replace
from typing import Any

from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import POOL
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from htoolsd.follow.desired_state import DesiredState, desired_state
from htoolsd.follow.reserved import claims_on_nodes, inventories_of_nodes, promises_on_nodes, reservations
from htoolsd.store.records import Consumer, Kind, LedgerSnapshot, consumer_uuid, provider_uuid
from tests.support import by_hand

WEB = by_hand.instance("web1", DiskTemplate.DRBD, "node1", "node2")
SAID: DesiredState = desired_state(by_hand.cluster({"node1": 10_000, "node2": 10_000}, [WEB]), "c1")
NODE1 = provider_uuid("c1/node1")


def contents(
    inventories: dict[str, Inventory], *uses: tuple[str, Kind, str | None, dict[str, int]]
) -> LedgerSnapshot:
    """Return a ledger in which consumers have allocations of node1."""
    consumers = [Consumer(consumer_uuid(name), name, kind, promised=text) for name, kind, text, _ in uses]
    held = {consumer_uuid(name): {NODE1: amounts} for name, _, _, amounts in uses}
    return LedgerSnapshot({}, {NODE1: inventories}, {each.uuid: each for each in consumers}, held)


def kept(*facts: Any) -> dict[str, Inventory]:
    """Return the inventories of node1 that decisions get; node2 has none."""
    found = inventories_of_nodes(SAID, contents(*facts))
    assert found.keys() <= {"node1"}
    return dict(found.get("node1", ()))


def test_reserved_amounts_are_kept_free() -> None:
    there = {"MEMORY_MB": Inventory(10_000, 500), "VCPU": Inventory(64, 2, allocation_ratio=4.0)}
    found = kept(there)
    assert found["MEMORY_MB"].reserved == 500
    assert found["VCPU"].reserved == 8  # of 256 virtual ones
    assert kept({"MEMORY_MB": Inventory(10_000)}) == {}


def test_custom_classes_always_count() -> None:
    there = {"CUSTOM_GPU": Inventory(8, 1, 2, 4, 2, 2.0)}
    assert kept(there) == there
    claimed = kept(there, ("tests", "claim", None, {"CUSTOM_GPU": 3}))
    assert claimed == {"CUSTOM_GPU": Inventory(8, 3, 2, 4, 2, 2.0)}  # 3 of them take 2, each being two


def test_claims_of_plans_and_by_hand_are_reserved() -> None:
    there = {"MEMORY_MB": Inventory(10_000, 500)}
    uses = (("tests", "claim", None, {"MEMORY_MB": 70}), ("c1/plan/1", "plan", None, {"MEMORY_MB": 30}))
    assert kept(there, *uses)["MEMORY_MB"].reserved == 600


def test_promises_that_are_not_in_use_yet_are_apart() -> None:
    there = {"MEMORY_MB": Inventory(10_000)}
    promised = contents(
        there,
        ("c1/new", "instance", "{}", {"MEMORY_MB": 70}),
        ("c1/web1", "instance", "{}", {"MEMORY_MB": 1200}),
    )
    assert inventories_of_nodes(SAID, promised) == {}
    assert promises_on_nodes(SAID, promised) == {"node1": {"MEMORY_MB": 70 + 200}}
    assert promises_on_nodes(SAID, contents(there, ("c1/old", "instance", None, {"MEMORY_MB": 70}))) == {}


def test_names_claims_of_plans_and_by_hand_on_nodes() -> None:
    amounts = {"VCPU": 1}
    found = contents(
        {},
        ("tests", "claim", None, amounts),
        ("c1/plan/1", "plan", None, amounts),
        ("c1/new", "instance", "{}", amounts),
    )
    assert reservations(SAID, found).claims == {"node1": ("plan/1", "tests")}
    assert claims_on_nodes(SAID, found, lambda each: each.is_claim) == {"node1": ("new", "plan/1", "tests")}
    node = contents({}, ("c1/node1", "node", None, amounts))
    assert claims_on_nodes(SAID, node, lambda each: each.is_claim) == {}


class TestPools:
    """Configured pools, which clusters may share."""

    SAN = DesiredUnit(StorageType.EXT, "san")
    POOL = provider_uuid("san.example.org")

    def state(self) -> DesiredState:
        cluster = by_hand.cluster({"node1": 10_000}, [])
        return desired_state(replace(cluster, pools=(Pool(self.SAN, 1000, 0, "san.example.org"),)), "c1")

    def ledger(self, *uses: tuple[str, Kind, str | None, int]) -> LedgerSnapshot:
        consumers = [Consumer(consumer_uuid(name), name, kind, promised=text) for name, kind, text, _ in uses]
        return LedgerSnapshot(
            {},
            {self.POOL: {POOL: Inventory(1000, 50)}},
            {each.uuid: each for each in consumers},
            {consumer_uuid(name): {self.POOL: {POOL: mib}} for name, _, _, mib in uses},
        )

    def test_own_instances_are_not_reserved(self) -> None:
        found = reservations(self.state(), self.ledger(("c1/web", "instance", None, 300)))
        assert (found.pools, found.promised) == ({}, {})
        assert found.pool_settings == {self.SAN: Inventory(1000, 50)}

    def test_claims_and_other_clusters_are_reserved(self) -> None:
        ledger = self.ledger(
            ("c2/web", "instance", None, 300),
            ("c2/new", "instance", "{}", 20),
            ("c1/plan/1", "plan", None, 4),
        )
        found = reservations(self.state(), ledger)
        assert found.pools == {self.SAN: 300 + 20 + 4}
        assert found.promised == {"c2/new": {self.SAN: 20}}

    def test_claims_on_a_pool_that_nodes_report_are_reserved(self) -> None:
        cluster = by_hand.cluster({"node1": 10_000}, [], storage=(Unit(self.SAN, 1000, 600),))
        desired = desired_state(cluster, "c1")
        pool = provider_uuid("c1/ext/san")
        ledger = LedgerSnapshot(
            {},
            {pool: {POOL: Inventory(1000, 50, 1, 40)}},
            {(uuid := consumer_uuid("tests")): Consumer(uuid, "tests", "claim")},
            {uuid: {pool: {POOL: 30}}},
        )
        found = reservations(desired, ledger)
        assert (found.pools, found.pool_settings) == ({}, {self.SAN: Inventory(1000, 80, 1, 40)})
