"""Reserved room in the ledger: what decisions must leave free of nodes and pools. Pure functions."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.resource_classes import POOL, is_own
from ganeti_htools.model.storage import DesiredUnit
from htoolsd.follow.desired_state import DesiredState, SyncedState
from htoolsd.store.records import Consumer, LedgerSnapshot, full_name, provider_uuid
from htoolsd.sync.reserved_room import Reservations


def reservations(synced: SyncedState) -> Reservations:
    """Return what decisions and plans must leave free."""
    desired, snapshot = synced
    claimed = _claimed(synced, _reserves)
    promises = _claimed(synced, lambda each: each.kind == "instance" and each.promised is not None)
    inventories, promised = dict[str, Inventories](), dict[str, Mapping[str, int]]()
    for node, resources in desired.resources.nodes.items():
        uuid = resources.provider
        if needed := tuple(_needed_inventories(snapshot.inventories.get(uuid, {}), claimed[uuid])):
            inventories[node] = needed
        if promises[uuid]:
            promised[node] = dict(promises[uuid])
    taken, promised_to_others = _taken_of_pools(synced)
    return Reservations(
        inventories,
        taken,
        promised_to_others,
        promised,
        _settings_of_pools(synced),
        _has_untagged(desired, snapshot),
        claims_on_nodes(synced, _reserves),
    )


def _reserves(consumer: Consumer) -> bool:
    """Whether a consumer is a plan or a claim by hand; their claims count as reserved."""
    return consumer.kind in ("plan", "claim")


def _needed_inventories(
    inventories: Mapping[str, Inventory], claimed: Mapping[str, int]
) -> Iterable[tuple[str, Inventory]]:
    """Yield the inventories of a node that decisions need: custom classes, and administrators' figures.

    Claims of plans and claims by hand count as reserved. ``reserved`` of a class that Ganeti counts is an
    amount as consumers have it: one reserved CPU of a node is as many virtual CPUs as the ratio makes of it.
    """
    for name, inventory in inventories.items():
        ratio, used = inventory.allocation_ratio, claimed.get(name, 0)
        if not is_own(name):
            taken = math.ceil(used / ratio) if ratio else 0
            yield name, replace(inventory, reserved=inventory.reserved + taken, tagged=False)
        elif inventory.reserved or used or inventory.limits_amounts:
            reserved = math.ceil(inventory.reserved * ratio) + used
            yield name, replace(inventory, reserved=reserved, tagged=False)


def _has_untagged(desired: DesiredState, snapshot: LedgerSnapshot) -> bool:
    """Whether the cluster has inventories that decisions count and that are in no tag."""
    return any(
        not each.tagged and (not is_own(name) or each.reserved > 0 or each.limits_amounts)
        for provider in desired.providers
        for name, each in snapshot.inventories.get(provider, {}).items()
    )


def claims_on_nodes(synced: SyncedState, counts: Callable[[Consumer], bool]) -> dict[str, tuple[str, ...]]:
    """Return the names of some claims on each node that has any."""
    desired, snapshot = synced
    own, found = full_name(desired.resources.cluster, ""), defaultdict[str, list[str]](list)
    for uuid, each in snapshot.consumers.items():
        if counts(each):
            for provider in snapshot.allocations.get(uuid, {}):
                found[provider].append(each.name.removeprefix(own))
    providers = {node: each.provider for node, each in desired.resources.nodes.items()}
    return {node: tuple(sorted(found[uuid])) for node, uuid in providers.items() if uuid in found}


def _claimed(synced: SyncedState, counts: Callable[[Consumer], bool]) -> defaultdict[str, Counter[str]]:
    """Return the amounts that some consumers have claimed and do not use yet, by provider and class."""
    desired, snapshot = synced
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for uuid, each in snapshot.consumers.items():
        if counts(each):
            used = desired.consumers[uuid].allocations if uuid in desired.consumers else {}
            for provider, amounts in snapshot.allocations.get(uuid, {}).items():
                found[provider].update(Counter(amounts) - Counter(used.get(provider, {})))
    return found


def _taken_of_pools(synced: SyncedState) -> tuple[dict[DesiredUnit, int], dict[str, dict[DesiredUnit, int]]]:
    """Return what plans, claims by hand and other clusters have (MiB) of each configured pool.

    And the part of it that is promised to instances of other clusters, by their names.
    """
    taken = dict[DesiredUnit, int]()
    promised = defaultdict[str, dict[DesiredUnit, int]](dict)
    for unit, provider in _configured_pools(synced.desired):
        for each, mib in _used_by_others(synced, provider):
            taken[unit] = taken.get(unit, 0) + mib
            if each.kind == "instance" and each.promised is not None:
                promised[each.name][unit] = mib
    return {unit: mib for unit, mib in taken.items() if mib}, dict(promised)


def _settings_of_pools(synced: SyncedState) -> dict[DesiredUnit, Inventory]:
    """Return the inventories of pools that administrators have set something in.

    Claims on a pool that nodes report count as reserved. The free space that nodes report shows what other
    clusters use.
    """
    desired, snapshot = synced
    reported, found = _reported_pools(desired), {}
    used = {unit for each in desired.instances.values() for unit in each.pools}
    for unit in {*reported, *used, *(unit for unit, _ in _configured_pools(desired))}:
        provider = provider_uuid(desired.resources.pool_name(unit))
        inventory, claimed = snapshot.inventories.get(provider, {}).get(POOL, Inventory(0)), 0
        if unit in reported:
            claimed = sum(mib for each, mib in _used_by_others(synced, provider) if each.is_claim)
        if inventory.reserved or inventory.limits_amounts or claimed:
            found[unit] = replace(inventory, reserved=inventory.reserved + claimed, tagged=False)
    return found


def _reported_pools(desired: DesiredState) -> set[DesiredUnit]:
    units = (unit.desired for node in desired.cluster.nodes for unit in node.storage or ())
    return {unit for unit in units if unit.type.pool}


def _configured_pools(desired: DesiredState) -> Iterable[tuple[DesiredUnit, str]]:
    """Yield the pools whose size is configured, and which no node reports, and their providers."""
    for unit in {pool.unit for pool in desired.cluster.pools} - _reported_pools(desired):
        yield unit, provider_uuid(desired.resources.pool_name(unit))


def configured_reserves(desired: DesiredState) -> dict[str, int]:
    """Return what the configuration reserves (MiB) of pools, by provider; totals in the ledger lack it."""
    reserves = {pool.unit: pool.reserved for pool in desired.cluster.pools}
    return {provider: reserves[unit] for unit, provider in _configured_pools(desired)}


def _used_by_others(synced: SyncedState, provider: str) -> Iterable[tuple[Consumer, int]]:
    """Yield the consumers of a pool and their MiB, without the instances of this cluster."""
    own, snapshot = full_name(synced.desired.resources.cluster, ""), synced.snapshot
    for uuid, allocated in snapshot.allocations.items():
        each = snapshot.consumers.get(uuid) if provider in allocated else None
        if each is not None and (each.kind != "instance" or not each.name.startswith(own)):
            yield each, allocated[provider].get(POOL, 0)
