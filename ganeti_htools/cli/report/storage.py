"""What storage a cluster has, as text: the nodes by unit, and the pools (``hinfo --storage``)."""

from collections.abc import Iterator
from typing import Any

from ganeti_htools.cli.report.layout import table


def text(storage: Any) -> str:
    """Tables of :class:`.capacity.storage.Storage` in its JSON form."""
    return "".join(_tables(storage))


def _tables(storage: Any) -> Iterator[str]:
    units, pools = storage["units"], storage["pools"]
    yield "Storage units (free/total MiB):\n"
    room = [{each["node"]: f"{each['free']}/{each['total']}" for each in unit["nodes"]} for unit in units]
    rows = [(node, *(there.get(node, "-") for there in room)) for node in storage["nodes"]]
    yield table(("Node", *map(name, units)), rows, (False, *[True] * len(units)), "  ")
    if pools:
        yield "Storage pools (MiB):\n"
        yield table(("Pool", "Free", "Total", "Nodes"), map(_pool, pools), (False, True, True, False), "  ")


def name(unit: Any) -> str:
    """What a unit or pool is called: its type and key, if nodes tell those."""
    return "/".join(filter(None, (unit["type"], unit["key"]))) or "disk"


def _pool(pool: Any) -> tuple[str, str, str, str]:
    free, total = ("-" if pool[figure] is None else str(pool[figure]) for figure in ("free", "total"))
    return name(pool), free, total, "all" if pool["everywhere"] else ",".join(pool["nodes"])
