"""Nodes that stopped reporting, with their last figures, as a cluster in the text format.

htoolsd stores and passes on such nodes in this form; ``hsqueeze --standby-data`` reads it as well.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import DataError


def dump(cluster: Cluster, nodes: Iterable[Node]) -> str:
    rows = tuple(replace(node, master=False) for node in nodes)
    return text.dump(Cluster(cluster.groups, rows, ipolicy=cluster.ipolicy))


def parse(written: str, source: str) -> tuple[Node, ...]:
    """Return the nodes in such a text. Raises DataError naming the ``source``."""
    return text.parse(written, source).nodes


def parse_readable(written: str, source: str) -> tuple[Node, ...]:
    """Return the nodes of a damaged text whose rows can be read."""
    groups, rows = (*written.split("\n\n"), "")[:2]

    def parsed(groups: str, row: str = "") -> tuple[Node, ...] | None:
        with suppress(DataError):
            return parse(f"{groups}\n\n{row}\n\n\n\n", source)
        return None

    known = "\n".join(row for row in groups.splitlines() if parsed(row) is not None)
    return tuple(node for row in rows.splitlines() for node in parsed(known, row) or ())
