"""Reservations: what decisions and plans must leave free of nodes and pools beyond the figures that Ganeti
reports.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.node_reservations import with_reserved
from ganeti_htools.model.storage import DesiredUnit, Pool


@dataclass(frozen=True, slots=True)
class Reservations:
    """The inventories of nodes, by name, and what is reserved (MiB) of pools.

    ``promised`` is the part of ``pools`` that is promised to instances of other clusters, by their names.
    ``promises`` are the amounts, by node and resource class, that are promised to instances of this cluster
    and not in use yet. Decisions count them as instances, so they are not in ``inventories``.
    ``generation`` counts the changes.
    """

    inventories: Mapping[str, Inventories] = field(default_factory=dict)
    pools: Mapping[DesiredUnit, int] = field(default_factory=dict)
    promised: Mapping[str, Mapping[DesiredUnit, int]] = field(default_factory=dict)
    promises: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    generation: int = 0


def update_reservations(known: Reservations, new: Reservations) -> Reservations:
    """Return the new reservations with the next generation; the known object if nothing has changed."""
    same = replace(new, generation=known.generation)
    return known if same == known else replace(new, generation=known.generation + 1)


def with_reservations(cluster: Cluster, reserved: Reservations) -> Cluster:
    """Return the cluster with the reservations; the same object if there are none."""
    if not reserved.inventories and not reserved.pools:
        return cluster
    nodes = tuple(_with_inventories(node, reserved.inventories.get(node.name, ())) for node in cluster.nodes)
    return replace(
        cluster, nodes=nodes, pools=tuple(_with_reserved(pool, reserved) for pool in cluster.pools)
    )


def with_promises_reserved(cluster: Cluster, reserved: Reservations) -> Cluster:
    """Return the cluster with the promises to its own instances left free; the same object without any."""
    promises = reserved.promises
    if not promises:
        return cluster
    nodes = (with_reserved(node, promises.get(node.name, {})) for node in cluster.nodes)
    return replace(cluster, nodes=tuple(nodes))


def _with_inventories(node: Node, inventories: Inventories) -> Node:
    return replace(node, inventories=inventories) if inventories else node


def _with_reserved(pool: Pool, reserved: Reservations) -> Pool:
    return pool._replace(reserved=min(pool.total, pool.reserved + reserved.pools.get(pool.unit, 0)))
