"""What standby nodes will have once they are powered up again.

Ganeti has no figures of nodes that are offline: they report nothing, not 0.
"""

from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import standby
from ganeti_htools.model.units import survey


def furnished(cluster: Cluster, before: Cluster | None = None) -> Cluster:
    """The cluster with figures for standby nodes that have none.

    They have what they had in the cluster from ``before``, else what the smallest online node of their group
    with the same kind of storage has (by memory, then CPUs, then disk), and nothing on it. What cannot be
    known stays 0.
    """
    known = {node.name: node for node in before.nodes if _told(node)} if before else {}
    rows = []
    for node in cluster.nodes:
        if node.offline and not _told(node) and standby(node.tags):
            old, similar = known.get(node.name), _smallest(cluster, node)
            if before is not None and old is not None:
                node = _like(node, emptied(before, old))
            elif similar is not None:
                node = _like(node, emptied(cluster, similar))
        rows.append(node)
    same = all(new is old for new, old in zip(rows, cluster.nodes, strict=True))
    return cluster if same else replace(cluster, nodes=tuple(rows))


def _told(node: Node) -> bool:
    return node.t_mem > 0


def _smallest(cluster: Cluster, node: Node) -> Node | None:
    alike = [
        other
        for other in cluster.nodes
        if not other.offline
        and _told(other)
        and (other.group, other.excl_stor) == (node.group, node.excl_stor)
    ]
    return min(alike, key=lambda other: (other.t_mem, other.t_cpu, other.t_dsk), default=None)


def emptied(cluster: Cluster, node: Node) -> Node:
    """A node of a cluster as it would be without its instances."""
    units = survey(cluster)
    memory = disk = spindles = 0
    room = {unit.desired: unit.free for unit in node.storage or ()}
    for row in cluster.instances:
        if node.name == row.pnode and row.uses_memory:
            memory += row.mem
        if node.name in (row.pnode, row.snode) and not row.forthcoming:
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
    made = replace(
        node,
        t_mem=model.t_mem,
        n_mem=model.n_mem,
        f_mem=model.f_mem,
        t_dsk=model.t_dsk,
        f_dsk=model.f_dsk,
        t_cpu=model.t_cpu,
        n_cpu=model.n_cpu,
        storage=model.storage,
    )
    if not node.excl_stor:
        return made
    return replace(made, t_spindles=model.t_spindles, f_spindles=model.f_spindles)
