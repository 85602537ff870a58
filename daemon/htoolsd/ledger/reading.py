"""What stands in the ledger, read in a transaction of the caller."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, func, select

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger.records import EXISTING, Allocation, Amounts, Consumer, Contents, Provider, Standing
from htoolsd.ledger.tables import allocations, classes, consumers, inventories, providers

_FIGURES = [inventories.c[figure.name] for figure in fields(Inventory)]
INVENTORIES = (
    select(providers.c.uuid, classes.c.name, *_FIGURES)
    .select_from(inventories.join(providers).join(classes))
    .order_by(providers.c.name, classes.c.name)
)
_ALLOCATIONS = (
    select(
        providers.c.uuid,
        consumers.c.uuid.label("consumer"),
        classes.c.name.label("resource_class"),
        allocations.c.used,
    )
    .select_from(allocations.join(providers).join(consumers).join(classes))
    .order_by(consumers.c.name, providers.c.name, classes.c.name)
)
USED = (
    select(providers.c.uuid, classes.c.name, func.sum(allocations.c.used))
    .select_from(allocations.join(providers).join(classes))
    .group_by(providers.c.uuid, classes.c.name)
)
_FEW = 50  # providers that are read one by one


def all_providers(connection: Connection, uuid: str | None = None) -> tuple[Provider, ...]:
    """The providers by name; those of the uuid only, if it is given."""
    query = select(providers).order_by(providers.c.name)
    query = query if uuid is None else query.where(providers.c.uuid == uuid)
    return tuple(
        Provider(row.uuid, row.name, row.generation, row.can_host) for row in connection.execute(query)
    )


def all_inventories(
    connection: Connection, provider: str | None = None
) -> Mapping[str, Mapping[str, Inventory]]:
    """The inventories by provider and class."""
    query = INVENTORIES if provider is None else INVENTORIES.where(providers.c.uuid == provider)
    return inventories_in(connection.execute(query))


def inventories_in(rows: Iterable[Sequence[Any]]) -> dict[str, dict[str, Inventory]]:
    """The inventories, by provider and class, in rows of INVENTORIES."""
    found = defaultdict[str, dict[str, Inventory]](dict)
    for uuid, name, *figures in rows:
        found[uuid][name] = Inventory(*figures)
    return dict(found)


def all_consumers(connection: Connection, uuid: str | None = None) -> tuple[Consumer, ...]:
    """The consumers by name; those of the uuid only, if it is given."""
    query = select(consumers).order_by(consumers.c.name)
    query = query if uuid is None else query.where(consumers.c.uuid == uuid)
    return tuple(consumer_of(row) for row in connection.execute(query))


def consumers_of(connection: Connection, provider: str) -> tuple[Consumer, ...]:
    """The consumers who have something of a provider."""
    having = select(allocations.c.consumer_id).select_from(allocations.join(providers))
    query = select(consumers).where(consumers.c.id.in_(having.where(providers.c.uuid == provider)))
    return tuple(consumer_of(row) for row in connection.execute(query))


def consumer_of(row: Row[Any]) -> Consumer:
    """A row of the table of consumers."""
    return Consumer(row.uuid, row.name, row.kind, row.generation, row.expires, row.promised, row.beyond)


def expired(connection: Connection, now: float) -> tuple[Consumer, ...]:
    """The consumers whose time has come, but for promises."""
    query = select(consumers).where(consumers.c.expires <= now, consumers.c.promised.is_(None))
    return tuple(consumer_of(row) for row in connection.execute(query.order_by(consumers.c.name)))


def all_allocations(
    connection: Connection, consumer: str | None = None, provider: str | None = None
) -> tuple[Allocation, ...]:
    """What is allocated: to a consumer, of a provider."""
    query = _ALLOCATIONS
    query = query if consumer is None else query.where(consumers.c.uuid == consumer)
    query = query if provider is None else query.where(providers.c.uuid == provider)
    return tuple(Allocation(*row) for row in connection.execute(query))


def all_usage(connection: Connection, provider: str | None = None) -> Mapping[str, Amounts]:
    """What all consumers together use, by provider and class."""
    return amounts_in(
        connection.execute(USED if provider is None else USED.where(providers.c.uuid == provider))
    )


def amounts_in(rows: Iterable[Sequence[Any]]) -> dict[str, dict[str, int]]:
    """Amounts, by provider and class, in rows of these three (those of USED)."""
    found = defaultdict[str, dict[str, int]](dict)
    for uuid, name, used in rows:
        found[uuid][name] = int(used)
    return dict(found)


def standings(connection: Connection, provider: str | None = None) -> tuple[Standing, ...]:
    """How it stands with the providers, by name; with that of the uuid only, if it is given."""
    found, used = all_inventories(connection, provider), all_usage(connection, provider)
    return tuple(
        Standing(each, found.get(each.uuid, {}), used.get(each.uuid, {}))
        for each in all_providers(connection, provider)
    )


def counts(connection: Connection) -> Mapping[str, int]:
    """How many providers there are, claims (not what just exists), and of these beyond capacity."""
    claims = select(func.count()).select_from(consumers)
    claims = claims.where(consumers.c.kind.not_in(EXISTING) | consumers.c.promised.is_not(None))
    queries = {
        "providers": select(func.count()).select_from(providers),
        "claims": claims,
        "beyond": claims.where(consumers.c.beyond),
    }
    return {name: connection.execute(query).scalar_one() for name, query in queries.items()}


def contents(connection: Connection, consumer: str | None = None) -> Contents:
    """Everything; or one consumer with what it has of which providers, but without their inventories."""
    held = _held(all_allocations(connection, consumer))
    if consumer is None:
        found, offered = all_providers(connection), all_inventories(connection)
    else:
        found, offered = _providers_of(connection, held.get(consumer, {})), {}
    return Contents(
        {each.uuid: each for each in found},
        offered,
        {each.uuid: each for each in all_consumers(connection, consumer)},
        held,
    )


def _providers_of(connection: Connection, uuids: Iterable[str]) -> tuple[Provider, ...]:
    return tuple(each for uuid in uuids for each in all_providers(connection, uuid))


def renewed(connection: Connection, known: Contents) -> Contents:
    """Everything; what stands of providers that have the generation which is ``known`` is not read again, and
    stays the same objects.
    """
    there, old = {each.uuid: each for each in all_providers(connection)}, known.providers
    changed = [uuid for uuid in {**old, **there} if old.get(uuid) != there.get(uuid)]
    if len(changed) > _FEW:
        return contents(connection)
    return _revised(connection, known, there, changed) if changed else known


def _revised(
    connection: Connection, known: Contents, there: Mapping[str, Provider], changed: Sequence[str]
) -> Contents:
    """What is known, with what stands now of some providers."""
    inventories = dict(known.inventories)
    for uuid in changed:
        inventories.pop(uuid, None)
        inventories |= all_inventories(connection, uuid)
    read = _held(each for uuid in changed for each in all_allocations(connection, provider=uuid))
    consumers, held = dict(known.consumers), dict(known.allocations)
    gone = frozenset(changed)
    for uuid in [uuid for uuid, each in held.items() if uuid in read or not gone.isdisjoint(each)]:
        kept = {provider: amounts for provider, amounts in held.pop(uuid).items() if provider not in gone}
        if kept or uuid in read:
            held[uuid] = kept | read.get(uuid, {})
        else:
            consumers.pop(uuid, None)
    held |= {uuid: each for uuid, each in read.items() if uuid not in held}
    for uuid in changed:
        consumers |= {each.uuid: each for each in consumers_of(connection, uuid)}
    same = inventories == known.inventories
    return Contents(there, known.inventories if same else inventories, consumers, held)


def _held(found: Iterable[Allocation]) -> dict[str, dict[str, dict[str, int]]]:
    """What each consumer has, by provider and class."""
    held: dict[str, dict[str, dict[str, int]]] = {}
    for each in found:
        held.setdefault(each.consumer, {}).setdefault(each.provider, {})[each.resource_class] = each.used
    return held
