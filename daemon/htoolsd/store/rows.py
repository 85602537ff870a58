"""Rows of the ledger as plain data, read in one transaction.

A condition (``where``) is one of those below, with its parameters; without one, everything is read.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, select

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.records import (
    EXISTING_KINDS,
    Allocations,
    Amounts,
    Consumer,
    LedgerSnapshot,
    Provider,
    ProviderUsage,
)
from htoolsd.store.tables import allocations, classes, consumers, inventories, providers

_FEW = 50  # changed providers; of more, everything is read

Where = ColumnElement[bool] | None

_INVENTORIES = (
    select(providers.c.uuid, classes.c.name, *(inventories.c[figure.name] for figure in fields(Inventory)))
    .select_from(inventories.join(providers).join(classes))
    .order_by(providers.c.name, classes.c.name)
)
_USAGE = (
    select(providers.c.uuid, classes.c.name, func.sum(allocations.c.used))
    .select_from(allocations.join(providers).join(classes))
    .group_by(providers.c.uuid, classes.c.name)
)
_ALLOCATIONS = (
    select(consumers.c.uuid, providers.c.uuid, classes.c.name, allocations.c.used)
    .select_from(allocations.join(providers).join(consumers).join(classes))
    .order_by(consumers.c.name, providers.c.name, classes.c.name)
)
_PROVIDERS = select(providers).order_by(providers.c.name)
_CONSUMERS = select(consumers).order_by(consumers.c.name)

THESE_PROVIDERS = providers.c.uuid.in_(bindparam("uuids", expanding=True))
THIS_CONSUMER = consumers.c.uuid == bindparam("uuid")
ENDING_CLAIMS = and_(consumers.c.expires.is_not(None), consumers.c.promised.is_(None))  # by hand
_CONSUMERS_OF = select(allocations.c.consumer_id).select_from(allocations.join(providers))
_HOLDING = consumers.c.id.in_(_CONSUMERS_OF.where(THESE_PROVIDERS))


def read_providers(connection: Connection, where: Where = None, **which: object) -> dict[str, Provider]:
    """Return the providers by uuid, in the order of their names."""
    return {
        row.uuid: Provider(row.uuid, row.name, int(row.generation), row.can_host)
        for row in _rows(connection, _PROVIDERS, where, which)
    }


def read_inventories(
    connection: Connection, where: Where = None, **which: object
) -> dict[str, dict[str, Inventory]]:
    """Return the inventories by provider and class.

    Raises ValueError for figures that htoolsd never writes, such as NaN.
    """
    found = defaultdict[str, dict[str, Inventory]](dict)
    for uuid, name, *figures in _rows(connection, _INVENTORIES, where, which):
        inventory = Inventory(*figures)
        amounts = (inventory.total, inventory.reserved, inventory.min_unit, inventory.step_size)
        if not (all(type(each) is int for each in amounts) and math.isfinite(inventory.allocation_ratio)):
            raise ValueError(f"inventory of {name}: expected numbers, got {inventory}")
        found[uuid][name] = inventory
    return dict(found)


def read_usage(connection: Connection, where: Where = None, **which: object) -> dict[str, Amounts]:
    """Return the amounts that all consumers together use, by provider and class."""
    found = defaultdict[str, dict[str, int]](dict)
    for uuid, name, used in _rows(connection, _USAGE, where, which):
        found[uuid][name] = int(used)
    return dict(found)


def read_consumers(connection: Connection, where: Where = None, **which: object) -> dict[str, Consumer]:
    """Return the consumers by uuid, in the order of their names."""
    return {
        row.uuid: Consumer(
            row.uuid, row.name, row.kind, int(row.generation), row.expires, row.promised, row.over_capacity
        )
        for row in _rows(connection, _CONSUMERS, where, which)
    }


def read_allocations(
    connection: Connection, where: Where = None, **which: object
) -> dict[str, dict[str, dict[str, int]]]:
    """Return the allocations by consumer, provider and class."""
    found = dict[str, dict[str, dict[str, int]]]()
    for consumer, provider, name, used in _rows(connection, _ALLOCATIONS, where, which):
        found.setdefault(consumer, {}).setdefault(provider, {})[name] = int(used)
    return found


def read_provider_usages(
    connection: Connection, where: Where = None, **which: object
) -> tuple[ProviderUsage, ...]:
    """Return providers with inventories and usage, by name."""
    found, used = read_inventories(connection, where, **which), read_usage(connection, where, **which)
    return tuple(
        ProviderUsage(each, found.get(uuid, {}), used.get(uuid, {}))
        for uuid, each in read_providers(connection, where, **which).items()
    )


def count(connection: Connection) -> Mapping[str, int]:
    """Count ``providers``, ``claims``, and the claims that exceed the capacity."""
    claims = select(func.count()).select_from(consumers)
    claims = claims.where(consumers.c.kind.not_in(EXISTING_KINDS) | consumers.c.promised.is_not(None))
    queries = {
        "providers": select(func.count()).select_from(providers),
        "claims": claims,
        "over_capacity": claims.where(consumers.c.over_capacity),
    }
    return {name: connection.execute(query).scalar_one() for name, query in queries.items()}


def read_snapshot(connection: Connection) -> LedgerSnapshot:
    """Return the whole ledger."""
    return LedgerSnapshot(
        read_providers(connection),
        read_inventories(connection),
        read_consumers(connection),
        read_allocations(connection),
    )


def read_holding(connection: Connection, consumer: str) -> LedgerSnapshot:
    """Return one consumer (uuid) with its allocations and their providers, without inventories."""
    allocated = read_allocations(connection, THIS_CONSUMER, uuid=consumer)
    return LedgerSnapshot(
        read_providers(connection, THESE_PROVIDERS, uuids=[*allocated.get(consumer, ())]),
        {},
        read_consumers(connection, THIS_CONSUMER, uuid=consumer),
        allocated,
    )


def refresh(
    connection: Connection, known: LedgerSnapshot, some: Collection[str] | None = None
) -> LedgerSnapshot:
    """Return the whole ledger. Only providers whose generation has changed are read again.

    With ``some`` providers (uuids), all others stay as they are in the ``known`` snapshot. The parts that
    have not changed are the same objects.
    """
    before = known.providers
    if some is None:
        now = read_providers(connection)
    else:
        now = {uuid: each for uuid, each in before.items() if uuid not in some}
        now |= read_providers(connection, THESE_PROVIDERS, uuids=[*some])
    changed = {uuid for uuid in {**before, **now} if before.get(uuid) != now.get(uuid)}
    if len(changed) > _FEW:
        return read_snapshot(connection)
    found = _refreshed(connection, known, now, changed) if changed else known
    return found if some is not None else _without_gone(connection, found)


def _refreshed(
    connection: Connection, known: LedgerSnapshot, now: Mapping[str, Provider], changed: Collection[str]
) -> LedgerSnapshot:
    """Return the known snapshot with the present content of the changed providers."""
    uuids = [*changed]
    offered = {uuid: each for uuid, each in known.inventories.items() if uuid not in changed}
    offered |= read_inventories(connection, THESE_PROVIDERS, uuids=uuids)
    read = read_allocations(connection, THESE_PROVIDERS, uuids=uuids)
    found, allocated = dict(known.consumers), dict[str, Allocations](known.allocations)
    for uuid, held in known.allocations.items():
        if uuid in read or not held.keys().isdisjoint(changed):
            allocated[uuid] = {name: amounts for name, amounts in held.items() if name not in changed}
            if not allocated[uuid] and uuid not in read:
                del allocated[uuid]
                found.pop(uuid, None)
    for uuid, amounts in read.items():
        allocated[uuid] = {**allocated.get(uuid, {}), **amounts}
    found |= read_consumers(connection, _HOLDING, uuids=uuids)
    same = offered == known.inventories
    return LedgerSnapshot(now, known.inventories if same else offered, found, allocated)


def _without_gone(connection: Connection, known: LedgerSnapshot) -> LedgerSnapshot:
    """Return a snapshot without consumers that had no allocations and are gone: no generation shows that."""
    bare = known.consumers.keys() - known.allocations.keys()
    gone = bare - set(connection.scalars(select(consumers.c.uuid))) if bare else ()
    if not gone:
        return known
    return replace(
        known, consumers={uuid: each for uuid, each in known.consumers.items() if uuid not in gone}
    )


def _rows(
    connection: Connection, query: Select[Any], where: Where, which: Mapping[str, object]
) -> Iterable[Any]:
    return connection.execute(query if where is None else _narrowed(query, where), which)


@cache  # making a statement takes as long as a small one runs
def _narrowed(query: Select[Any], where: ColumnElement[bool]) -> Select[Any]:
    return query.where(where)
