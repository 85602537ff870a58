"""Allocations: the amounts that consumers have of providers, and claims, which replace them.

As in Placement, a claim replaces all that the consumer had, as a whole or not at all. It raises the
generation of each provider that it touches by compare-and-update. A claim that was decided on an outdated
view is therefore refused.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.consumer import lock_consumer, write_consumer
from htoolsd.store.inventory import SELECT_INVENTORIES, inventories_from_rows
from htoolsd.store.provider import provider_ids, provider_name, raise_generations
from htoolsd.store.records import Allocations, Amounts, CapacityError, Consumer, ResourceAllocation
from htoolsd.store.tables import allocations, chunks, classes, consumers, delete_rows, providers

_SELECT = (
    select(
        providers.c.uuid,
        consumers.c.uuid.label("consumer"),
        classes.c.name.label("resource_class"),
        allocations.c.used,
    )
    .select_from(allocations.join(providers).join(consumers).join(classes))
    .order_by(consumers.c.name, providers.c.name, classes.c.name)
)
_USAGE = (
    select(providers.c.uuid, classes.c.name, func.sum(allocations.c.used))
    .select_from(allocations.join(providers).join(classes))
    .group_by(providers.c.uuid, classes.c.name)
)
_OF_CONSUMER = (
    select(providers.c.uuid, classes.c.name, allocations.c.used)
    .select_from(allocations.join(providers).join(classes))
    .where(allocations.c.consumer_id == bindparam("consumer"))
)
_OF_PROVIDERS = providers.c.id.in_(bindparam("ids", expanding=True))
_INVENTORIES_OF, _USAGE_OF = SELECT_INVENTORIES.where(_OF_PROVIDERS), _USAGE.where(_OF_PROVIDERS)


def read_allocations(
    connection: Connection, consumer: str | None = None, provider: str | None = None
) -> tuple[ResourceAllocation, ...]:
    """Return the allocations; of one consumer or of one provider if its uuid is given."""
    query = _SELECT
    query = query if consumer is None else query.where(consumers.c.uuid == consumer)
    query = query if provider is None else query.where(providers.c.uuid == provider)
    rows = connection.execute(query)
    return tuple(ResourceAllocation(uuid, consumer, name, int(used)) for uuid, consumer, name, used in rows)


def read_usage(connection: Connection, provider: str | None = None) -> Mapping[str, Amounts]:
    """Return the amounts that all consumers together use, by provider and class; of one provider if given."""
    query = _USAGE if provider is None else _USAGE.where(providers.c.uuid == provider)
    return _amounts_from_rows(connection.execute(query))


def claim(
    connection: Connection,
    consumer: Consumer,
    wanted: Allocations,
    generations: Mapping[str, int],
    class_ids: Mapping[str, int],
    beyond: bool,
) -> Consumer:
    """Allocate the wanted amounts to a consumer instead of all that it had; return the consumer as written.

    Raises ConflictError, UnknownError; CapacityError unless the claim may go ``beyond`` the capacity.
    """
    consumer_id, generation = write_consumer(connection, replace(consumer, beyond=False))
    had = (
        _amounts_from_rows(connection.execute(_OF_CONSUMER, {"consumer": consumer_id}))
        if generation > 1
        else {}
    )
    ids = provider_ids(connection, {*wanted, *had})
    raise_generations(
        connection, ids.values(), {ids[uuid]: number for uuid, number in generations.items() if uuid in ids}
    )
    if had:
        delete_allocations(connection, [consumer_id])
    try:
        _check_capacity(connection, wanted, had, ids)
        exceeds = False
    except CapacityError:
        if not beyond:
            raise
        exceeds = True
        connection.execute(update(consumers).where(consumers.c.id == consumer_id).values(beyond=True))
    add_allocations(connection, {consumer_id: wanted}, ids, class_ids)
    return replace(consumer, generation=generation, beyond=exceeds)


def release(connection: Connection, consumer: str, generation: int | None = None) -> bool:
    """Delete a consumer (uuid) with its allocations; return whether it existed. Raises ConflictError."""
    locked = lock_consumer(connection, consumer, generation, {})
    if locked is None:
        return False
    consumer_id, _ = locked
    raise_generations(connection, providers_of(connection, [consumer_id]), {})
    delete_allocations(connection, [consumer_id])
    delete_rows(connection, consumers.c.id, [consumer_id])
    return True


def settle(connection: Connection, consumer: str) -> None:
    """Have the promise to a consumer (uuid) count as use. Its amounts stay until the cluster shows others."""
    locked = lock_consumer(connection, consumer, None, {"promised": None, "expires": None, "beyond": False})
    if locked is not None:
        raise_generations(connection, providers_of(connection, [locked[0]]), {})


def providers_of(connection: Connection, consumer_ids: Collection[int]) -> set[int]:
    """Return the ids of the providers with allocations to these consumers (ids)."""
    found: set[int] = set()
    for some in chunks(consumer_ids):
        query = select(allocations.c.resource_provider_id).where(allocations.c.consumer_id.in_(some))
        found |= set(connection.scalars(query.distinct()))
    return found


def delete_allocations(connection: Connection, consumer_ids: Collection[int]) -> None:
    """Delete all allocations of these consumers (ids)."""
    delete_rows(connection, allocations.c.consumer_id, consumer_ids)


def add_allocations(
    connection: Connection,
    wanted: Mapping[int, Allocations],
    ids: Mapping[str, int],
    class_ids: Mapping[str, int],
) -> None:
    """Allocate the wanted amounts to consumers (by id); ``ids`` are those of providers by uuid."""
    rows = [
        {
            "resource_provider_id": ids[provider],
            "consumer_id": consumer,
            "resource_class_id": class_ids[name],
            "used": used,
        }
        for consumer, each in wanted.items()
        for provider, amounts in each.items()
        for name, used in amounts.items()
    ]
    if rows:
        connection.execute(insert(allocations), rows)


def _amounts_from_rows(rows: Iterable[Sequence[Any]]) -> dict[str, dict[str, int]]:
    """Return the amounts in rows of provider, class and amount, by provider and class."""
    found = defaultdict[str, dict[str, int]](dict)
    for uuid, name, used in rows:
        found[uuid][name] = int(used)
    return dict(found)


def _check_capacity(
    connection: Connection, wanted: Allocations, had: Allocations, ids: Mapping[str, int]
) -> None:
    """Check that providers have the wanted amounts. An amount that the consumer already had always passes.

    Raises CapacityError.
    """
    which = {"ids": [ids[uuid] for uuid in wanted]}
    inventories = inventories_from_rows(connection.execute(_INVENTORIES_OF, which))
    usage = _amounts_from_rows(connection.execute(_USAGE_OF, which))
    for uuid, amounts in wanted.items():
        for name, amount in amounts.items():
            inventory, used = inventories.get(uuid, {}).get(name), usage.get(uuid, {}).get(name, 0)
            fits = inventory is not None and inventory.fits(amount, used)
            if not fits and amount > had.get(uuid, {}).get(name, 0):
                free, text = _shortage(inventory, amount, used)
                raise CapacityError(provider_name(connection, ids[uuid]), name, free, text)


def _shortage(inventory: Inventory | None, amount: int, used: int) -> tuple[int, str]:
    """Return the free amount, and the reason why an amount cannot be allocated."""
    if inventory is None:
        return 0, "no inventory of this class"
    free = max(0, inventory.capacity - used)
    if amount > free:
        return free, f"{amount} requested, {free} of {inventory.capacity} free"
    most = "" if inventory.max_unit is None else f", at most {inventory.max_unit}"
    steps = f" or a multiple of {inventory.step_size}" if inventory.step_size > 1 else " or more"
    return free, f"{amount} requested, expected {inventory.min_unit}{steps}{most}"
