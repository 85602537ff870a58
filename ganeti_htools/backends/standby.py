"""Nodes that stopped reporting, with their last figures, as a cluster in the text format.

htoolsd stores and passes on such nodes in this form; ``hsqueeze --standby-data`` reads it as well.
"""

from collections.abc import Iterable
from dataclasses import replace

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster, Node


def dump(cluster: Cluster, nodes: Iterable[Node]) -> str:
    """The text for nodes of a cluster."""
    rows = tuple(replace(node, master=False) for node in nodes)
    return text.dump(Cluster(cluster.groups, rows, ipolicy=cluster.ipolicy))


def parse(written: str, source: str) -> tuple[Node, ...]:
    """Return the nodes in such a text. Raises DataError naming the ``source``."""
    return text.parse(written, source).nodes
