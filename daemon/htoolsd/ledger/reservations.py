"""Reservations in the ledger: what decisions must leave free of nodes and pools. Pure functions."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.resource_classes import POOL, is_own
from ganeti_htools.model.storage import DesiredUnit
from htoolsd.ledger.desired_state import DesiredState
from htoolsd.ledger.records import Consumer, LedgerSnapshot, full_name, provider_uuid
from htoolsd.reservations import Reservations


def reservations(desired: DesiredState, snapshot: LedgerSnapshot, promised: bool = False) -> Reservations:
    """Return what decisions must leave free. ``promised``: see :func:`inventories_of_nodes`."""
    return Reservations(
        inventories_of_nodes(desired, snapshot, promised),
        reserved_of_pools(desired, snapshot),
        promised_of_pools(desired, snapshot),
    )


def inventories_of_nodes(
    desired: DesiredState, snapshot: LedgerSnapshot, promised: bool = False
) -> dict[str, Inventories]:
    """Return the inventories that decisions need, by node: custom classes, and classes with reservations.

    Claims of plans and claims by hand count as reserved. With ``promised``, so do promises to instances that
    do not use them yet. (Decisions count these promises as instances on their new nodes.) ``reserved`` of a
    class that Ganeti counts is an amount as consumers have it: one reserved CPU of a node is as many virtual
    CPUs as the ratio makes of it.
    """
    claimed = _claimed(desired, snapshot, promised)
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
            yield name, replace(inventory, reserved=inventory.reserved + taken)
        elif inventory.reserved or used:
            yield name, replace(inventory, reserved=math.ceil(inventory.reserved * ratio) + used)


def _claimed(desired: DesiredState, snapshot: LedgerSnapshot, promised: bool) -> Mapping[str, Counter[str]]:
    """Return the amounts that are claimed and not in use yet, by provider and class."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for uuid, each in snapshot.consumers.items():
        if each.kind in ("plan", "claim") or (promised and each.promised is not None):
            used = desired.consumers[uuid].allocations if uuid in desired.consumers else {}
            for provider, amounts in snapshot.allocations.get(uuid, {}).items():
                found[provider].update(Counter(amounts) - Counter(used.get(provider, {})))
    return found


def claimed_nodes(desired: DesiredState, snapshot: LedgerSnapshot) -> set[str]:
    """Return the nodes with claimed resources."""
    claimed = {
        provider
        for uuid, each in snapshot.consumers.items()
        if each.is_claim
        for provider in snapshot.allocations.get(uuid, {})
    }
    return {node for node, each in desired.resources.nodes.items() if each.provider in claimed}


def reserved_of_pools(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[DesiredUnit, int]:
    """Return what decisions must leave free (MiB) of each configured pool.

    That is what the administrator reserves, and what plans, claims by hand and the consumers of other
    clusters have.
    """
    found = {}
    for unit, provider in _configured_pools(desired):
        inventory = snapshot.inventories.get(provider, {}).get(POOL)
        used = sum(mib for _, mib in _used_by_others(desired, snapshot, provider))
        reserved = used + (inventory.reserved if inventory else 0)
        if reserved:
            found[unit] = reserved
    return found


def promised_of_pools(desired: DesiredState, snapshot: LedgerSnapshot) -> dict[str, dict[DesiredUnit, int]]:
    """Return what is promised (MiB) of configured pools to instances of other clusters, by name."""
    found: defaultdict[str, dict[DesiredUnit, int]] = defaultdict(dict)
    for unit, provider in _configured_pools(desired):
        for each, mib in _used_by_others(desired, snapshot, provider):
            if each.kind == "instance" and each.promised is not None:
                found[each.name][unit] = mib
    return dict(found)


def _configured_pools(desired: DesiredState) -> Iterable[tuple[DesiredUnit, str]]:
    """Yield the pools whose size is configured, and their providers."""
    for unit in {pool.unit for pool in desired.cluster.pools}:
        yield unit, provider_uuid(desired.resources.pool_name(unit))


def _used_by_others(
    desired: DesiredState, snapshot: LedgerSnapshot, provider: str
) -> Iterable[tuple[Consumer, int]]:
    """Yield the consumers of a pool and their MiB, without the instances of this cluster."""
    own = full_name(desired.resources.cluster, "")
    for uuid, allocated in snapshot.allocations.items():
        each = snapshot.consumers.get(uuid) if provider in allocated else None
        if each is not None and (each.kind != "instance" or not each.name.startswith(own)):
            yield each, allocated[provider].get(POOL, 0)
