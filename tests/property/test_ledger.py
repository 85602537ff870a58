"""The ledger agrees with a plain account after any calls in any order."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import (
    Allocations,
    CapacityError,
    ConflictError,
    Consumer,
    LedgerChanges,
    LedgerEntry,
    Provider,
    consumer_uuid,
    provider_uuid,
)

PROVIDERS = {name: provider_uuid(name) for name in ("c/a", "c/b", "pool")}
CONSUMERS = {name: consumer_uuid(name) for name in ("c/x", "c/y", "c/z")}
CLASSES = "MEMORY_MB", "CUSTOM_GPU"

providers, names = st.sampled_from(sorted(PROVIDERS.values())), st.sampled_from(sorted(CONSUMERS))
amounts = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 12), min_size=1)
wishes = st.dictionaries(providers, amounts, max_size=3)
inventories = st.builds(
    Inventory,
    st.integers(0, 20),
    st.integers(0, 3),
    st.integers(1, 3),
    st.none() | st.integers(3, 12),
    st.integers(1, 3),
    st.sampled_from([1.0, 1.5]),
)


@dataclass
class Account:
    """The expected content of the ledger."""

    has: dict[str, dict[str, Inventory]] = field(default_factory=dict)
    held: dict[str, Allocations] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    of_consumers: dict[str, int] = field(default_factory=dict)

    def used(self, provider: str, name: str, without: str = "") -> int:
        """Return what all consumers use, except one."""
        held = (each for uuid, each in self.held.items() if uuid != without)
        return sum(each.get(provider, {}).get(name, 0) for each in held)

    def fits(self, consumer: str, wanted: Allocations) -> bool:
        """Whether a consumer may have the wanted amounts, by Placement's rule."""
        mine: Mapping[str, Mapping[str, int]] = self.held.get(consumer, {})
        return all(
            amount <= mine.get(provider, {}).get(name, 0)
            or (
                name in self.has[provider]
                and self.has[provider][name].fits(amount, self.used(provider, name, consumer))
            )
            for provider, each in wanted.items()
            for name, amount in each.items()
        )

    def give(self, consumer: str, wanted: Allocations) -> None:
        """Give a consumer these allocations only."""
        self.touch({*wanted, *self.held.get(consumer, {})})
        self.held[consumer] = wanted
        self.of_consumers[consumer] = self.of_consumers.get(consumer, 0) + 1

    def take(self, consumer: str) -> None:
        """Delete a consumer."""
        self.touch(set(self.held.pop(consumer, {})))
        self.of_consumers.pop(consumer, None)

    def touch(self, touched: set[str]) -> None:
        for each in touched:
            self.generations[each] += 1


class LedgerMachine(RuleBasedStateMachine):
    """Calls in any order, also on outdated views."""

    url = ""

    @initialize()
    def begin(self) -> None:
        self.ledger = Ledger(self.url)
        there = tuple(Provider(uuid, name) for name, uuid in PROVIDERS.items())
        self.ledger.apply(LedgerChanges(providers=there))
        uuids = PROVIDERS.values()
        self.account = Account({uuid: {} for uuid in uuids}, generations=dict.fromkeys(uuids, 1))

    @rule(name=names, wanted=wishes, late=st.booleans(), over_capacity=st.booleans(), known=st.booleans())
    def claim(self, name: str, wanted: Allocations, late: bool, over_capacity: bool, known: bool) -> None:
        uuid, account = CONSUMERS[name], self.account
        view = {each: was - late for each, was in account.generations.items()}
        generation = account.of_consumers.get(uuid, 0) if known else None
        consumer = Consumer(uuid, name, "claim", generation)
        touched = {*wanted, *account.held.get(uuid, {})}
        fits = account.fits(uuid, wanted)
        try:
            written = self.ledger.claim(consumer, wanted, view, over_capacity)
        except ConflictError:
            assert late
            assert touched
        except CapacityError:
            assert not fits
            assert not over_capacity
            assert not (late and touched)
        else:
            assert fits or over_capacity
            assert not (late and touched)
            assert written.over_capacity == (not fits)
            account.give(uuid, wanted)
            assert written.generation == account.of_consumers[uuid]

    @rule(name=names, other=st.integers(0, 9))
    def claim_as_somebody_else(self, name: str, other: int) -> None:
        uuid = CONSUMERS[name]
        if other != self.account.of_consumers.get(uuid, 0):
            try:
                self.ledger.claim(Consumer(uuid, name, "claim", other), {}, {})
            except ConflictError:
                return
            raise AssertionError("somebody else was first")

    @rule(name=names)
    def release(self, name: str) -> None:
        uuid = CONSUMERS[name]
        assert self.ledger.release(Consumer(uuid, name, "claim")) == (uuid in self.account.of_consumers)
        self.account.take(uuid)

    @rule(
        provider=providers,
        name=st.sampled_from(CLASSES),
        inventory=st.none() | inventories,
        late=st.booleans(),
    )
    def set_inventory(self, provider: str, name: str, inventory: Inventory | None, late: bool) -> None:
        refused = late or (inventory is None and self.account.used(provider, name))
        try:
            generation = self.account.generations[provider] - late
            self.ledger.set_inventory(provider, generation, name, inventory)
        except ConflictError:
            assert refused
            return
        assert not refused
        self.account.touch({provider})
        if inventory is None:
            self.account.has[provider].pop(name, None)
        else:
            self.account.has[provider][name] = inventory

    @rule(provider=providers, total=st.integers(0, 20), name=names, wanted=wishes)
    def synchronise(self, provider: str, total: int, name: str, wanted: Allocations) -> None:
        uuid, has = CONSUMERS[name], self.account.has[provider]
        exists = Consumer(uuid, name, "instance")
        self.ledger.apply(
            LedgerChanges(
                inventories={provider: {"MEMORY_MB": Inventory(total, allocation_ratio=2.0)}},
                allocations=(LedgerEntry(exists, wanted),),
            )
        )
        before = has.get("MEMORY_MB", Inventory(0))
        has["MEMORY_MB"] = replace(before, total=total, allocation_ratio=2.0, max_unit=None)
        self.account.touch({provider} - {*wanted, *self.account.held.get(uuid, {})})
        self.account.give(uuid, wanted)
        if not wanted:
            self.account.take(uuid)

    @invariant()
    def the_same_stands_in_both(self) -> None:
        found, account = self.ledger.snapshot(), self.account
        assert {uuid: each.generation for uuid, each in found.providers.items()} == account.generations
        assert {uuid: each.generation for uuid, each in found.consumers.items()} == account.of_consumers
        assert found.allocations == {uuid: each for uuid, each in account.held.items() if each}
        assert {uuid: each for uuid, each in account.has.items() if each} == found.inventories

    def teardown(self) -> None:
        for each in self.ledger.consumers():
            self.ledger.release(each)
        self.ledger.apply(LedgerChanges(lost_providers=tuple(each.uuid for each in self.ledger.providers())))
        self.ledger.close()


def test_ledger_agrees_with_a_plain_account(empty_ledger_url: str) -> None:
    steps = settings(max_examples=12, stateful_step_count=20)
    machine = type("Machine", (LedgerMachine,), {"url": empty_ledger_url})
    run_state_machine_as_test(machine, settings=steps)
