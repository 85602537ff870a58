"""Consumers: their rows and generations. Writing a consumer locks it until the transaction ends."""

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from htoolsd.store.records import ConflictError, Consumer
from htoolsd.store.tables import allocations, chunks, consumers, providers

_LOCK = (
    update(consumers)
    .where(consumers.c.uuid == bindparam("which"))
    .values(generation=consumers.c.generation + 1)
    .returning(consumers.c.id, consumers.c.generation, consumers.c.name)
)
_ADD = insert(consumers).returning(consumers.c.id)
_UPDATE = update(consumers).where(consumers.c.id == bindparam("which"))


def read_consumers(connection: Connection, uuid: str | None = None) -> tuple[Consumer, ...]:
    """Return the consumers by name, or only the one with this uuid."""
    query = select(consumers).order_by(consumers.c.name)
    query = query if uuid is None else query.where(consumers.c.uuid == uuid)
    return tuple(_from_row(row) for row in connection.execute(query))


def consumers_of(connection: Connection, provider: str) -> tuple[Consumer, ...]:
    """Return the consumers that have an allocation of a provider (uuid)."""
    having = select(allocations.c.consumer_id).select_from(allocations.join(providers))
    query = select(consumers).where(consumers.c.id.in_(having.where(providers.c.uuid == provider)))
    return tuple(_from_row(row) for row in connection.execute(query))


def expiring_consumers(connection: Connection) -> tuple[Consumer, ...]:
    """Return the consumers whose claims have an end, without promises of decisions."""
    query = select(consumers).where(consumers.c.expires.is_not(None), consumers.c.promised.is_(None))
    return tuple(_from_row(row) for row in connection.execute(query.order_by(consumers.c.name)))


def lock_consumer(
    connection: Connection, uuid: str, generation: int | None, values: Mapping[str, object]
) -> tuple[int, int] | None:
    """Lock a consumer and write the values; return its id and generation, None for an unknown consumer.

    Raises ConflictError if it does not have the given generation.
    """
    row = connection.execute(_LOCK, {"which": uuid, **values}).first()
    if generation is not None and generation != (row.generation - 1 if row else 0):
        name, now = (row.name, row.generation - 1) if row else (uuid, 0)
        raise _changed(name, now, generation)
    return (row.id, row.generation) if row else None


def write_consumer(connection: Connection, consumer: Consumer) -> tuple[int, int]:
    """Write a consumer, which is locked then; return its id and generation. Raises ConflictError."""
    values = _values(consumer)
    locked = lock_consumer(connection, consumer.uuid, consumer.generation, values)
    if locked is not None:
        return locked
    # If another client adds the consumer now, the database refuses the second uuid.
    return connection.execute(_ADD, {"uuid": consumer.uuid, "generation": 1, **values}).scalar_one(), 1


def write_consumers(
    connection: Connection, changed: Collection[Consumer], gone: Collection[Consumer]
) -> dict[str, int]:
    """Write the changed consumers, lock all, and return the ids by uuid. Raises ConflictError."""
    ids, generations = dict[str, int](), dict[str, int]()
    for some in chunks([each.uuid for each in (*changed, *gone)]):
        raised = update(consumers).where(consumers.c.uuid.in_(some))
        raised = raised.values(generation=consumers.c.generation + 1)
        columns = consumers.c.uuid, consumers.c.id, consumers.c.generation
        for uuid, consumer_id, generation in connection.execute(raised.returning(*columns)):
            ids[uuid], generations[uuid] = consumer_id, generation - 1
    for each in (*changed, *gone):
        if each.generation is not None and each.generation != generations.get(each.uuid, 0):
            raise _changed(each.name, generations.get(each.uuid, 0), each.generation)
    known = [{"which": ids[each.uuid], **_values(each)} for each in changed if each.uuid in ids]
    if known:
        connection.execute(_UPDATE, known)
    new = [
        {"uuid": each.uuid, "generation": 1, **_values(each)}
        for each in sorted(changed, key=attrgetter("uuid"))
        if each.uuid not in ids
    ]
    if new:
        connection.execute(insert(consumers), new)
    for some in chunks([str(each["uuid"]) for each in new]):
        query = select(consumers.c.uuid, consumers.c.id).where(consumers.c.uuid.in_(some))
        ids |= {row.uuid: row.id for row in connection.execute(query)}
    return ids


def _from_row(row: Row[Any]) -> Consumer:
    return Consumer(row.uuid, row.name, row.kind, int(row.generation), row.expires, row.promised, row.beyond)


def _values(consumer: Consumer) -> dict[str, object]:
    """Return the columns that the writer of a consumer decides."""
    return {
        "name": consumer.name,
        "kind": consumer.kind,
        "expires": consumer.expires,
        "promised": consumer.promised,
        "beyond": consumer.beyond,
    }


def _changed(name: str, generation: int, expected: int) -> ConflictError:
    return ConflictError(f"{name}: changed by another client: its generation is {generation}, not {expected}")
