"""How many more instances pools have room for. A pool is one for all nodes, so it is no node's limit."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit


class PoolRoom(NamedTuple):
    """What pools have free (MiB), where that is known, without the instances from row ``first`` on."""

    free: Mapping[DesiredUnit, int] = {}
    first: int = 0

    def left(self, state: State) -> dict[DesiredUnit, int]:
        """What is free with them."""
        new = Counter[DesiredUnit]()
        for row in state.cluster.instances[self.first :] if self.free else ():
            new.update(state.units.wants(row))
        return {pool: free - new[pool] for pool, free in self.free.items()}


def pool_room(state: State) -> PoolRoom:
    """What pools have free as nodes tell it."""
    pools = storage_of(state.cluster, state.units).pools
    free = {pool.unit: pool.free for pool in pools if pool.free is not None}
    return PoolRoom(free, len(state.cluster.instances))


def fit(left: Mapping[DesiredUnit, int], state: State, row: Instance) -> int | None:
    """How many instances like ``row`` leave something free of pools with so much left; None if any number."""
    wants = state.units.wants(row) if left else {}
    counts = [max(0, left[pool] - 1) // size for pool, size in wants.items() if size and pool in left]
    return min(counts, default=None)
