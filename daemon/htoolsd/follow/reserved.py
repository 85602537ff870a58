"""Reservations in the ledger: what decisions must leave free of nodes and pools. Pure functions."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.resource_classes import POOL, is_own
from ganeti_htools.model.storage import DesiredUnit
from htoolsd.follow.desired_state import DesiredState
from htoolsd.store.records import Consumer, LedgerSnapshot, full_name, provider_uuid
from htoolsd.sync.reserved_room import Reservations


def reservations(desired: DesiredState, snapshot: LedgerSnapshot) -> Reservations:
    """Return what decisions and plans must leave free."""
    return Reservations(
        inventories_of_nodes(desired, snapshot),
        taken_of_pools(desired, snapshot),
        promised_of_pools(desired, snapshot),
        promises_on_nodes(desired, snapshot),
        settings_of_pools(desired, snapshot),
        _has_untagged(desired, snapshot),
        claims_on_nodes(desired, snapshot, _reserves),
    )


def _reserves(consumer: Consumer) -> bool:
    """Whether a consumer is a plan or a claim by hand; their claims count as reserved."""
    return consumer.kind in ("plan", "claim")


def inventories_of_nodes(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[str, Inventories]:
    """Return the inventories that decisions need, by node: custom classes, and classes with administrators'
    figures.

    Claims of plans and claims by hand count as reserved. ``reserved`` of a class that Ganeti counts is an
    amount as consumers have it: one reserved CPU of a node is as many virtual CPUs as the ratio makes of it.
    """
    claimed = _claimed(desired, snapshot, _reserves)
    found = {}
    for node, resources in desired.resources.nodes.items():
        inventories = snapshot.inventories.get(resources.provider, {})
        needed = tuple(_needed_inventories(inventories, claimed.get(resources.provider, {})))
        if needed:
            found[node] = needed
    return found


def _needed_inventories(
    inventories: Mapping[str, Inventory], claimed: Mapping[str, int]
) -> Iterable[tuple[str, Inventory]]:
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


def claims_on_nodes(
    desired: DesiredState, snapshot: LedgerSnapshot, counts: Callable[[Consumer], bool]
) -> dict[str, tuple[str, ...]]:
    """Return the names of some claims on each node that has any."""
    own, found = full_name(desired.resources.cluster, ""), defaultdict[str, list[str]](list)
    for uuid, each in snapshot.consumers.items():
        if counts(each):
            for provider in snapshot.allocations.get(uuid, {}):
                found[provider].append(each.name.removeprefix(own))
    providers = {node: each.provider for node, each in desired.resources.nodes.items()}
    return {node: tuple(sorted(found[uuid])) for node, uuid in providers.items() if uuid in found}


def promises_on_nodes(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[str, dict[str, int]]:
    """Return the amounts that are promised to instances and not in use yet, by node and class."""
    claimed = _claimed(desired, snapshot, lambda each: each.kind == "instance" and each.promised is not None)
    providers = {node: each.provider for node, each in desired.resources.nodes.items()}
    return {node: dict(claimed[uuid]) for node, uuid in providers.items() if claimed.get(uuid)}


def _claimed(
    desired: DesiredState, snapshot: LedgerSnapshot, counts: Callable[[Consumer], bool]
) -> Mapping[str, Counter[str]]:
    """Return the amounts that some consumers have claimed and do not use yet, by provider and class."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for uuid, each in snapshot.consumers.items():
        if counts(each):
            used = desired.consumers[uuid].allocations if uuid in desired.consumers else {}
            for provider, amounts in snapshot.allocations.get(uuid, {}).items():
                found[provider].update(Counter(amounts) - Counter(used.get(provider, {})))
    return found


def taken_of_pools(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[DesiredUnit, int]:
    """Return what plans, claims by hand and other clusters have (MiB) of each configured pool."""
    found = {}
    for unit, provider in _configured_pools(desired):
        used = sum(mib for _, mib in _used_by_others(desired, snapshot, provider))
        if used:
            found[unit] = used
    return found


def settings_of_pools(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[DesiredUnit, Inventory]:
    """Return the inventories of pools that administrators have set something in.

    Claims on a pool that nodes report count as reserved. The free space that nodes report shows what other
    clusters use.
    """
    reported, found = _reported_pools(desired), {}
    used = {unit for each in desired.instances.values() for unit in each.pools}
    for unit in {*reported, *used, *(unit for unit, _ in _configured_pools(desired))}:
        provider = provider_uuid(desired.resources.pool_name(unit))
        inventory, claimed = snapshot.inventories.get(provider, {}).get(POOL, Inventory(0)), 0
        if unit in reported:
            others = _used_by_others(desired, snapshot, provider)
            claimed = sum(mib for each, mib in others if each.is_claim)
        if inventory.reserved or inventory.limits_amounts or claimed:
            found[unit] = replace(inventory, reserved=inventory.reserved + claimed, tagged=False)
    return found


def _reported_pools(desired: DesiredState) -> set[DesiredUnit]:
    units = (unit.desired for node in desired.cluster.nodes for unit in node.storage or ())
    return {unit for unit in units if unit.type.pool}


def promised_of_pools(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[str, dict[DesiredUnit, int]]:
    """Return what is promised (MiB) of configured pools to instances of other clusters, by name."""
    found: defaultdict[str, dict[DesiredUnit, int]] = defaultdict(dict)
    for unit, provider in _configured_pools(desired):
        for each, mib in _used_by_others(desired, snapshot, provider):
            if each.kind == "instance" and each.promised is not None:
                found[each.name][unit] = mib
    return dict(found)


def _configured_pools(desired: DesiredState) -> Iterable[tuple[DesiredUnit, str]]:
    """Yield the pools whose size is configured, and which no node reports, and their providers."""
    for unit in {pool.unit for pool in desired.cluster.pools} - _reported_pools(desired):
        yield unit, provider_uuid(desired.resources.pool_name(unit))


def configured_reserves(desired: DesiredState) -> dict[str, int]:
    """Return what the configuration reserves (MiB) of pools, by provider; totals in the ledger lack it."""
    reserves = {pool.unit: pool.reserved for pool in desired.cluster.pools}
    return {provider: reserves[unit] for unit, provider in _configured_pools(desired)}


def _used_by_others(
    desired: DesiredState, snapshot: LedgerSnapshot, provider: str
) -> Iterable[tuple[Consumer, int]]:
    """Yield the consumers of a pool and their MiB, without the instances of this cluster."""
    own = full_name(desired.resources.cluster, "")
    for uuid, allocated in snapshot.allocations.items():
        each = snapshot.consumers.get(uuid) if provider in allocated else None
        if each is not None and (each.kind != "instance" or not each.name.startswith(own)):
            yield each, allocated[provider].get(POOL, 0)
