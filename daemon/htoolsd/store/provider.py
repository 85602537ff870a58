"""Resource providers: their rows, and their generations, which every change of their content raises."""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection, bindparam, insert, select, update

from htoolsd.store.records import ConflictError, Provider, UnknownError
from htoolsd.store.tables import chunks, providers

_IDS = select(providers.c.uuid, providers.c.id).where(
    providers.c.uuid.in_(bindparam("uuids", expanding=True))
)
_RAISE = (
    update(providers)
    .where(providers.c.id == bindparam("which"))
    .values(generation=providers.c.generation + 1)
)
_COMPARE_AND_RAISE = _RAISE.where(providers.c.generation == bindparam("expected"))
_DESCRIBE = update(providers).where(providers.c.uuid == bindparam("which"))


def read_providers(connection: Connection, uuid: str | None = None) -> tuple[Provider, ...]:
    """Return the providers by name, or only the one with this uuid."""
    query = select(providers).order_by(providers.c.name)
    query = query if uuid is None else query.where(providers.c.uuid == uuid)
    return tuple(
        Provider(row.uuid, row.name, int(row.generation), row.can_host) for row in connection.execute(query)
    )


def read_provider(connection: Connection, uuid: str) -> Provider:
    """Return one provider. Raises UnknownError."""
    found = read_providers(connection, uuid)
    if not found:
        raise _unknown(uuid)
    return found[0]


def provider_name(connection: Connection, provider_id: int) -> str:
    """Return the name of a provider."""
    name: str = connection.execute(select(providers.c.name).where(providers.c.id == provider_id)).scalar_one()
    return name


def provider_ids(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """Return the ids of providers by uuid. Raises UnknownError."""
    found = _known_ids(connection, uuids)
    for uuid in uuids:
        if uuid not in found:
            raise _unknown(uuid)
    return found


def add_providers(connection: Connection, described: Collection[Provider]) -> None:
    """Add those providers that the ledger does not have, with generation 0."""
    known = _known_ids(connection, {each.uuid for each in described})
    new = [
        {"uuid": each.uuid, "generation": 0, **_description(each)}
        for each in described
        if each.uuid not in known
    ]
    if new:
        connection.execute(insert(providers), new)


def describe_providers(connection: Connection, described: Collection[Provider]) -> None:
    """Write the names of providers, and whether they host instances."""
    if described:
        connection.execute(_DESCRIBE, [{"which": each.uuid, **_description(each)} for each in described])


def raise_generations(connection: Connection, ids: Iterable[int], expected: Mapping[int, int]) -> None:
    """Raise the generations of providers by one, and lock the providers until the transaction ends.

    Raises ConflictError where a generation is not the ``expected`` one.
    """
    for number in sorted(ids):
        if number not in expected:
            connection.execute(_RAISE, {"which": number})
        elif not connection.execute(
            _COMPARE_AND_RAISE, {"which": number, "expected": expected[number]}
        ).rowcount:
            raise ConflictError(
                f"{provider_name(connection, number)}: changed by another client since generation"
                f" {expected[number]}"
            )


def _known_ids(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    return {row.uuid: row.id for some in chunks(uuids) for row in connection.execute(_IDS, {"uuids": some})}


def _description(provider: Provider) -> dict[str, object]:
    return {"name": provider.name, "can_host": provider.can_host}


def _unknown(uuid: str) -> UnknownError:
    return UnknownError(f"there is no resource provider {uuid}")
