"""The nodes of a cluster with the resources of its instances returned."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.node_after import node_after
from ganeti_htools.model.units import Units
from ganeti_htools.model.units_in_use import units_in_use


def reports(node: Node) -> bool:
    return node.t_mem > 0


def emptied(cluster: Cluster) -> Cluster:
    """Return a cluster as if its instances were gone."""
    return replace(cluster, nodes=tuple(without_instances(cluster, cluster.nodes)), instances=())


def without_instances(cluster: Cluster, nodes: Iterable[Node]) -> list[Node]:
    """Return nodes of a cluster as if its instances were gone."""
    hosted = defaultdict[str, list[Instance]](list)
    for row in cluster.instances:
        for name in filter(None, {row.pnode, row.snode}):
            hosted[name].append(row)
    units = units_in_use(cluster)
    return [_without(node, hosted[node.name], units) for node in nodes]


def _without(node: Node, instances: Iterable[Instance], units: Units) -> Node:
    for row in instances:
        node = node_after(node, row, units, memory=-int(node.name == row.pnode), storage=-1)
    return replace(
        node,
        f_mem=min(node.f_mem, int(node.t_mem)),
        f_dsk=min(node.f_dsk, int(node.t_dsk)),
        f_spindles=min(node.f_spindles, node.t_spindles) if node.excl_stor else node.f_spindles,
        storage=node.storage
        and tuple(
            unit._replace(free=min(unit.free, unit.total)) if unit.desired.type.local else unit
            for unit in node.storage
        ),
    )
