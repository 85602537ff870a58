"""What standby nodes will have once they are powered up again.

Ganeti has no figures of nodes that are offline: they report nothing, not 0.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.furnished import with_disk
from ganeti_htools.model.tags import standby
from ganeti_htools.model.units import Units, survey


def furnished(cluster: Cluster) -> Cluster:
    """The cluster with figures for standby nodes that have none.

    They have what is known from before (``standby`` of the cluster), else what the smallest online node of
    their group with the same kind of storage has (by memory, then CPUs, then disk), and nothing on it. What
    cannot be known stays 0.
    """
    known = {node.name: node for node in cluster.standby}
    rows = []
    for node in cluster.nodes:
        if node.offline and not reports(node) and standby(node.tags):
            similar = _smallest(cluster, node)
            if node.name in known:
                node = _like(node, known[node.name])
            elif similar is not None:
                node = _like(node, *emptied(cluster, [similar]))
        rows.append(node)
    same = all(new is old for new, old in zip(rows, cluster.nodes, strict=True))
    return cluster if same else replace(cluster, nodes=tuple(rows))


def reports(node: Node) -> bool:
    """Whether a node tells its figures."""
    return node.t_mem > 0


def _smallest(cluster: Cluster, node: Node) -> Node | None:
    alike = [
        other
        for other in cluster.nodes
        if not other.offline
        and reports(other)
        and (other.group, other.excl_stor) == (node.group, node.excl_stor)
    ]
    return min(alike, key=lambda other: (other.t_mem, other.t_cpu, other.t_dsk), default=None)


def emptied(cluster: Cluster, nodes: Iterable[Node]) -> list[Node]:
    """Nodes of a cluster as they would be without its instances."""
    hosted = defaultdict[str, list[Instance]](list)
    for row in cluster.instances:
        for name in filter(None, {row.pnode, row.snode}):
            hosted[name].append(row)
    units = survey(cluster)
    return [_emptied(node, hosted[node.name], units) for node in nodes]


def _emptied(node: Node, instances: Iterable[Instance], units: Units) -> Node:
    memory = disk = spindles = 0
    room = {unit.desired: unit.free for unit in node.storage or ()}
    for row in instances:
        if node.name == row.pnode and row.uses_memory:
            memory += row.mem
        if not row.forthcoming:
            for unit, mib in units.wants(row).items():
                disk += mib if unit == units.local[0] else 0
                if unit in room:
                    room[unit] += mib
            spindles += row.spindles or 0 if row.template.local_storage else 0
    return replace(
        node,
        f_mem=min(node.f_mem + memory, int(node.t_mem)),
        f_dsk=min(node.f_dsk + disk, int(node.t_dsk)),
        f_spindles=min(node.f_spindles + spindles, node.t_spindles) if node.excl_stor else node.f_spindles,
        storage=node.storage
        and tuple(
            unit._replace(free=min(room[unit.desired], unit.total)) if unit.desired.type.local else unit
            for unit in node.storage
        ),
    )


def _like(node: Node, model: Node) -> Node:
    """The node with the figures of another."""
    return replace(
        with_disk(node, model),
        t_mem=model.t_mem,
        n_mem=model.n_mem,
        f_mem=model.f_mem,
        t_cpu=model.t_cpu,
        n_cpu=model.n_cpu,
        storage=model.storage,
    )
