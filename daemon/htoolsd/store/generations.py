"""Generations, which every change raises, and which lock the rows of a transaction that writes.

All transactions lock in one order: consumers first, then providers by their ids. Two of them therefore never
deadlock: the second waits for the first. A transaction that has raised a provider's generation is alone with
its content until it ends, so the amounts that it reads then are final.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection, bindparam, select, update

from htoolsd.store.records import ConflictError, Consumer, UnknownError
from htoolsd.store.tables import allocations, chunks, consumers, providers

_LOCK = (
    update(consumers)
    .where(consumers.c.uuid.in_(bindparam("uuids", expanding=True)))
    .values(generation=consumers.c.generation + 1)
    .returning(consumers.c.uuid, consumers.c.id, consumers.c.generation)
)
_IDS = select(providers.c.uuid, providers.c.id).where(
    providers.c.uuid.in_(bindparam("uuids", expanding=True))
)
_RAISE = (
    update(providers)
    .where(providers.c.id == bindparam("which"))
    .values(generation=providers.c.generation + 1)
)
_COMPARE_AND_RAISE = _RAISE.where(providers.c.generation == bindparam("expected"))


def lock_consumers(
    connection: Connection, which: Collection[Consumer]
) -> tuple[dict[str, int], dict[str, int]]:
    """Raise the generations of known consumers; return their ids and new generations by uuid.

    Raises ConflictError where a consumer does not have the generation that is named.
    """
    ids, generations = dict[str, int](), dict[str, int]()
    for some in chunks([each.uuid for each in which]):
        for uuid, consumer_id, generation in connection.execute(_LOCK, {"uuids": some}):
            ids[uuid], generations[uuid] = consumer_id, generation
    for each in which:
        before = generations.get(each.uuid, 1) - 1
        if each.generation not in (None, before):
            raise ConflictError(
                f"{each.name}: changed by another client: its generation is {before}, not {each.generation}"
            )
    return ids, generations


def provider_ids(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """Return the ids of providers by uuid. Raises UnknownError."""
    found = known_provider_ids(connection, uuids)
    for uuid in uuids:
        if uuid not in found:
            raise UnknownError(f"there is no resource provider {uuid}")
    return found


def known_provider_ids(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """Return the ids of those providers that exist, by uuid."""
    return {row.uuid: row.id for some in chunks(uuids) for row in connection.execute(_IDS, {"uuids": some})}


def providers_of(connection: Connection, consumer_ids: Collection[int]) -> set[int]:
    """Return the ids of the providers with allocations to these consumers (ids)."""
    found: set[int] = set()
    for some in chunks(consumer_ids):
        query = select(allocations.c.resource_provider_id).where(allocations.c.consumer_id.in_(some))
        found |= set(connection.scalars(query.distinct()))
    return found


def raise_generations(
    connection: Connection, ids: Iterable[int], expected: Mapping[int, int] | None = None
) -> None:
    """Raise the generations of providers by one.

    Raises ConflictError where a generation is not the ``expected`` one.
    """
    for number in sorted(ids):
        if expected is None or number not in expected:
            connection.execute(_RAISE, {"which": number})
        elif not connection.execute(
            _COMPARE_AND_RAISE, {"which": number, "expected": expected[number]}
        ).rowcount:
            raise ConflictError(
                f"{provider_name(connection, number)}: changed by another client since generation"
                f" {expected[number]}"
            )


def provider_name(connection: Connection, provider_id: int) -> str:
    """Return the name of a provider."""
    name: str = connection.execute(select(providers.c.name).where(providers.c.id == provider_id)).scalar_one()
    return name
