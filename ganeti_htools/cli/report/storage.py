"""Storage of a cluster and its faults, as text (``hinfo --storage``, ``hcheck``)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ganeti_htools.cli.report.layout import first_of, fitting_table, gib
from ganeti_htools.model.wording import size

if TYPE_CHECKING:
    from ganeti_htools.cli.report.storage_faults import MissingStorage, StorageFaults


def text(storage: Any) -> str:
    """Lay out :class:`.capacity.storage.ClusterStorage` in its JSON form."""
    return "".join(_tables(storage))


def _tables(storage: Any) -> Iterator[str]:
    units, pools = storage["units"], storage["pools"]
    yield "Storage units (free/total GiB):\n"
    space = [
        {each["node"]: f"{gib(each['free'])}/{gib(each['total'])}" for each in unit["nodes"]}
        for unit in units
    ]
    rows = [(node, *(figures.get(node, "-") for figures in space)) for node in storage["nodes"]]
    yield fitting_table(("Node", *map(name, units)), rows, (False, *[True] * len(units)), "  ")
    if pools:
        yield "Storage pools (GiB):\n"
        yield fitting_table(
            ("Pool", "Used", "Free", "Total", "Nodes"),
            map(_pool, pools),
            (False, True, True, True, False),
            "  ",
        )


def name(unit: Any) -> str:
    """Name a unit or pool by its type and key, if nodes report them."""
    return "/".join(filter(None, (unit["type"], unit["key"]))) or "disk"


def _pool(pool: Any) -> tuple[str, ...]:
    figures = ("-" if pool[each] is None else gib(pool[each]) for each in ("used", "free", "total"))
    return name(pool), *figures, "all" if pool["everywhere"] else ",".join(pool["nodes"])


def warnings(faults: "StorageFaults") -> Iterator[str]:
    """List the faults, one a line."""
    for each, what in ((faults.missing, "disks"), (faults.unmirrored, "mirrors")):
        for node, unit, instances in each:
            lacks = "does not see" if unit.type.pool else "does not report"
            yield f"node {node} {lacks} {unit}, where {what} of {first_of(instances)} are"
    for place, unit, total, free in faults.full:
        where = f"{unit} of node {place}" if place else str(unit)
        yield f"{where} is {100 * (total - free) // total} % full: {size(free)} of {size(total)} are free"


def faults_json(faults: "StorageFaults") -> dict[str, Any]:
    """Count instances and units by fault, and list the warnings."""
    return {
        "missing": _count(faults.missing),
        "unmirrored": _count(faults.unmirrored),
        "full": len(faults.full),
        "warnings": list(warnings(faults)),
    }


def _count(found: "tuple[MissingStorage, ...]") -> int:
    return len({name for each in found for name in each.instances})
