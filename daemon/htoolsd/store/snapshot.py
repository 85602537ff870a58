"""The whole ledger: counted, read at one moment, refreshed, and brought in step with a cluster."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, func, select

from htoolsd.store.allocation import (
    add_allocations,
    delete_allocations,
    providers_of,
    read_allocations,
    read_usage,
)
from htoolsd.store.consumer import consumers_of, read_consumers, write_consumers
from htoolsd.store.inventory import read_inventories, write_totals
from htoolsd.store.provider import (
    add_providers,
    describe_providers,
    provider_ids,
    raise_generations,
    read_providers,
)
from htoolsd.store.records import (
    EXISTING_KINDS,
    LedgerChanges,
    LedgerSnapshot,
    Provider,
    ProviderUsage,
    ResourceAllocation,
)
from htoolsd.store.tables import allocations, consumers, delete_rows, inventories, providers

_FEW = 50  # changed providers; more are not read one by one


def count(connection: Connection) -> Mapping[str, int]:
    """Count ``providers``, ``claims``, and the claims that go ``beyond`` the capacity."""
    claims = select(func.count()).select_from(consumers)
    claims = claims.where(consumers.c.kind.not_in(EXISTING_KINDS) | consumers.c.promised.is_not(None))
    queries = {
        "providers": select(func.count()).select_from(providers),
        "claims": claims,
        "beyond": claims.where(consumers.c.beyond),
    }
    return {name: connection.execute(query).scalar_one() for name, query in queries.items()}


def read_provider_usages(connection: Connection, provider: str | None = None) -> tuple[ProviderUsage, ...]:
    """Return providers with inventories and usage, by name; or only one of them (uuid)."""
    found, used = read_inventories(connection, provider), read_usage(connection, provider)
    return tuple(
        ProviderUsage(each, found.get(each.uuid, {}), used.get(each.uuid, {}))
        for each in read_providers(connection, provider)
    )


def read_snapshot(connection: Connection, consumer: str | None = None) -> LedgerSnapshot:
    """Return the whole ledger.

    Or one consumer with its allocations and their providers, without inventories.
    """
    allocated = _by_consumer(read_allocations(connection, consumer))
    if consumer is None:
        found, offered = read_providers(connection), read_inventories(connection)
    else:
        uuids = allocated.get(consumer, {})
        found, offered = tuple(each for uuid in uuids for each in read_providers(connection, uuid)), {}
    return LedgerSnapshot(
        {each.uuid: each for each in found},
        offered,
        {each.uuid: each for each in read_consumers(connection, consumer)},
        allocated,
    )


def refresh(
    connection: Connection, known: LedgerSnapshot, some: Collection[str] | None = None
) -> LedgerSnapshot:
    """Return the whole ledger. Only providers whose generation has changed are read again.

    With ``some`` providers (uuids), all others stay as they are in the ``known`` snapshot. The parts that
    have not changed are the same objects.
    """
    before = known.providers
    if some is None:
        now = {each.uuid: each for each in read_providers(connection)}
    else:
        now = {uuid: each for uuid, each in before.items() if uuid not in some}
        now |= {each.uuid: each for uuid in some for each in read_providers(connection, uuid)}
    changed = [uuid for uuid in {**before, **now} if before.get(uuid) != now.get(uuid)]
    if len(changed) > _FEW:
        return read_snapshot(connection)
    found = _refreshed(connection, known, now, changed) if changed else known
    return found if some is not None else _without_gone(connection, found)


def _without_gone(connection: Connection, known: LedgerSnapshot) -> LedgerSnapshot:
    """Return a snapshot without consumers that had no allocations and are gone: no generation shows that."""
    bare = known.consumers.keys() - known.allocations.keys()
    gone = bare - set(connection.scalars(select(consumers.c.uuid))) if bare else ()
    if not gone:
        return known
    return replace(
        known, consumers={uuid: each for uuid, each in known.consumers.items() if uuid not in gone}
    )


def apply_changes(connection: Connection, changes: LedgerChanges, class_ids: Mapping[str, int]) -> None:
    """Write changes, and raise the generations of everything that they touch.

    Capacity is not checked, since the resources are already in use. Raises UnknownError; ConflictError where
    a consumer does not have the generation that is named.
    """
    ids = write_consumers(connection, [each for each, _ in changes.allocations], changes.gone_consumers)
    touched = providers_of(connection, ids.values())
    add_providers(connection, changes.providers)
    used = {uuid for _, each in changes.allocations for uuid in each}
    named = {*(each.uuid for each in changes.providers), *changes.inventories, *changes.lost_providers}
    provider_of = provider_ids(connection, named | used)
    raise_generations(connection, touched | set(provider_of.values()), {})
    describe_providers(connection, changes.providers)
    delete_allocations(connection, ids.values())
    gone = [ids[each.uuid] for each in changes.gone_consumers if each.uuid in ids]
    delete_rows(connection, consumers.c.id, gone)
    write_totals(
        connection,
        {
            (provider_of[uuid], class_ids[name]): inventory
            for uuid, found in changes.inventories.items()
            for name, inventory in found.items()
        },
    )
    wanted = {ids[consumer.uuid]: each for consumer, each in changes.allocations}
    add_allocations(connection, wanted, provider_of, class_ids)
    lost = [provider_of[uuid] for uuid in changes.lost_providers]
    for column in (allocations.c.resource_provider_id, inventories.c.resource_provider_id, providers.c.id):
        delete_rows(connection, column, lost)


def _refreshed(
    connection: Connection, known: LedgerSnapshot, now: Mapping[str, Provider], changed: Sequence[str]
) -> LedgerSnapshot:
    """Return the known snapshot with the present content of the changed providers."""
    offered = dict(known.inventories)
    for uuid in changed:
        offered.pop(uuid, None)
        offered |= read_inventories(connection, uuid)
    read = _by_consumer(each for uuid in changed for each in read_allocations(connection, provider=uuid))
    found, allocated = dict(known.consumers), dict(known.allocations)
    outdated = frozenset(changed)
    for uuid in [uuid for uuid, each in allocated.items() if uuid in read or not outdated.isdisjoint(each)]:
        rest = {name: amounts for name, amounts in allocated.pop(uuid).items() if name not in outdated}
        if rest or uuid in read:
            allocated[uuid] = rest | read.get(uuid, {})
        else:
            found.pop(uuid, None)
    allocated |= {uuid: each for uuid, each in read.items() if uuid not in allocated}
    for uuid in changed:
        found |= {each.uuid: each for each in consumers_of(connection, uuid)}
    same = offered == known.inventories
    return LedgerSnapshot(now, known.inventories if same else offered, found, allocated)


def _by_consumer(found: Iterable[ResourceAllocation]) -> dict[str, dict[str, dict[str, int]]]:
    """Return the allocations of each consumer, by provider and class."""
    amounts: dict[str, dict[str, dict[str, int]]] = {}
    for each in found:
        amounts.setdefault(each.consumer, {}).setdefault(each.provider, {})[each.resource_class] = each.used
    return amounts
