"""What is left of the storage once instances have been placed, and what ended first."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.capacity.counting import Capacity
from ganeti_htools.engine.capacity.pools import fit
from ganeti_htools.engine.capacity.site import Site
from ganeti_htools.engine.capacity.sizes import InstanceKind, Size
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.columns import of_unit
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a unit on all nodes together, or of a pool, MiB; None where that is not known.

    ``most`` is what the node has that has most; None for a pool.
    """

    type: str
    key: str
    total: int | None
    free: int | None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class StorageLeft:
    """What is left of units and pools, and what most candidates lack for one more, in words."""

    units: tuple[Left, ...]
    pools: tuple[Left, ...]
    ends_first: str | None


def storage_left(result: Capacity, kind: InstanceKind, size: Size, site: Site) -> StorageLeft | None:
    """What is left after an allocation that started from a size; None while no node tells its units."""
    state = result.state
    if not state.units.known:
        return None
    units = tuple(_unit(state, at, unit) for at, unit in enumerate(state.units.local))
    left = site.pools.left(state)
    pools = tuple(
        Left(pool.type, pool.key, pool.total, left.get(pool.unit))
        for pool in storage_of(state.cluster, state.units).pools
    )
    last = result.tiers[-1][0] if result.tiers else size
    return StorageLeft(units, pools, _ends_first(result, kind, last, site))


def _unit(state: State, at: int, unit: DesiredUnit) -> Left:
    total, free, kept = (getattr(state.columns, of_unit(name, at)) for name in ("t_dsk", "f_dsk", "lo_dsk"))
    room = np.maximum(free - kept, 0)
    return Left(unit.type.value, unit.key, int(total.sum()), int(room.sum()), int(room.max(initial=0)))


def _ends_first(result: Capacity, kind: InstanceKind, size: Size, site: Site) -> str | None:
    """What keeps one more of a size off most candidates; None if nothing does."""
    state, row = result.state, kind.instance(size)
    most = max(Fail, key=lambda fail: result.failures.get(fail, 0))
    if site.closed or not result.failures.get(most):
        return None
    full = [pool for pool, free in site.pools.left(state).items() if fit({pool: free}, state, row) == 0]
    if full and most is Fail.DISK:
        return f"space in {full[0]}"
    asked = state.ask(row)
    secondaries = site.nodes if asked.mirrored else site.nodes[:0]
    remark = shortage.remark(state, asked, most, site.nodes, secondaries, site.options)
    return remark and remark.removeprefix("most missing: ")
