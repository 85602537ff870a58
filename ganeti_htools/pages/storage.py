"""The section of a page about storage units and pools."""

from collections.abc import Iterator

from ganeti_htools.engine.capacity.storage import ClusterStorage, storage_of
from ganeti_htools.model.state import State
from ganeti_htools.model.units_in_use import units_in_use
from ganeti_htools.model.wording import size
from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, section, table
from ganeti_htools.pages.sides import Side, change, percent, short_name


def storage(before: Side, after: Side | None) -> Markup:
    """Return the storage units and pools; an empty text if nodes report none."""
    if not before.state.units.reported:
        return Markup()
    ends = [{room[0]: room for room in _rooms(_storage(end.state))} for end in (before, after) if end]
    figures = []
    for name, (_, where, _, total) in ends[-1].items():
        # There is no figure before of a pool that only new instances use.
        figures.append((name, where, [end[name][2] if name in end else None for end in ends], total))
    rows, bars = [], []
    for name, where, free, total in figures:
        left = change(["unknown" if each is None else size(each) for each in free])
        rows.append((name, where, "unknown" if total is None else size(total), left))
        if total and None not in free:
            used = [1 - each / total for each in free if each is not None]
            text = change([percent(each) for each in used])
            bars.append(
                pictures.row(short_name(name), pictures.usage(used[-1], used[0] if after else None), text)
            )
    caption = f"Storage units and pools{', before → after the plan' if after else ''}"
    listed = table(caption, ("Unit", "Nodes", "Total", "Free"), rows, (False, True, True, True))
    legend = element("p", "The bar is the used share of all nodes together.", class_="quiet")
    return section("Storage units", legend, element("div", *bars, class_="long"), listed)


def _storage(state: State) -> ClusterStorage:
    cluster = state.to_cluster()
    return storage_of(cluster, units_in_use(cluster))


def _rooms(told: ClusterStorage) -> Iterator[tuple[str, str, int | None, int | None]]:
    """Yield name, number of nodes, free and total MiB of each unit and pool."""
    for unit in told.units:
        free, total = (sum(getattr(node, each) for node in unit.nodes) for each in ("free", "total"))
        yield f"{unit.type}/{unit.key}".removesuffix("/"), str(len(unit.nodes)), free, total
    for pool in told.pools:
        yield f"{pool.type}/{pool.key}".removesuffix("/"), str(len(pool.nodes)), pool.free, pool.total
