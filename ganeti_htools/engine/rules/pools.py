"""Free space in storage pools, and the number of instances that fit there.

A pool is shared by all nodes, so it is no limit of a node. A pool of unknown size has no limit. Moves take
nothing of a pool.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, Unit
from ganeti_htools.model.units import Units, taken_of_pools


def pool_units(cluster: Cluster, units: Units) -> dict[DesiredUnit, Unit]:
    """Find the total and free space of each pool.

    If nodes report different figures, which may be of different times, the lowest free space counts. If no
    node reports a pool, the cluster's figure counts, less what instances take, and no more than was measured.
    What administrators reserve is not free.
    """
    found: dict[DesiredUnit, Unit] = {}
    for unit in (unit for node in cluster.nodes for unit in node.storage or () if unit.desired.type.pool):
        known = found.get(unit.desired, unit)
        found[unit.desired] = min(known, unit, key=lambda each: each.free)
    reserved = {pool: each.reserved for pool, each in cluster.pool_settings}
    for unit in found.values():
        found[unit.desired] = unit._replace(free=unit.free - reserved.get(unit.desired, 0))
    if cluster.pools:
        used = taken_of_pools(units, (row for row in cluster.instances if not row.forthcoming))
        for pool in cluster.pools:
            more = reserved.get(pool.unit, 0)
            total = max(0, pool.capacity(pool.total, more) - pool.taken)
            free = total - used[pool.unit]
            if pool.free is not None:  # what others have taken is not free already
                free = min(free, pool.capacity(pool.free, more))
            found.setdefault(pool.unit, Unit(pool.unit, total, max(0, free)))
    return found


class PoolRoom(NamedTuple):
    """Free space (MiB) of pools of known size, without the instances from row ``first`` on."""

    free: Mapping[DesiredUnit, int]
    first: int

    def free_after(self, state: State) -> dict[DesiredUnit, int]:
        """Compute the free space less what the later instances take."""
        new = taken_of_pools(state.units, state.cluster.instances[self.first :]) if self.free else Counter()
        return {pool: free - new[pool] for pool, free in self.free.items()}


NO_POOLS = PoolRoom({}, 0)


def pool_room(state: State) -> PoolRoom:
    """Compute the free space of known pools, less what forthcoming instances are going to take."""
    free = {pool: unit.free for pool, unit in pool_units(state.cluster, state.units).items()}
    rows = state.cluster.instances
    waiting = taken_of_pools(state.units, (row for row in rows if row.forthcoming)) if free else Counter()
    return PoolRoom({pool: mib - waiting[pool] for pool, mib in free.items()}, len(rows))


def fit(left: Mapping[DesiredUnit, int], state: State, row: Instance, limited: bool = True) -> int | None:
    """Count the instances like ``row`` that leave some space free in pools; None if there is no limit.

    Without ``limited``, limits of the amount of one instance do not count.
    """
    wants = state.units.pool_needs(row) if left or state.cluster.pool_settings else {}
    if limited and _refusal(wants, state):
        return 0
    counts = [max(0, left[pool] - 1) // size for pool, size in wants.items() if size and pool in left]
    return min(counts, default=None)


def full_pool(left: Mapping[DesiredUnit, int], state: State, row: Instance) -> str | None:
    """Describe which pool lacks how much for an instance like ``row``, or refuses its size; None if no pool
    does.
    """
    wants = state.units.pool_needs(row) if left or state.cluster.pool_settings else {}
    for pool, size in wants.items():
        if size and size >= left.get(pool, size + 1):
            return f"space in {pool}, which lacks {size + 1 - left[pool]} MiB"
    return _refusal(wants, state)


def _refusal(wants: Mapping[DesiredUnit, int], state: State) -> str | None:
    """Describe which pool must not give so much to one instance; None if all may."""
    for pool, limits in state.cluster.pool_settings:
        size = wants.get(pool, 0)
        allowed = limits.refusal(size) if size else None
        if allowed:
            return f"a size that {pool} gives to one instance: {allowed} MiB, not {size} MiB"
    return None


def limits_amounts(cluster: Cluster) -> bool:
    """Whether some pool limits the amount of one instance."""
    return any(each.limits_amounts for _, each in cluster.pool_settings)
