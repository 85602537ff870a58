"""Claims, as in Placement: a claim replaces all that the consumer had, as a whole or not at all.

It raises the generation of each provider that it touches by compare-and-update. A claim that was decided on
an outdated view is therefore refused.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, bindparam, insert, update

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.generations import (
    lock_consumers,
    provider_ids,
    provider_name,
    providers_of,
    raise_generations,
)
from htoolsd.store.records import Allocations, CapacityError, Consumer
from htoolsd.store.rows import THESE_PROVIDERS, THIS_CONSUMER, read_allocations, read_inventories, read_usage
from htoolsd.store.tables import allocations, consumers, delete_rows

_UPDATE = update(consumers).where(consumers.c.id == bindparam("which"))
_ADD = insert(consumers).returning(consumers.c.uuid, consumers.c.id)


def claim(
    connection: Connection,
    consumer: Consumer,
    wanted: Allocations,
    generations: Mapping[str, int],
    class_ids: Mapping[str, int],
    over_capacity: bool,
) -> Consumer:
    """Allocate the wanted amounts to a consumer instead of all that it had; return the consumer as written.

    Raises ConflictError, UnknownError; CapacityError unless the claim may exceed it (``over_capacity``).
    """
    known, raised = lock_consumers(connection, [consumer])
    consumer_id = write_consumers(connection, [replace(consumer, over_capacity=False)], known)[consumer.uuid]
    had: Allocations = {}
    if known:
        had = read_allocations(connection, THIS_CONSUMER, uuid=consumer.uuid).get(consumer.uuid, {})
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
        if not over_capacity:
            raise
        exceeds = True
        connection.execute(_UPDATE.values(over_capacity=True), {"which": consumer_id})
    add_allocations(connection, [(consumer_id, wanted)], ids, class_ids)
    return replace(consumer, generation=raised.get(consumer.uuid, 1), over_capacity=exceeds)


def release(connection: Connection, consumer: Consumer) -> bool:
    """Delete a consumer with its allocations; return whether it existed. Raises ConflictError."""
    ids, _ = lock_consumers(connection, [consumer])
    raise_generations(connection, providers_of(connection, ids.values()))
    delete_allocations(connection, ids.values())
    delete_rows(connection, consumers.c.id, ids.values())
    return bool(ids)


def settle(connection: Connection, consumer: Consumer) -> None:
    """Have the promise to a consumer count as use. Its amounts stay until the cluster shows others."""
    ids, _ = lock_consumers(connection, [replace(consumer, generation=None)])
    for consumer_id in ids.values():
        connection.execute(
            _UPDATE.values(promised=None, expires=None, over_capacity=False), {"which": consumer_id}
        )
    raise_generations(connection, providers_of(connection, ids.values()))


def write_consumers(
    connection: Connection, changed: Iterable[Consumer], known: Mapping[str, int]
) -> dict[str, int]:
    """Write consumers, of which some are ``known`` (ids by uuid) and locked; return the ids of all.

    If another client adds one of them now, the database refuses the second uuid.
    """
    old, new = list[dict[str, object]](), list[dict[str, object]]()
    for each in sorted(changed, key=lambda each: each.uuid):
        values = {
            "name": each.name,
            "kind": each.kind,
            "expires": each.expires,
            "promised": each.promised,
            "over_capacity": each.over_capacity,
        }
        if each.uuid in known:
            old.append({"which": known[each.uuid], **values})
        else:
            new.append({"uuid": each.uuid, "generation": 1, **values})
    if old:
        connection.execute(_UPDATE, old)
    added = connection.execute(_ADD, new) if new else ()
    return {**known, **{row.uuid: row.id for row in added}}


def add_allocations(
    connection: Connection,
    wanted: Iterable[tuple[int, Allocations]],
    ids: Mapping[str, int],
    class_ids: Mapping[str, int],
) -> None:
    """Allocate the wanted amounts to consumers (ids); ``ids`` are those of providers by uuid."""
    rows = [
        {
            "resource_provider_id": ids[provider],
            "consumer_id": consumer,
            "resource_class_id": class_ids[name],
            "used": used,
        }
        for consumer, each in wanted
        for provider, amounts in each.items()
        for name, used in amounts.items()
    ]
    if rows:
        connection.execute(insert(allocations), rows)


def delete_allocations(connection: Connection, consumer_ids: Collection[int]) -> None:
    """Delete all allocations of these consumers (ids)."""
    delete_rows(connection, allocations.c.consumer_id, consumer_ids)


def _check_capacity(
    connection: Connection, wanted: Allocations, had: Allocations, ids: Mapping[str, int]
) -> None:
    """Check that providers have the wanted amounts. An amount that the consumer already had always passes.

    Raises CapacityError.
    """
    inventories = read_inventories(connection, THESE_PROVIDERS, uuids=[*wanted])
    usage = read_usage(connection, THESE_PROVIDERS, uuids=[*wanted])
    for uuid, amounts in wanted.items():
        for name, amount in amounts.items():
            inventory, used = inventories.get(uuid, {}).get(name), usage.get(uuid, {}).get(name, 0)
            fits = inventory is not None and inventory.fits(amount, used)
            if not fits and amount > had.get(uuid, {}).get(name, 0):
                why = _shortage(inventory, amount, used)
                raise CapacityError(f"{provider_name(connection, ids[uuid])}: {name}: {why}")


def _shortage(inventory: Inventory | None, amount: int, used: int) -> str:
    """Return the reason why an amount cannot be allocated."""
    if inventory is None:
        return "no inventory of this class"
    free = max(0, inventory.capacity - used)
    if amount > free:
        return f"{amount} requested, {free} of {inventory.capacity} free"
    most = "" if inventory.max_unit is None else f", at most {inventory.max_unit}"
    steps = f" or a multiple of {inventory.step_size}" if inventory.step_size > 1 else " or more"
    return f"{amount} requested, expected {inventory.min_unit}{steps}{most}"
