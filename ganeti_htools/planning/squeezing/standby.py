"""Resources that standby nodes have once they are powered up again.

Ganeti has no figures of offline nodes: they report nothing, not 0.
"""

from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.known_storage import with_disk
from ganeti_htools.model.tags import standby
from ganeti_htools.model.without_instances import reports, without_instances


def with_standby_figures(cluster: Cluster) -> Cluster:
    """Fill in the figures of standby nodes that report none.

    A node gets its earlier figures (``standby`` of the cluster). Without these it gets the figures of the
    smallest online node of its group with the same kind of storage (by memory, then CPUs, then disk), empty.
    Other figures stay 0.
    """
    known = {node.name: node for node in cluster.standby}
    rows = []
    for node in cluster.nodes:
        if node.offline and not reports(node) and standby(node.tags):
            similar = _smallest(cluster, node)
            if node.name in known:
                node = _like(node, known[node.name])
            elif similar is not None:
                node = _like(node, *without_instances(cluster, [similar]))
        rows.append(node)
    same = all(new is old for new, old in zip(rows, cluster.nodes, strict=True))
    return cluster if same else replace(cluster, nodes=tuple(rows))


def _smallest(cluster: Cluster, node: Node) -> Node | None:
    alike = [
        other
        for other in cluster.nodes
        if not other.offline
        and reports(other)
        and (other.group, other.excl_stor) == (node.group, node.excl_stor)
    ]
    return min(alike, key=lambda other: (other.t_mem, other.t_cpu, other.t_dsk), default=None)


def _like(node: Node, model: Node) -> Node:
    """Return a node with the figures of another node."""
    return replace(
        with_disk(node, model),
        t_mem=model.t_mem,
        n_mem=model.n_mem,
        f_mem=model.f_mem,
        t_cpu=model.t_cpu,
        n_cpu=model.n_cpu,
        storage=model.storage,
    )
