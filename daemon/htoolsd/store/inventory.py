"""Inventories: the amounts of resource classes that providers have."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, update

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.provider import provider_ids, raise_generations
from htoolsd.store.records import ConflictError
from htoolsd.store.tables import allocations, chunks, classes, inventories, providers

_FIGURES = [inventories.c[figure.name] for figure in fields(Inventory)]
SELECT_INVENTORIES = (
    select(providers.c.uuid, classes.c.name, *_FIGURES)
    .select_from(inventories.join(providers).join(classes))
    .order_by(providers.c.name, classes.c.name)
)
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


def read_inventories(
    connection: Connection, provider: str | None = None
) -> Mapping[str, Mapping[str, Inventory]]:
    """Return the inventories by provider and class; of one provider if its uuid is given."""
    query = SELECT_INVENTORIES
    query = query if provider is None else query.where(providers.c.uuid == provider)
    return inventories_from_rows(connection.execute(query))


def inventories_from_rows(rows: Iterable[Sequence[Any]]) -> dict[str, dict[str, Inventory]]:
    """Return the inventories in rows of SELECT_INVENTORIES, by provider and class.

    Raises ValueError for figures that htoolsd never writes, such as NaN.
    """
    found = defaultdict[str, dict[str, Inventory]](dict)
    for uuid, name, *figures in rows:
        inventory = Inventory(*figures)
        amounts = (inventory.total, inventory.reserved, inventory.min_unit, inventory.step_size)
        if not (all(type(each) is int for each in amounts) and math.isfinite(inventory.allocation_ratio)):
            raise ValueError(f"inventory of {name}: expected numbers, got {inventory}")
        found[uuid][name] = inventory
    return dict(found)


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
        row = {"resource_provider_id": provider_id, "resource_class_id": class_id, **asdict(inventory)}
        connection.execute(insert(inventories).values(**row))


def write_totals(connection: Connection, changed: Mapping[tuple[int, int], Inventory | None]) -> None:
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
    present = {which: inventory for which, inventory in changed.items() if inventory is not None}
    removed = [{"provider": which[0], "class": which[1]} for which in changed if which not in present]
    if removed:
        connection.execute(_DELETE_UNLESS_ADMINISTERED, removed)
        connection.execute(_UPDATE, [{**each, "total": 0} for each in removed])
    followed = [
        {
            "provider": which[0],
            "class": which[1],
            "total": each.total,
            "allocation_ratio": each.allocation_ratio,
            "max_unit": each.max_unit,
        }
        for which, each in present.items()
        if known.get(which) is False and not each.tagged
    ]
    tagged = [
        {"provider": which[0], "class": which[1], **asdict(each)}
        for which, each in present.items()
        if which in known and (known[which] or each.tagged)
    ]
    for updated in filter(None, (followed, tagged)):
        connection.execute(_UPDATE, updated)
    added = [
        {"resource_provider_id": which[0], "resource_class_id": which[1], **asdict(each)}
        for which, each in present.items()
        if which not in known
    ]
    if added:
        connection.execute(insert(inventories), added)
