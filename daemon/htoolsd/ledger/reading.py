"""What stands in the ledger, read in a transaction of the caller."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, Row, func, select

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger.records import Allocation, Amounts, Consumer, Contents, Provider
from htoolsd.ledger.tables import allocations, classes, consumers, inventories, providers

FIGURES = (  # of an Inventory, in its order
    inventories.c.total,
    inventories.c.reserved,
    inventories.c.min_unit,
    inventories.c.max_unit,
    inventories.c.step_size,
    inventories.c.allocation_ratio,
)
_ALL_INVENTORIES = (
    select(providers.c.uuid, classes.c.name, *FIGURES)
    .select_from(inventories.join(providers).join(classes))
    .order_by(providers.c.name, classes.c.name)
)
_ALL_ALLOCATIONS = (
    select(
        providers.c.uuid,
        consumers.c.uuid.label("consumer"),
        classes.c.name.label("resource_class"),
        allocations.c.used,
    )
    .select_from(allocations.join(providers).join(consumers).join(classes))
    .order_by(consumers.c.name, providers.c.name, classes.c.name)
)
_USED = (
    select(classes.c.name, func.sum(allocations.c.used))
    .select_from(allocations.join(providers).join(classes))
    .group_by(classes.c.name)
)


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
    query = _ALL_INVENTORIES if provider is None else _ALL_INVENTORIES.where(providers.c.uuid == provider)
    found: dict[str, dict[str, Inventory]] = defaultdict(dict)
    for uuid, name, *figures in connection.execute(query):
        found[uuid][name] = Inventory(*figures)
    return dict(found)


def all_consumers(connection: Connection, uuid: str | None = None) -> tuple[Consumer, ...]:
    """The consumers by name; those of the uuid only, if it is given."""
    query = select(consumers).order_by(consumers.c.name)
    query = query if uuid is None else query.where(consumers.c.uuid == uuid)
    return tuple(consumer_of(row) for row in connection.execute(query))


def consumer_of(row: Row[tuple[object, ...]]) -> Consumer:
    """A row of the table of consumers."""
    return Consumer(row.uuid, row.name, row.kind, row.generation, row.expires, row.promised, row.beyond)


def all_allocations(
    connection: Connection, consumer: str | None = None, provider: str | None = None
) -> tuple[Allocation, ...]:
    """What is allocated: to a consumer, of a provider."""
    query = _ALL_ALLOCATIONS
    query = query if consumer is None else query.where(consumers.c.uuid == consumer)
    query = query if provider is None else query.where(providers.c.uuid == provider)
    return tuple(Allocation(*row) for row in connection.execute(query))


def usage(connection: Connection, provider: str) -> Amounts:
    """What all consumers together use of a provider, by class."""
    query = _USED.where(providers.c.uuid == provider)
    return {name: int(used) for name, used in connection.execute(query)}


def counts(connection: Connection) -> Mapping[str, int]:
    """How many providers there are, claims (not what just exists), and of these beyond capacity."""
    claims = select(func.count()).select_from(consumers)
    claims = claims.where((consumers.c.kind != "instance") | consumers.c.promised.is_not(None))
    queries = {
        "providers": select(func.count()).select_from(providers),
        "claims": claims,
        "beyond": claims.where(consumers.c.beyond),
    }
    return {name: connection.execute(query).scalar_one() for name, query in queries.items()}


def contents(connection: Connection) -> Contents:
    """Everything."""
    held: dict[str, dict[str, dict[str, int]]] = {}
    for each in all_allocations(connection):
        of_provider = held.setdefault(each.consumer, {}).setdefault(each.provider, {})
        of_provider[each.resource_class] = each.used
    return Contents(
        {each.uuid: each for each in all_providers(connection)},
        all_inventories(connection),
        {each.uuid: each for each in all_consumers(connection)},
        held,
    )
