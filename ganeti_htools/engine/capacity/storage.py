"""The storage of a cluster: the units of its nodes, and its pools with the nodes that see them.

Ganeti's design "storage types" has this for nodes (``gnt-node list -o dtotal/drbd,dfree/file``).
"""

from dataclasses import dataclass

from ganeti_htools.engine.rules.pools import pool_units
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.units import Units, taken_of_pools, unit_on
from ganeti_htools.model.units_in_use import known_pools, nodes_seeing


@dataclass(frozen=True, slots=True)
class UnitOnNode:
    """A unit on a node; ``total`` and ``free`` in MiB."""

    node: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class LocalUnit:
    """A unit that nodes have, each its own; without name (type and key) while no node tells its units."""

    type: str | None
    key: str | None
    nodes: tuple[UnitOnNode, ...]


@dataclass(frozen=True, slots=True)
class SharedPool:
    """A pool, the nodes that see it, what instances use of it, and its ``total`` and ``free`` MiB.

    Total and free are None if they are unknown.
    """

    type: str
    key: str
    used: int
    total: int | None
    free: int | None
    nodes: tuple[str, ...]
    everywhere: bool

    @property
    def unit(self) -> DesiredUnit:
        return DesiredUnit(StorageType(self.type), self.key)


@dataclass(frozen=True, slots=True)
class ClusterStorage:
    """The storage of a cluster, and the names of its nodes."""

    nodes: tuple[str, ...]
    units: tuple[LocalUnit, ...]
    pools: tuple[SharedPool, ...]


def storage_of(cluster: Cluster, units: Units) -> ClusterStorage:
    """The storage of a cluster with these units. A node that tells its units has none without any room."""
    figures, pools = pool_units(cluster, units), sorted(known_pools(cluster, units), key=str)
    used = taken_of_pools(units, (row for row in cluster.instances if not row.forthcoming)) if pools else {}
    return ClusterStorage(
        tuple(node.name for node in cluster.nodes),
        tuple(_local(cluster, units, unit) for unit in units.local),
        tuple(_pool(cluster, pool, used.get(pool, 0), figures.get(pool)) for pool in pools),
    )


def _local(cluster: Cluster, units: Units, wanted: DesiredUnit) -> LocalUnit:
    found = ((node, unit_on(node, units, wanted)) for node in cluster.nodes)
    rooms = tuple(
        UnitOnNode(node.name, unit.total, unit.free)
        for node, unit in found
        if unit and (unit.total or not (units.reported or node.offline))
    )
    return LocalUnit(wanted.type.value, wanted.key, rooms) if units.reported else LocalUnit(None, None, rooms)


def _pool(cluster: Cluster, pool: DesiredUnit, used: int, known: Unit | None) -> SharedPool:
    seen = nodes_seeing(cluster, pool)
    return SharedPool(
        pool.type.value,
        pool.key,
        used,
        known and known.total,
        known and known.free,
        tuple(node.name for node, nodes_seeing in zip(cluster.nodes, seen, strict=True) if nodes_seeing),
        all(seen),
    )
