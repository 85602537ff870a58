"""What storage a cluster has: the units of its nodes, and its pools with the nodes that see them.

Ganeti's design "storage types" has this for nodes (``gnt-node list -o dtotal/drbd,dfree/file``).
"""

from dataclasses import dataclass

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.units import Units, pools_met, sees, unit_on


@dataclass(frozen=True, slots=True)
class Room:
    """A unit on a node; ``total`` and ``free`` in MiB."""

    node: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class LocalUnit:
    """A unit that nodes have, each its own; without name (type and key) while no node tells its units."""

    type: str | None
    key: str | None
    nodes: tuple[Room, ...]


@dataclass(frozen=True, slots=True)
class SharedPool:
    """A pool, the nodes that see it, and its ``total`` and ``free`` MiB; None if nobody tells."""

    type: str
    key: str
    total: int | None
    free: int | None
    nodes: tuple[str, ...]
    everywhere: bool

    @property
    def unit(self) -> DesiredUnit:
        """What it is."""
        return DesiredUnit(StorageType(self.type), self.key)


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of a cluster, and the names of its nodes."""

    nodes: tuple[str, ...]
    units: tuple[LocalUnit, ...]
    pools: tuple[SharedPool, ...]


def storage_of(cluster: Cluster, units: Units) -> Storage:
    """The storage of a cluster with these units. Nodes that are offline and tell nothing have none."""
    pools = sorted(pools_met(cluster, units), key=str)
    return Storage(
        tuple(node.name for node in cluster.nodes),
        tuple(_local(cluster, units, unit) for unit in units.local),
        tuple(_pool(cluster, units, pool) for pool in pools),
    )


def _local(cluster: Cluster, units: Units, wanted: DesiredUnit) -> LocalUnit:
    found = ((node, unit_on(node, units, wanted)) for node in cluster.nodes)
    rooms = tuple(
        Room(node.name, unit.total, unit.free)
        for node, unit in found
        if unit and not (node.offline and not unit.total)
    )
    return LocalUnit(wanted.type.value, wanted.key, rooms) if units.known else LocalUnit(None, None, rooms)


def _pool(cluster: Cluster, units: Units, pool: DesiredUnit) -> SharedPool:
    """A pool; of what nodes tell about it, the least counts, as they were not all asked at the same time.

    Where none tells, the cluster may: then there is what instances leave of it.
    """
    told = [unit for node in cluster.nodes for unit in node.storage or () if unit.desired == pool]
    least = min(told, key=lambda unit: unit.free, default=None)
    known = next((each for each in cluster.pools if each.unit == pool), None)
    if least is None and known is not None:
        total = known.total - known.reserved
        used = sum(units.wants(row).get(pool, 0) for row in cluster.instances)
        least = Unit(pool, total, max(0, total - used))
    seen = sees(cluster, pool)
    return SharedPool(
        pool.type.value,
        pool.key,
        least and least.total,
        least and least.free,
        tuple(node.name for node, sees in zip(cluster.nodes, seen, strict=True) if sees),
        all(seen),
    )
