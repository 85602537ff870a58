"""Reservations: what decisions and plans must leave free of nodes and pools beyond the figures that Ganeti
reports.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.node_reservations import with_reserved
from ganeti_htools.model.storage import DesiredUnit


@dataclass(frozen=True, slots=True)
class Reservations:
    """The inventories of nodes, by name, and what is not for this cluster's instances (MiB) of pools.

    ``promised`` is the part of ``pools`` that is promised to instances of other clusters, by their names.
    ``pool_settings`` are inventories that administrators set for pools. ``promises`` are the amounts, by node
    and resource class, that are promised to instances of this cluster and not in use yet. Decisions count
    them as instances, so they are not in ``inventories``. ``untagged``: some inventories are in no tag, so
    programs without the daemon do not know them. ``claims`` names the claims by hand and of plans on each
    node. ``generation`` counts the changes.
    """

    inventories: Mapping[str, Inventories] = field(default_factory=dict)
    pools: Mapping[DesiredUnit, int] = field(default_factory=dict)
    promised: Mapping[str, Mapping[DesiredUnit, int]] = field(default_factory=dict)
    promises: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    pool_settings: Mapping[DesiredUnit, Inventory] = field(default_factory=dict)
    untagged: bool = False
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generation: int = 0


def update_reservations(known: Reservations, new: Reservations) -> Reservations:
    """Return the new reservations with the next generation; the known object if nothing has changed."""
    same = replace(new, generation=known.generation)
    return known if same == known else replace(new, generation=known.generation + 1)


def with_reservations(cluster: Cluster, reserved: Reservations) -> Cluster:
    """Return the cluster with the reservations; the same object if there are none."""
    if not (reserved.inventories or reserved.pools or reserved.pool_settings):
        return cluster
    found = reserved.inventories
    nodes = tuple(
        replace(node, inventories=each) if (each := found.get(node.name)) else node for node in cluster.nodes
    )
    pools = (pool._replace(taken=reserved.pools.get(pool.unit, 0)) for pool in cluster.pools)
    settings = dict(cluster.pool_settings) | dict(reserved.pool_settings)
    return replace(cluster, nodes=nodes, pools=tuple(pools), pool_settings=tuple(settings.items()))


def with_promises_reserved(cluster: Cluster, reserved: Reservations) -> Cluster:
    """Return the cluster with the promises to its own instances left free; the same object without any."""
    promises = reserved.promises
    if not promises:
        return cluster
    nodes = (with_reserved(node, promises.get(node.name, {})) for node in cluster.nodes)
    return replace(cluster, nodes=tuple(nodes))
