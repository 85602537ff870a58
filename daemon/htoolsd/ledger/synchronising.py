"""The ledger made to say what exists: what has changed is written, all of it or nothing.

What exists is not asked whether there is room for it.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from operator import attrgetter

from sqlalchemy import Column, Connection, bindparam, delete, insert, select, update

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger.records import Changes, ConflictError, Consumer, Provider
from htoolsd.ledger.tables import allocations, consumers, inventories, providers
from htoolsd.ledger.writing import (
    add_allocations,
    chunks,
    consumer_values,
    drop_allocations,
    held_providers,
    known_providers,
    provider_ids,
    raise_generations,
)

_OF_CONSUMER = update(consumers).where(consumers.c.id == bindparam("which"))
_OF_PROVIDER = update(providers).where(providers.c.uuid == bindparam("which"))
_THIS = (
    inventories.c.resource_provider_id == bindparam("provider"),
    inventories.c.resource_class_id == bindparam("class"),
)
_OF_INVENTORY = update(inventories).where(*_THIS)
_UNSET = delete(inventories).where(
    *_THIS,
    inventories.c.reserved == 0,
    inventories.c.min_unit == 1,
    inventories.c.max_unit.is_(None),
    inventories.c.step_size == 1,
)


def synchronise(connection: Connection, changes: Changes, class_of: Mapping[str, int]) -> None:
    """Write changes; the generations of all whom they touch are raised.

    Raises ConflictError where a consumer does not have the generation that is named; UnknownError.
    """
    ids = _take(connection, [each for each, _ in changes.allocations], changes.gone)
    touched = held_providers(connection, ids.values())
    _add_providers(connection, changes.providers)
    used = {uuid for _, each in changes.allocations for uuid in each}
    provider_of = provider_ids(
        connection, {*(each.uuid for each in changes.providers), *changes.inventories, *used, *changes.lost}
    )
    raise_generations(connection, touched | set(provider_of.values()), {})
    if changes.providers:
        connection.execute(_OF_PROVIDER, [{"which": each.uuid, **_named(each)} for each in changes.providers])
    drop_allocations(connection, ids.values())
    _delete(connection, consumers.c.id, [ids[each.uuid] for each in changes.gone if each.uuid in ids])
    _write_inventories(
        connection,
        {
            (provider_of[uuid], class_of[name]): inventory
            for uuid, found in changes.inventories.items()
            for name, inventory in found.items()
        },
    )
    wanted = {ids[consumer.uuid]: each for consumer, each in changes.allocations}
    add_allocations(connection, wanted, provider_of, class_of)
    lost = [provider_of[uuid] for uuid in changes.lost]
    for column in (allocations.c.resource_provider_id, inventories.c.resource_provider_id, providers.c.id):
        _delete(connection, column, lost)


def set_inventory(
    connection: Connection, provider: str, generation: int, class_id: int, inventory: Inventory | None
) -> None:
    """Set all figures of an inventory; None: there is none. Raises ConflictError, UnknownError."""
    (number,) = provider_ids(connection, [provider]).values()
    raise_generations(connection, [number], {number: generation})
    which = {"provider": number, "class": class_id}
    if inventory is None:
        query = select(allocations.c.id).where(
            allocations.c.resource_provider_id == number, allocations.c.resource_class_id == class_id
        )
        if connection.execute(query).first():
            raise ConflictError("it is in use")
        connection.execute(delete(inventories).where(*_THIS), which)
    elif not connection.execute(_OF_INVENTORY, which | asdict(inventory)).rowcount:
        row = {"resource_provider_id": number, "resource_class_id": class_id, **asdict(inventory)}
        connection.execute(insert(inventories).values(**row))


def _take(
    connection: Connection, changed: Collection[Consumer], gone: Collection[Consumer]
) -> dict[str, int]:
    """Write consumers, and lock them and those who are gone; the ids. Raises ConflictError."""
    ids, was = dict[str, int](), dict[str, int]()
    for some in chunks([each.uuid for each in (*changed, *gone)]):
        raised = update(consumers).where(consumers.c.uuid.in_(some))
        raised = raised.values(generation=consumers.c.generation + 1)
        columns = consumers.c.uuid, consumers.c.id, consumers.c.generation
        for uuid, number, generation in connection.execute(raised.returning(*columns)):
            ids[uuid], was[uuid] = number, generation - 1
    for each in (*changed, *gone):
        if each.generation is not None and each.generation != was.get(each.uuid, 0):
            raise ConflictError(
                f"{each.name}: somebody else was first: its generation is {was.get(each.uuid, 0)},"
                f" not {each.generation}"
            )
    known = [{"which": ids[each.uuid], **consumer_values(each)} for each in changed if each.uuid in ids]
    if known:
        connection.execute(_OF_CONSUMER, known)
    new = [
        {"uuid": each.uuid, "generation": 1, **consumer_values(each)}
        for each in sorted(changed, key=attrgetter("uuid"))
        if each.uuid not in ids
    ]
    if new:
        connection.execute(insert(consumers), new)
    for some in chunks([str(each["uuid"]) for each in new]):
        query = select(consumers.c.uuid, consumers.c.id).where(consumers.c.uuid.in_(some))
        ids |= {row.uuid: row.id for row in connection.execute(query)}
    return ids


def _add_providers(connection: Connection, changed: Collection[Provider]) -> None:
    """Add those that are not there."""
    known = known_providers(connection, {each.uuid for each in changed})
    new = [{"uuid": each.uuid, "generation": 0, **_named(each)} for each in changed if each.uuid not in known]
    if new:
        connection.execute(insert(providers), new)


def _named(provider: Provider) -> dict[str, object]:
    return {"name": provider.name, "can_host": provider.can_host}


def _write_inventories(connection: Connection, found: Mapping[tuple[int, int], Inventory | None]) -> None:
    """Write totals and ratios, by provider and class (ids). What the administrator has set stays as it is.

    So what is not there any more, but was set, is kept with a total of 0: it may come back.
    """
    known = set[tuple[int, int]]()
    for some in chunks({provider for provider, _ in found}):
        columns = inventories.c.resource_provider_id, inventories.c.resource_class_id
        query = select(*columns).where(columns[0].in_(some))
        known |= {(provider, name) for provider, name in connection.execute(query)}
    there = {which: inventory for which, inventory in found.items() if inventory is not None}
    missing = [{"provider": which[0], "class": which[1]} for which in found if which not in there]
    if missing:
        connection.execute(_UNSET, missing)
        connection.execute(_OF_INVENTORY, [{**each, "total": 0} for each in missing])
    changed = [
        {
            "provider": which[0],
            "class": which[1],
            "total": each.total,
            "allocation_ratio": each.allocation_ratio,
        }
        for which, each in there.items()
        if which in known
    ]
    if changed:
        connection.execute(_OF_INVENTORY, changed)
    added = [
        {"resource_provider_id": which[0], "resource_class_id": which[1], **asdict(each)}
        for which, each in there.items()
        if which not in known
    ]
    if added:
        connection.execute(insert(inventories), added)


def _delete(connection: Connection, column: Column[int], values: Collection[int]) -> None:
    """Delete the rows with these values."""
    for some in chunks(values):
        connection.execute(delete(column.table).where(column.in_(some)))
