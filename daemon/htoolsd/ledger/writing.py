"""Steps that all transactions which write have in common.

Each locks in one order: consumers, then providers by their ids. So two of them never wait for each other, and
whoever has raised a provider's generation is alone with what stands of it until the transaction ends; amounts
that are read after that are those that count.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from htoolsd.ledger.records import Allocations, ConflictError, Consumer, UnknownError
from htoolsd.ledger.tables import allocations, providers

_CHUNK = 500  # values in a statement

Value = TypeVar("Value", int, str)

_RAISE = (
    update(providers)
    .where(providers.c.id == bindparam("which"))
    .values(generation=providers.c.generation + 1)
)
_IDS = select(providers.c.uuid, providers.c.id).where(
    providers.c.uuid.in_(bindparam("uuids", expanding=True))
)
_COMPARE = _RAISE.where(providers.c.generation == bindparam("was"))


def consumer_values(consumer: Consumer) -> dict[str, object]:
    """The columns of a consumer's row that who writes it decides."""
    return {
        "name": consumer.name,
        "kind": consumer.kind,
        "expires": consumer.expires,
        "promised": consumer.promised,
        "beyond": consumer.beyond,
    }


def chunks(values: Iterable[Value]) -> Iterator[Sequence[Value]]:
    """The values in order, as many at a time as fit a statement."""
    listed = sorted(values)
    for start in range(0, len(listed), _CHUNK):
        yield listed[start : start + _CHUNK]


def provider_ids(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """The ids of providers. Raises UnknownError."""
    found = known_providers(connection, uuids)
    for uuid in uuids:
        if uuid not in found:
            raise UnknownError(f"there is no resource provider {uuid}")
    return found


def known_providers(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """The ids of those providers that are there."""
    return {row.uuid: row.id for some in chunks(uuids) for row in connection.execute(_IDS, {"uuids": some})}


def raise_generations(connection: Connection, ids: Iterable[int], was: Mapping[int, int]) -> None:
    """Raise the generations of providers. Raises ConflictError where one is not what it ``was``."""
    for number in sorted(ids):
        if number not in was:
            connection.execute(_RAISE, {"which": number})
        elif not connection.execute(_COMPARE, {"which": number, "was": was[number]}).rowcount:
            name = name_of(connection, number)
            raise ConflictError(
                f"{name}: somebody else was first: its generation is not {was[number]} any more"
            )


def name_of(connection: Connection, provider_id: int) -> str:
    """The name of a provider."""
    name: str = connection.execute(select(providers.c.name).where(providers.c.id == provider_id)).scalar_one()
    return name


def held_providers(connection: Connection, consumer_ids: Collection[int]) -> set[int]:
    """The ids of the providers of which these consumers (by id) have something."""
    found: set[int] = set()
    for some in chunks(consumer_ids):
        query = select(allocations.c.resource_provider_id).where(allocations.c.consumer_id.in_(some))
        found |= set(connection.scalars(query.distinct()))
    return found


def drop_allocations(connection: Connection, consumer_ids: Collection[int]) -> None:
    """Take everything from these consumers."""
    for some in chunks(consumer_ids):
        connection.execute(delete(allocations).where(allocations.c.consumer_id.in_(some)))


def add_allocations(
    connection: Connection,
    wanted: Mapping[int, Allocations],
    provider_of: Mapping[str, int],
    class_of: Mapping[str, int],
) -> None:
    """Allocate to consumers (by id) what they are to have."""
    rows = [
        {
            "resource_provider_id": provider_of[provider],
            "consumer_id": consumer,
            "resource_class_id": class_of[name],
            "used": used,
        }
        for consumer, each in wanted.items()
        for provider, amounts in each.items()
        for name, used in amounts.items()
    ]
    if rows:
        connection.execute(insert(allocations), rows)
