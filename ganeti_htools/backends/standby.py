"""Nodes that do not report any more, as they were when they last did: a cluster of them in the text format.

htoolsd keeps them so, and hands them over so; ``hsqueeze --standby-data`` reads such a file as well.
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
    """The nodes in such a text. Raises DataError, naming the ``source``."""
    return text.parse(written, source).nodes
