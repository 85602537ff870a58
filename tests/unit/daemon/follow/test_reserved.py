from dataclasses import replace
from typing import Any

from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import POOL
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from htoolsd.follow.desired_state import DesiredState, SyncedState, desired_state
from htoolsd.follow.reserved import claims_on_nodes, reservations
from htoolsd.store.records import Consumer, Kind, LedgerSnapshot, consumer_uuid, provider_uuid
from htoolsd.sync.reserved_room import Reservations
from tests.support import by_hand

WEB = by_hand.instance("web1", DiskTemplate.DRBD, "node1", "node2")
NODES = desired_state(by_hand.cluster({"node1": 10_000, "node2": 10_000}, [WEB]), "c1")
SAN = DesiredUnit(StorageType.EXT, "san")

Use = tuple[str, Kind, str | None, dict[str, int]]


def synced(
    inventories: dict[str, Inventory],
    *uses: Use,
    desired: DesiredState = NODES,
    provider: str = "c1/node1",
) -> SyncedState:
    """Return a state in which a provider has inventories, and consumers have allocations of it."""
    uuid = provider_uuid(provider)
    consumers = [Consumer(consumer_uuid(name), name, kind, promised=text) for name, kind, text, _ in uses]
    held = {consumer_uuid(name): {uuid: amounts} for name, _, _, amounts in uses}
    ledger = LedgerSnapshot({}, {uuid: inventories}, {each.uuid: each for each in consumers}, held)
    return SyncedState(desired, ledger)


def kept(*facts: Any) -> dict[str, Inventory]:
    """Return the inventories of node1 that decisions get; node2 has none."""
    found = reservations(synced(*facts)).inventories
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
    new: Use = ("c1/new", "instance", "{}", {"MEMORY_MB": 70})
    larger: Use = ("c1/web1", "instance", "{}", {"MEMORY_MB": 1200})
    found = reservations(synced(there, new, larger))
    assert (found.inventories, found.promises) == ({}, {"node1": {"MEMORY_MB": 70 + 200}})
    assert reservations(synced(there, ("c1/old", "instance", None, {"MEMORY_MB": 70}))).promises == {}


def test_names_claims_of_plans_and_by_hand_on_nodes() -> None:
    amounts = {"VCPU": 1}
    plan: Use = ("c1/plan/1", "plan", None, amounts)
    promised: Use = ("c1/new", "instance", "{}", amounts)
    found = synced({}, ("tests", "claim", None, amounts), plan, promised)
    assert reservations(found).claims == {"node1": ("plan/1", "tests")}
    assert claims_on_nodes(found, lambda each: each.is_claim) == {"node1": ("new", "plan/1", "tests")}
    node = synced({}, ("c1/node1", "node", None, amounts))
    assert claims_on_nodes(node, lambda each: each.is_claim) == {}


def on_shared_pool(*uses: tuple[str, Kind, str | None, int]) -> Reservations:
    """Return what is reserved of a configured pool that clusters share."""
    cluster = replace(by_hand.cluster({"node1": 10_000}, []), pools=(Pool(SAN, 1000, 0, "san.example.org"),))
    taken: list[Use] = [(name, kind, text, {POOL: mib}) for name, kind, text, mib in uses]
    desired, there = desired_state(cluster, "c1"), {POOL: Inventory(1000, 50)}
    return reservations(synced(there, *taken, desired=desired, provider="san.example.org"))


def test_own_instances_are_not_reserved_of_a_pool() -> None:
    found = on_shared_pool(("c1/web", "instance", None, 300))
    assert (found.pools, found.promised) == ({}, {})
    assert found.pool_settings == {SAN: Inventory(1000, 50)}


def test_claims_and_other_clusters_are_reserved_of_a_pool() -> None:
    plan: tuple[str, Kind, str | None, int] = ("c1/plan/1", "plan", None, 4)
    found = on_shared_pool(("c2/web", "instance", None, 300), ("c2/new", "instance", "{}", 20), plan)
    assert found.pools == {SAN: 300 + 20 + 4}
    assert found.promised == {"c2/new": {SAN: 20}}


def test_claims_on_a_pool_that_nodes_report_are_reserved() -> None:
    cluster = by_hand.cluster({"node1": 10_000}, [], storage=(Unit(SAN, 1000, 600),))
    there, claim = {POOL: Inventory(1000, 50, 1, 40)}, {POOL: 30}
    state = synced(
        there,
        ("tests", "claim", None, claim),
        desired=desired_state(cluster, "c1"),
        provider="c1/ext/san",
    )
    found = reservations(state)
    assert (found.pools, found.pool_settings) == ({}, {SAN: Inventory(1000, 80, 1, 40)})
