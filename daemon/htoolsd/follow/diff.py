"""The difference between the desired state and the ledger.

Ganeti determines the providers, the instances, and the totals and ratios of the resources that it counts.
Everything else stays: the administrator's settings, and promises as long as they live.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import POOL, VCPU, is_own
from htoolsd.follow.desired_state import DesiredState, SyncedState, desired_state
from htoolsd.follow.resources import DEFAULT_RULES, CountingRules, DesiredProvider
from htoolsd.store.records import (
    Allocations,
    ConflictError,
    Consumer,
    LedgerChanges,
    LedgerEntry,
    LedgerSnapshot,
    Provider,
    full_name,
)

if TYPE_CHECKING:  # importing SQLAlchemy takes long
    from htoolsd.store.ledger import Ledger

_TRIES = 5  # attempts to write before another client does
_NO_CHANGES = LedgerChanges()

_Inventories = Mapping[str, Mapping[str, Inventory | None]]  # by provider and class


class LedgerUpdater:
    """Brings one ledger in step with a cluster, again and again. ``writes`` counts the changes written."""

    def __init__(self) -> None:
        self._synced: SyncedState | None = None
        self._mark: object = None  # of the ledger, in step with the cluster
        self.writes = 0

    def apply(
        self, ledger: "Ledger", cluster: Cluster, name: str, rules: CountingRules = DEFAULT_RULES
    ) -> SyncedState:
        """Write the differences between a cluster and the ledger. Raises LedgerError.

        Returns the same state as before if neither has changed.
        """
        before, mark = self._synced, ledger.mark()
        desired = desired_state(cluster, name, rules, before.desired if before else None)
        if before and desired is before.desired and mark == self._mark:
            return before
        snapshot = before.snapshot if before else None
        for _ in range(_TRIES):
            snapshot = ledger.snapshot() if snapshot is None else ledger.refresh(snapshot)
            changes = diff(desired, snapshot, before)
            if changes == _NO_CHANGES:
                self._synced, self._mark = SyncedState(desired, snapshot), mark
                return self._synced
            try:
                ledger.apply(changes)
                self.writes += 1
            except ConflictError:
                continue  # another client was first: compare again
        raise ConflictError(f"other clients changed the ledger during each of {_TRIES} attempts to update it")

    def forget(self) -> None:
        """Read the whole ledger at the next call, since it may be another one."""
        self._synced = None


def diff(desired: DesiredState, snapshot: LedgerSnapshot, synced: SyncedState | None = None) -> LedgerChanges:
    """Return the changes that bring the ledger to the desired state.

    Objects that are the same as when both were last ``synced`` are not compared again. The size of a shared
    pool is written only when it changes, so two clusters that report different sizes do not overwrite each
    other endlessly.
    """
    before = synced.desired.providers if synced else {}
    same = synced is not None and snapshot.inventories is synced.snapshot.inventories
    inventories = {
        uuid: changed
        for uuid, each in desired.providers.items()
        if not (same and before.get(uuid) is each)
        and (changed := _changed_inventories(each, snapshot.inventories.get(uuid, {}), before.get(uuid)))
    }
    to_compare = _consumers_to_compare(desired, snapshot, inventories, synced)
    classes = _classes_after(snapshot, inventories, desired.providers.values())
    return LedgerChanges(
        providers=tuple(_new_or_renamed(desired.providers.values(), snapshot.providers)),
        lost_providers=tuple(_lost_providers(desired, snapshot)),
        inventories=inventories,
        allocations=(
            *_changed_allocations(to_compare, snapshot, classes),
            *(LedgerEntry(consumer, {}) for consumer in _gone_consumers(desired, snapshot)),
        ),
    )


def of_known_classes(used: Allocations, classes: Mapping[str, Collection[str]]) -> Allocations:
    """Return the allocations of those classes (by provider) that have inventories."""
    found = {
        uuid: {name: amount for name, amount in amounts.items() if name in classes.get(uuid, ())}
        for uuid, amounts in used.items()
    }
    return {uuid: amounts for uuid, amounts in found.items() if amounts}


def _new_or_renamed(
    desired: Iterable[DesiredProvider], present: Mapping[str, Provider]
) -> Iterator[Provider]:
    for each in (entry.provider for entry in desired):
        known = present.get(each.uuid)
        if known is None or (known.name, known.can_host) != (each.name, each.can_host):
            yield each


def _lost_providers(desired: DesiredState, snapshot: LedgerSnapshot) -> Iterator[str]:
    """Yield the providers that the cluster has lost, unless a claim still holds something of them."""
    own = full_name(desired.resources.cluster, "")
    others = snapshot.providers.keys() - desired.providers.keys()
    lost = {uuid for uuid in others if snapshot.providers[uuid].name.startswith(own)}
    if lost:
        claims = (uuid for uuid, each in snapshot.consumers.items() if each.is_claim)
        lost -= {provider for uuid in claims for provider in snapshot.allocations.get(uuid, {})}
    yield from sorted(lost)


def _changed_inventories(
    desired: DesiredProvider, present: Mapping[str, Inventory], before: DesiredProvider | None
) -> dict[str, Inventory | None]:
    """Return the inventories of a provider that the ledger does not have so; None removes one.

    Settings in tags of the node win. Settings that the ledger has had from a tag end with the tag; others are
    kept. An inventory in which an administrator has set something is not removed again once its total is 0.
    """
    reported = desired.inventories
    if desired.shared and present and before and reported == before.inventories:
        return {}
    wanted = dict(_wanted_inventories(desired, present))
    found: dict[str, Inventory | None] = {
        name: each for name, each in wanted.items() if present.get(name) != each
    }
    for name in present.keys() - wanted.keys():
        old = present[name]
        untouched = old == Inventory(old.total, allocation_ratio=old.allocation_ratio)
        if old.tagged or (reported is not None and is_own(name) and (untouched or old.total)):
            found[name] = None
    return found


def _wanted_inventories(
    desired: DesiredProvider, present: Mapping[str, Inventory]
) -> Iterator[tuple[str, Inventory]]:
    """Yield the inventories that Ganeti reports or that tags set, as the ledger should have them.

    While a node does not report, the figures that follow Ganeti stay.
    """
    own = {name: each for name, each in present.items() if is_own(name)}
    reported = own if desired.inventories is None else desired.inventories
    for name in sorted({*reported, *desired.tagged}):
        old, tagged = present.get(name), desired.tagged.get(name)
        figures = reported.get(name, Inventory(0))
        setting = tagged or (old if old and not old.tagged else Inventory(0))
        if is_own(name):
            setting = replace(
                setting,
                total=figures.total,
                allocation_ratio=figures.allocation_ratio,
                max_unit=_largest_amount(name, setting, figures, old),
            )
        yield name, setting


def _largest_amount(name: str, setting: Inventory, figures: Inventory, old: Inventory | None) -> int | None:
    """Return the largest amount of one instance: the smaller one of the administrator's and the node's.

    The number of CPUs that the ledger has without a tag is that of the node, not a setting.
    """
    of_node = name == VCPU and not setting.tagged and old is not None and setting.max_unit == old.total
    amounts = None if of_node else setting.max_unit, figures.max_unit
    return min((each for each in amounts if each is not None), default=None)


def _classes_after(
    snapshot: LedgerSnapshot, changed: _Inventories, desired: Iterable[DesiredProvider]
) -> Mapping[str, Collection[str]]:
    """Return the classes of each provider that are recorded after the change.

    Those are the classes in its inventories, and the space of a pool even if its size is unknown.
    """
    found: dict[str, Collection[str]] = {uuid: each.keys() for uuid, each in snapshot.inventories.items()}
    for uuid, each in changed.items():
        removed = {name for name, inventory in each.items() if inventory is None}
        found[uuid] = {*found.get(uuid, ()), *each} - removed
    for pool in (each.provider.uuid for each in desired if not each.provider.can_host):
        found[pool] = {*found.get(pool, ()), POOL}
    return found


def _consumers_to_compare(
    desired: DesiredState, snapshot: LedgerSnapshot, changed: _Inventories, synced: SyncedState | None
) -> Iterator[LedgerEntry]:
    """Yield the consumers that are desired otherwise, or stand otherwise in the ledger, than when synced."""
    if synced is None or changed or snapshot.inventories is not synced.snapshot.inventories:
        yield from desired.consumers.values()
        return
    before, now = synced.snapshot.allocations, snapshot.allocations
    for uuid, each in desired.consumers.items():
        if synced.desired.consumers.get(uuid) is not each or before.get(uuid) is not now.get(uuid):
            yield each


def _changed_allocations(
    consumers: Iterable[LedgerEntry], snapshot: LedgerSnapshot, classes: Mapping[str, Collection[str]]
) -> Iterator[LedgerEntry]:
    """Yield the consumers whose allocations differ. Classes without an inventory cannot be allocated."""
    for consumer, amounts in consumers:
        known = snapshot.consumers.get(consumer.uuid)
        if known is None or not known.is_claim:
            wanted = of_known_classes(amounts, classes)
            if wanted != snapshot.allocations.get(consumer.uuid, {}):
                yield LedgerEntry(replace(consumer, generation=known.generation if known else 0), wanted)


def _gone_consumers(desired: DesiredState, snapshot: LedgerSnapshot) -> Iterator[Consumer]:
    """Yield the consumers of the cluster that exist in the ledger, but not in Ganeti."""
    own = full_name(desired.resources.cluster, "")
    for uuid in snapshot.consumers.keys() - desired.consumers.keys() - desired.providers.keys():
        each = snapshot.consumers[uuid]
        if each.name.startswith(own) and not each.is_claim:
            yield each
