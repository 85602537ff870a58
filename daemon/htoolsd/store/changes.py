"""Changes of the ledger that no capacity limits: those that follow a cluster, and inventories."""

from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, update

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.claiming import add_allocations, delete_allocations, write_consumers
from htoolsd.store.generations import (
    known_provider_ids,
    lock_consumers,
    provider_ids,
    providers_of,
    raise_generations,
)
from htoolsd.store.records import ConflictError, LedgerChanges
from htoolsd.store.tables import allocations, chunks, consumers, delete_rows, inventories, providers

_THIS = (
    inventories.c.resource_provider_id == bindparam("provider"),
    inventories.c.resource_class_id == bindparam("class"),
)
_UPDATE = update(inventories).where(*_THIS)
_UNTOUCHED = and_(
    inventories.c.reserved == 0,
    inventories.c.min_unit == 1,
    inventories.c.max_unit.is_(None),
    inventories.c.step_size == 1,
)
_DELETE_UNLESS_ADMINISTERED = delete(inventories).where(*_THIS, or_(inventories.c.tagged, _UNTOUCHED))
_DESCRIBE = update(providers).where(providers.c.uuid == bindparam("which"))


def set_inventory(
    connection: Connection, provider: str, generation: int, class_id: int, inventory: Inventory | None
) -> None:
    """Set all figures of an inventory, or remove it (None). Raises ConflictError, UnknownError."""
    (provider_id,) = provider_ids(connection, [provider]).values()
    raise_generations(connection, [provider_id], {provider_id: generation})
    which = {"provider": provider_id, "class": class_id}
    if inventory is None:
        query = select(allocations.c.id).where(
            allocations.c.resource_provider_id == provider_id, allocations.c.resource_class_id == class_id
        )
        if connection.execute(query).first():
            raise ConflictError("the inventory is in use")
        connection.execute(delete(inventories).where(*_THIS), which)
    elif not connection.execute(_UPDATE, which | asdict(inventory)).rowcount:
        _add_inventories(connection, {(provider_id, class_id): inventory})


def apply_changes(connection: Connection, changes: LedgerChanges, class_ids: Mapping[str, int]) -> None:
    """Write changes, and raise the generations of everything that they touch.

    Capacity is not checked, since the resources are already in use. Raises UnknownError; ConflictError where
    a consumer does not have the generation that is named.
    """
    known, _ = lock_consumers(connection, [each for each, _ in changes.allocations])
    present = [(each, used) for each, used in changes.allocations if used]
    consumer_ids = write_consumers(connection, (each for each, _ in present), known)
    touched = providers_of(connection, known.values())
    described = [
        {"which": each.uuid, "name": each.name, "can_host": each.can_host} for each in changes.providers
    ]
    there = known_provider_ids(connection, {each.uuid for each in changes.providers})
    new = [
        {"uuid": each["which"], "generation": 0, **each} for each in described if each["which"] not in there
    ]
    if new:
        connection.execute(insert(providers), new)
    named = {*(each.uuid for each in changes.providers), *changes.inventories, *changes.lost_providers}
    ids = provider_ids(connection, named.union(*(used for _, used in present)))
    raise_generations(connection, touched | set(ids.values()))
    if described:
        connection.execute(_DESCRIBE, described)
    delete_allocations(connection, known.values())
    gone = [known[each.uuid] for each, used in changes.allocations if not used and each.uuid in known]
    delete_rows(connection, consumers.c.id, gone)
    _write_totals(
        connection,
        {
            (ids[uuid], class_ids[name]): inventory
            for uuid, found in changes.inventories.items()
            for name, inventory in found.items()
        },
    )
    add_allocations(connection, ((consumer_ids[each.uuid], used) for each, used in present), ids, class_ids)
    lost = [ids[uuid] for uuid in changes.lost_providers]
    for column in (allocations.c.resource_provider_id, inventories.c.resource_provider_id, providers.c.id):
        delete_rows(connection, column, lost)


def _write_totals(connection: Connection, changed: Mapping[tuple[int, int], Inventory | None]) -> None:
    """Write totals, allocation ratios and largest amounts, by provider and class (ids); None removes one.

    All figures of an inventory in a tag, or that was in one, are written. Otherwise the administrator's
    figures stay. An inventory that has such figures is therefore not removed: its total becomes 0, and the
    figures hold again when it returns.
    """
    known = dict[tuple[int, int], bool]()  # whether they were in tags
    for some in chunks({provider for provider, _ in changed}):
        columns = inventories.c.resource_provider_id, inventories.c.resource_class_id
        query = select(*columns, inventories.c.tagged).where(columns[0].in_(some))
        known |= {(provider, name): tagged for provider, name, tagged in connection.execute(query)}
    removed, followed, tagged = (list[dict[str, object]]() for _ in range(3))
    added = dict[tuple[int, int], Inventory]()
    for (provider, name), each in changed.items():
        which: dict[str, object] = {"provider": provider, "class": name}
        if each is None:
            removed.append(which)
        elif (provider, name) not in known:
            added[provider, name] = each
        elif each.tagged or known[provider, name]:
            tagged.append(which | asdict(each))
        else:
            names = "total", "allocation_ratio", "max_unit"
            followed.append(which | {figure: getattr(each, figure) for figure in names})
    if removed:
        connection.execute(_DELETE_UNLESS_ADMINISTERED, removed)
        connection.execute(_UPDATE, [{**each, "total": 0} for each in removed])
    for updated in filter(None, (followed, tagged)):
        connection.execute(_UPDATE, updated)
    _add_inventories(connection, added)


def _add_inventories(connection: Connection, new: Mapping[tuple[int, int], Inventory]) -> None:
    rows = [
        {"resource_provider_id": provider, "resource_class_id": name, **asdict(each)}
        for (provider, name), each in new.items()
    ]
    if rows:
        connection.execute(insert(inventories), rows)
