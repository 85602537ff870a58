"""Claims: what a consumer is promised, in one transaction that is done as a whole or not at all.

As in Placement, a claim replaces what the consumer had. The generation of each provider that is touched is
raised by compare-and-update, so what was decided on a view that has passed is not written.
"""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger.reading import INVENTORIES, USED, amounts_in, inventories_in
from htoolsd.ledger.records import Allocations, CapacityError, ConflictError, Consumer
from htoolsd.ledger.tables import allocations, classes, consumers, providers
from htoolsd.ledger.writing import (
    add_allocations,
    consumer_values,
    drop_allocations,
    held_providers,
    name_of,
    provider_ids,
    raise_generations,
)

_HELD = (
    select(providers.c.uuid, classes.c.name, allocations.c.used)
    .select_from(allocations.join(providers).join(classes))
    .where(allocations.c.consumer_id == bindparam("consumer"))
)
_OF_THESE = providers.c.id.in_(bindparam("ids", expanding=True))
_OFFERED, _USED = INVENTORIES.where(_OF_THESE), USED.where(_OF_THESE)
_TAKE = (
    update(consumers)
    .where(consumers.c.uuid == bindparam("which"))
    .values(generation=consumers.c.generation + 1)
    .returning(consumers.c.id, consumers.c.generation, consumers.c.name)
)
_ADD = insert(consumers).returning(consumers.c.id)


def claim(
    connection: Connection,
    consumer: Consumer,
    wanted: Allocations,
    generations: Mapping[str, int],
    class_of: Mapping[str, int],
    beyond: bool,
) -> Consumer:
    """Let the consumer have what is wanted, and nothing else; the consumer as it is then.

    Raises ConflictError, UnknownError; CapacityError unless it may go ``beyond`` what there is.
    """
    number, generation = _written(connection, consumer)
    held = amounts_in(connection.execute(_HELD, {"consumer": number})) if generation > 1 else {}
    ids = provider_ids(connection, {*wanted, *held})
    raise_generations(
        connection, ids.values(), {ids[uuid]: was for uuid, was in generations.items() if uuid in ids}
    )
    if held:
        drop_allocations(connection, [number])
    try:
        _check(connection, wanted, held, ids)
        exceeds = False
    except CapacityError:
        if not beyond:
            raise
        exceeds = True
        connection.execute(update(consumers).where(consumers.c.id == number).values(beyond=True))
    add_allocations(connection, {number: wanted}, ids, class_of)
    return replace(consumer, generation=generation, beyond=exceeds)


def release(connection: Connection, uuid: str, generation: int | None = None) -> bool:
    """Take everything from a consumer, and forget it; whether there was one. Raises ConflictError."""
    taken = _taken(connection, uuid, generation, {})
    if taken is None:
        return False
    number, _ = taken
    raise_generations(connection, held_providers(connection, [number]), {})
    drop_allocations(connection, [number])
    connection.execute(delete(consumers).where(consumers.c.id == number))
    return True


def _written(connection: Connection, consumer: Consumer) -> tuple[int, int]:
    """Write a consumer, who is locked then; its id and generation. Raises ConflictError."""
    values = consumer_values(replace(consumer, beyond=False))
    taken = _taken(connection, consumer.uuid, consumer.generation, values)
    if taken is not None:
        return taken
    # If somebody else is faster now, the uuid is there twice, which the database refuses.
    return connection.execute(_ADD, {"uuid": consumer.uuid, "generation": 1, **values}).scalar_one(), 1


def _taken(
    connection: Connection, uuid: str, generation: int | None, values: Mapping[str, object]
) -> tuple[int, int] | None:
    """Lock a consumer, and set what is to be set; its id and generation, None if there is none.

    Raises ConflictError if it does not have the generation.
    """
    row = connection.execute(_TAKE, {"which": uuid, **values}).first()
    if generation is not None and generation != (row.generation - 1 if row else 0):
        name, now = (row.name, row.generation - 1) if row else (uuid, 0)
        raise ConflictError(f"{name}: somebody else was first: its generation is {now}, not {generation}")
    return (row.id, row.generation) if row else None


def _check(connection: Connection, wanted: Allocations, held: Allocations, ids: Mapping[str, int]) -> None:
    """Whether providers have what is wanted. What is no more than what the consumer had may always be.

    Raises CapacityError.
    """
    these = {"ids": [ids[uuid] for uuid in wanted]}
    offered, taken = (
        inventories_in(connection.execute(_OFFERED, these)),
        amounts_in(connection.execute(_USED, these)),
    )
    for uuid, amounts in wanted.items():
        for name, amount in amounts.items():
            inventory, used = offered.get(uuid, {}).get(name), taken.get(uuid, {}).get(name, 0)
            fits = inventory is not None and inventory.fits(amount, used)
            if not fits and amount > held.get(uuid, {}).get(name, 0):
                left, text = _shortage(inventory, amount, used)
                raise CapacityError(name_of(connection, ids[uuid]), name, left, text)


def _shortage(inventory: Inventory | None, amount: int, used: int) -> tuple[int, str]:
    """What is left, and in words why an amount cannot be had."""
    if inventory is None:
        return 0, "there is none"
    left = max(0, inventory.capacity - used)
    if amount > left:
        return left, f"{amount} wanted, {left} of {inventory.capacity} left"
    most = "" if inventory.max_unit is None else f", at most {inventory.max_unit}"
    steps = f" or a multiple of {inventory.step_size}" if inventory.step_size > 1 else " or more"
    return left, f"{amount} wanted, to be had are {inventory.min_unit}{steps}{most}"
