"""The ledger on both databases: its views, its words, and changes of many rows.

Calls in any order are compared with a plain account in ``tests/property/test_ledger.py``.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import (
    Amounts,
    CapacityError,
    ConflictError,
    Consumer,
    LedgerChanges,
    LedgerEntry,
    Provider,
    UnknownError,
    consumer_uuid,
    provider_uuid,
)
from tests.support.ledgers import standing

NODE, OTHER, POOL = (provider_uuid(name) for name in ("c/node1", "c/node2", "ceph"))
PROVIDERS = Provider(NODE, "c/node1"), Provider(OTHER, "c/node2"), Provider(POOL, "ceph", can_host=False)
DISK = "CUSTOM_DISK_MIB_RADOS_CEPH"
WEB = Consumer(consumer_uuid("c/web"), "c/web", "claim")
MAIL = Consumer(consumer_uuid("c/mail"), "c/mail", "claim")
INVENTORIES = {
    NODE: {"MEMORY_MB": Inventory(1000), "VCPU": Inventory(4, allocation_ratio=2.0)},
    OTHER: {"MEMORY_MB": Inventory(500)},
    POOL: {DISK: Inventory(10_000)},
}


@pytest.fixture
def empty(empty_ledger_url: str) -> Iterator[Ledger]:
    found = Ledger(empty_ledger_url)
    yield found
    found.close()


@pytest.fixture
def ledger(empty: Ledger) -> Ledger:
    """Two nodes and a pool."""
    empty.apply(LedgerChanges(providers=PROVIDERS, inventories=INVENTORIES))
    return empty


def memory(mib: int, provider: str = NODE) -> dict[str, Amounts]:
    return {provider: {"MEMORY_MB": mib}}


def used(ledger: Ledger, provider: str = NODE) -> int:
    """Return the used memory of a provider."""
    return standing(ledger, provider).used.get("MEMORY_MB", 0)


def generations(ledger: Ledger) -> dict[str, int]:
    return {each.uuid: each.generation for each in ledger.providers()}


def set_inventory(ledger: Ledger, name: str, inventory: Inventory | None, provider: str = NODE) -> None:
    ledger.set_inventory(provider, generations(ledger)[provider], name, inventory)


def test_empty_ledger_has_nothing(empty: Ledger) -> None:
    assert (empty.providers(), empty.consumers(), empty.provider_usages()) == ((), (), ())
    assert empty.snapshot().allocations == {}


def test_applied_changes_are_read_back(ledger: Ledger) -> None:
    by_name = sorted(PROVIDERS, key=lambda each: each.name)
    assert [replace(each, generation=0) for each in ledger.providers()] == by_name
    assert ledger.snapshot().inventories == INVENTORIES


def test_claim_is_visible_in_all_views(ledger: Ledger) -> None:
    before = generations(ledger)
    wanted = {NODE: {"MEMORY_MB": 600, "VCPU": 1}, POOL: {DISK: 100}}
    written = ledger.claim(replace(WEB, expires=77.5, promised='{"a": 1}'), wanted, before)
    assert written == replace(WEB, generation=1, expires=77.5, promised='{"a": 1}')
    assert (ledger.consumers(), ledger.consumers(WEB.uuid)) == ((written,), (written,))
    whole, part = ledger.snapshot(), ledger.snapshot(WEB.uuid)
    assert whole.providers == {each.uuid: each for each in ledger.providers()}
    assert whole.consumers == part.consumers == {WEB.uuid: written}
    assert whole.allocations == part.allocations == {WEB.uuid: wanted}
    assert part.providers == {uuid: whole.providers[uuid] for uuid in wanted}
    assert standing(ledger, NODE).used == wanted[NODE]
    assert generations(ledger) == {uuid: was + (uuid in wanted) for uuid, was in before.items()}


def test_claim_on_an_old_generation_is_a_conflict(ledger: Ledger) -> None:
    before = generations(ledger)
    ledger.claim(WEB, memory(100), before)
    with pytest.raises(ConflictError, match=r"c/node1: changed by another client since generation"):
        ledger.claim(MAIL, memory(100, OTHER) | memory(100), before)
    assert [each.name for each in ledger.consumers()] == ["c/web"]  # nothing of it was done
    assert generations(ledger)[OTHER] == before[OTHER]
    ledger.claim(MAIL, memory(100, OTHER), before)  # of which nobody took anything


@pytest.mark.parametrize(
    ("inventory", "amount", "told"),
    [
        (Inventory(100, reserved=30), 71, "c/node1: CUSTOM_GPU: 71 requested, 70 of 70 free"),
        (Inventory(100, min_unit=5, step_size=10), 7, "7 requested, expected 5 or a multiple of 10"),
        (Inventory(100, max_unit=8), 9, "9 requested, expected 1 or more, at most 8"),
    ],
)
def test_claim_of_a_disallowed_amount_is_refused(
    ledger: Ledger, inventory: Inventory, amount: int, told: str
) -> None:
    set_inventory(ledger, "CUSTOM_GPU", inventory)
    with pytest.raises(CapacityError, match=told):
        ledger.claim(WEB, {NODE: {"CUSTOM_GPU": amount}}, {})
    ledger.claim(WEB, {NODE: {"CUSTOM_GPU": inventory.min_unit}}, {})


def test_claim_of_an_unknown_class_or_provider_is_refused(ledger: Ledger) -> None:
    with pytest.raises(CapacityError, match="c/node2: VCPU: no inventory of this class"):
        ledger.claim(WEB, {OTHER: {"VCPU": 1}}, {})
    with pytest.raises(UnknownError, match="there is no resource provider nobody"):
        ledger.claim(WEB, {"nobody": {"VCPU": 1}}, {})
    assert ledger.consumers() == ()


def test_consumer_on_an_old_generation_is_a_conflict(ledger: Ledger) -> None:
    ledger.claim(WEB, memory(1), {})
    changed = "c/web: changed by another client: its generation is 1, not"
    with pytest.raises(ConflictError, match=f"{changed} 0"):
        ledger.claim(replace(WEB, generation=0), memory(2), {})
    with pytest.raises(ConflictError, match=f"{changed} 2"):
        ledger.release(replace(WEB, generation=2))
    with pytest.raises(ConflictError, match="its generation is 0, not 4"):
        ledger.claim(replace(MAIL, generation=4), {}, {})


def test_ended_claims_are_released_unless_renewed(ledger: Ledger, empty_ledger_url: str) -> None:
    promise = replace(MAIL, expires=5.0, promised="{}")
    due = Consumer(consumer_uuid("c/due"), "c/due", "claim", expires=10.0)
    for each in (replace(WEB, expires=11.0), promise):
        ledger.claim(each, memory(100), {})
        assert len(ledger.expiring()) == 1
    with closing(Ledger(empty_ledger_url)) as other:  # of another program
        other.claim(due, memory(100), {})
    ended = ledger.expiring()
    assert [each.name for each in ended] == ["c/due", "c/web"]
    ledger.claim(replace(WEB, generation=1, expires=12.0), memory(100), {})
    assert [each.name for each in ledger.release_unless_renewed(ended)] == ["c/due"]
    assert sorted(each.name for each in ledger.consumers()) == ["c/mail", "c/web"]


def test_settled_promise_counts_as_use(ledger: Ledger) -> None:
    ledger.claim(replace(WEB, kind="instance", expires=5.0, promised="{}"), memory(100), {})
    before = generations(ledger)
    ledger.settle(WEB)
    assert ledger.consumers() == (replace(WEB, kind="instance", generation=2),)
    assert (used(ledger), generations(ledger)[NODE]) == (100, before[NODE] + 1)
    ledger.settle(MAIL)
    assert len(ledger.consumers()) == 1


def test_inventory_in_use_or_of_nobody_is_refused(ledger: Ledger) -> None:
    ledger.claim(WEB, memory(1), {})
    with pytest.raises(ConflictError, match="in use"):
        set_inventory(ledger, "MEMORY_MB", None)
    with pytest.raises(UnknownError):
        ledger.set_inventory("nobody", 0, "CUSTOM_GPU", Inventory(1))


def test_administrators_figures_survive_changes(ledger: Ledger) -> None:
    ours = Inventory(1000, reserved=200, min_unit=2, max_unit=900, step_size=2)
    set_inventory(ledger, "MEMORY_MB", ours)
    theirs = Inventory(2000, max_unit=800, allocation_ratio=1.5)  # the difference has the smaller max_unit
    ledger.apply(LedgerChanges(inventories={NODE: {"MEMORY_MB": theirs}}))
    expected = replace(ours, total=2000, max_unit=800, allocation_ratio=1.5)
    assert standing(ledger, NODE).inventories["MEMORY_MB"] == expected
    ledger.apply(LedgerChanges(inventories={NODE: {"MEMORY_MB": None, "VCPU": None}}))
    assert standing(ledger, NODE).inventories == {"MEMORY_MB": replace(expected, total=0)}


def test_refresh_sees_that_a_consumer_without_allocations_has_gone(ledger: Ledger) -> None:
    ledger.claim(replace(WEB, promised="{}"), {}, {})
    known = ledger.snapshot()
    assert [*known.consumers] == [WEB.uuid]
    assert ledger.refresh(known) is known
    ledger.release(WEB)
    assert ledger.refresh(known) == ledger.snapshot()
    set_inventory(ledger, "CUSTOM_NEW", Inventory(1))
    assert ledger.refresh(known) == ledger.snapshot()


def test_refresh_of_some_providers_leaves_the_others(ledger: Ledger) -> None:
    known = ledger.snapshot()
    ledger.claim(WEB, memory(10), {})
    ledger.claim(MAIL, memory(10, OTHER), {})
    found, now = ledger.refresh(known, [NODE]), ledger.snapshot()
    assert found.providers == {**known.providers, NODE: now.providers[NODE]}
    assert (found.allocations, [*found.consumers]) == ({WEB.uuid: memory(10)}, [WEB.uuid])


def test_changes_on_an_old_consumer_generation_are_a_conflict(ledger: Ledger) -> None:
    ledger.claim(WEB, memory(10), {})
    outdated = LedgerEntry(replace(WEB, kind="instance", generation=0), {})
    with pytest.raises(ConflictError, match="c/web: changed by another client"):
        ledger.apply(LedgerChanges(providers=(Provider("node3", "c/node3"),), allocations=(outdated,)))
    assert (len(ledger.providers()), used(ledger)) == (3, 10)


def test_providers_are_added_changed_and_deleted(ledger: Ledger) -> None:
    ledger.claim(WEB, memory(10) | memory(10, OTHER), {})
    was = generations(ledger)
    ledger.apply(
        LedgerChanges(providers=(Provider(OTHER, "c/renamed", can_host=False),), lost_providers=(NODE,))
    )
    assert standing(ledger, OTHER).provider == Provider(OTHER, "c/renamed", was[OTHER] + 1, False)
    assert {each.uuid for each in ledger.providers()} == {OTHER, POOL}
    assert ledger.snapshot().allocations == {WEB.uuid: memory(10, OTHER)}


def test_changes_raise_only_touched_generations(ledger: Ledger) -> None:
    before = generations(ledger)
    ledger.apply(LedgerChanges())
    assert generations(ledger) == before


def test_many_consumers_are_written_at_once(ledger: Ledger) -> None:
    names = [f"c/instance{number}" for number in range(1200)]
    many = [LedgerEntry(Consumer(consumer_uuid(name), name, "instance"), memory(1)) for name in names]
    ledger.apply(LedgerChanges(allocations=tuple(many)))
    assert used(ledger) == 1200
    ledger.apply(LedgerChanges(allocations=tuple(LedgerEntry(each, {}) for each, _ in many[100:])))
    assert (used(ledger), len(ledger.consumers())) == (100, 100)


def test_two_open_ledgers_see_each_others_changes(empty_ledger_url: str, ledger: Ledger) -> None:
    other = Ledger(empty_ledger_url)
    other.claim(WEB, memory(600), {})
    with pytest.raises(CapacityError):
        ledger.claim(MAIL, memory(600), {})
    set_inventory(other, "CUSTOM_GPU", Inventory(1))
    ledger.claim(MAIL, {NODE: {"CUSTOM_GPU": 1}}, {})
    other.close()
