"""What decisions have to leave of nodes and pools, beyond what Ganeti tells: pure functions of the ledger."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.resource_classes import POOL, is_own
from ganeti_htools.model.storage import DesiredUnit
from htoolsd.ledger.following import exists
from htoolsd.ledger.identities import full_name, provider_uuid
from htoolsd.ledger.records import Consumer, Contents
from htoolsd.ledger.saying import Statement


class Left(NamedTuple):
    """What decisions have to leave: inventories by node, MiB of pools; of these, what is promised."""

    inventories: Mapping[str, Inventories]
    pools: Mapping[DesiredUnit, int]
    promised: Mapping[str, Mapping[DesiredUnit, int]]


def left_of(said: Statement, contents: Contents, promised: bool = False) -> Left:
    """What decisions have to leave; see the functions for each part."""
    inventories = inventories_of(said, contents, promised)
    return Left(inventories, reserved_of_pools(said, contents), promised_of_pools(said, contents))


def inventories_of(said: Statement, contents: Contents, promised: bool = False) -> dict[str, Inventories]:
    """The inventories of nodes that matter, by node: custom classes, and whatever something is reserved of.

    What plans and claims by hand have taken is reserved as well; what instances have been ``promised`` and do
    not use yet, only if that is asked for: decisions count them where they are going to be. Of what Ganeti
    counts, ``reserved`` is an amount as consumers have it: a virtual CPU that is kept free is as many of them
    as its ratio makes of it.
    """
    taken = _taken(said, contents, promised)
    found = {}
    for node, place in said.places.nodes.items():
        there = contents.inventories.get(place.provider, {})
        kept = tuple(_kept(there, taken.get(place.provider, {})))
        if kept:
            found[node] = kept
    return found


def _kept(there: Mapping[str, Inventory], claimed: Mapping[str, int]) -> Iterable[tuple[str, Inventory]]:
    for name, inventory in there.items():
        ratio, used = inventory.allocation_ratio, claimed.get(name, 0)
        if not is_own(name):
            lost = math.ceil(used / ratio) if ratio else 0
            yield name, replace(inventory, reserved=inventory.reserved + lost)
        elif inventory.reserved or used:
            yield name, replace(inventory, reserved=math.ceil(inventory.reserved * ratio) + used)


def _taken(said: Statement, contents: Contents, promised: bool) -> Mapping[str, Counter[str]]:
    """What has been claimed and is not used by who exists, by provider and class."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for uuid, each in contents.consumers.items():
        if each.kind in ("plan", "claim") or (promised and each.promised is not None):
            used = said.uses[uuid].amounts if uuid in said.uses else {}
            for provider, amounts in contents.allocations.get(uuid, {}).items():
                found[provider].update(Counter(amounts) - Counter(used.get(provider, {})))
    return found


def claimed_nodes(said: Statement, contents: Contents) -> set[str]:
    """The nodes of which somebody has claimed something."""
    claimed = {
        provider
        for uuid, each in contents.consumers.items()
        if not exists(each)
        for provider in contents.allocations.get(uuid, {})
    }
    return {node for node, place in said.places.nodes.items() if place.provider in claimed}


def reserved_of_pools(said: Statement, contents: Contents) -> dict[DesiredUnit, int]:
    """What has to be left (MiB) of each pool whose room the configuration tells: what is reserved, and what
    plans, claims by hand and the consumers of other clusters have of it.
    """
    found = {}
    for unit, provider in _told_pools(said):
        inventory = contents.inventories.get(provider, {}).get(POOL)
        used = sum(mib for _, mib in _used_by_others(said, contents, provider))
        left = used + (inventory.reserved if inventory else 0)
        if left:
            found[unit] = left
    return found


def promised_of_pools(said: Statement, contents: Contents) -> dict[str, dict[DesiredUnit, int]]:
    """What instances of other clusters, by name, were promised (MiB) of these pools."""
    found: defaultdict[str, dict[DesiredUnit, int]] = defaultdict(dict)
    for unit, provider in _told_pools(said):
        for each, mib in _used_by_others(said, contents, provider):
            if each.kind == "instance" and each.promised is not None:
                found[each.name][unit] = mib
    return dict(found)


def _told_pools(said: Statement) -> Iterable[tuple[DesiredUnit, str]]:
    """The pools whose room the configuration tells, and their providers."""
    return (
        (unit, provider_uuid(said.places.pool(unit))) for unit in {pool.unit for pool in said.cluster.pools}
    )


def _used_by_others(said: Statement, contents: Contents, provider: str) -> Iterable[tuple[Consumer, int]]:
    """What everybody has of a pool but the instances of the cluster, existing or promised."""
    own = full_name(said.places.cluster, "")
    for uuid, held in contents.allocations.items():
        each = contents.consumers.get(uuid) if provider in held else None
        if each is not None and (each.kind != "instance" or not each.name.startswith(own)):
            yield each, held[provider].get(POOL, 0)
