"""Limits of disks: storage units with enough free space, and access to pools.

Each unit and each pool has limits of its own.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ganeti_htools.engine.rules.limits import ABOVE, AT_LEAST, BOTH, MIB, PRIMARY, SOURCE, Limit, NodeRole
from ganeti_htools.model.columns import NOWHERE, Columns, Shape, of_pool, of_unit
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail


def _room(shape: Shape, unit: int) -> Limit:
    """Declare the hard limit of free space on a storage unit."""
    thing = f"disk space on {shape.units[unit]}" if shape.reported else "disk"
    return Limit(Fail.DISK, of_unit("f_dsk", unit), ABOVE, of=unit, thing=thing, unit=MIB)


@dataclass(frozen=True, slots=True)
class _Spare:
    """Free space (MiB) that a unit must keep where Ganeti creates disks (:attr:`.RequestedInstance.spare`).

    Ganeti creates disks on all nodes of a new instance, and on the secondary of one that becomes mirrored.
    The primary of the latter gets metadata only. If the metadata has a unit of its own, the primary needs no
    spare space. A dataclass, because limits are compared.
    """

    unit: int
    role: NodeRole

    def __call__(self, _old: Columns, _new: Columns, asked: RequestedInstance | None) -> Any:
        if asked is None or (self.role is PRIMARY and asked.index != NOWHERE and asked.units > 1):
            return 0
        return asked.spare[self.unit]


def reserved_room(shape: Shape, unit: int) -> Limit:
    """Declare the limit of free space that the administrator reserves (``--min-disk``)."""
    reserved = of_unit("lo_dsk", unit)
    return _room(shape, unit)._replace(
        relation=AT_LEAST, bound=lambda old, _new, _asked: getattr(old, reserved), soft=True
    )


def pool_limits(shape: Shape) -> tuple[Limit, ...]:
    """Declare that a node must see the pools of the instance."""
    return tuple(
        Limit(Fail.DISK, of_pool(pool), ABOVE, of=position, thing=f"access to {name}", fixed=True)
        for pool, (position, name) in enumerate(enumerate(shape.pools, len(shape.units)))
    )


@lru_cache(maxsize=32)
def unit_limits(shape: Shape) -> tuple[Limit, ...]:
    """Declare that nodes must have the storage units, if nodes report units. Free space implies this."""
    return tuple(
        Limit(Fail.DISK, of_unit("t_dsk", unit), ABOVE, of=unit, thing=name, fixed=True)
        for unit, name in enumerate(shape.units if shape.reported else ())
    )


@lru_cache(maxsize=32)
def disk_limits(shape: Shape) -> tuple[Limit, ...]:
    """Declare the hard limits of free space on all storage units."""
    if not shape.reported:
        return (_room(shape, 0),)
    return tuple(
        _room(shape, unit)._replace(bound=_Spare(unit, role), roles=(role,))
        for unit in range(len(shape.units))
        for role in BOTH
    )


@lru_cache(maxsize=32)
def default_group(shape: Shape) -> Limit:
    """Declare that the source of a disk copy must have the cluster's own volume group.

    Ganeti looks for this group whatever groups the disks are on (``TLReplaceDisks``,
    ``lib/cmdlib/instance_storage.py``). Offline nodes do not report groups, so they pass. A node with the
    group for mirrored disks passes, too.
    """
    name = shape.units[0]
    mirrored = [of_unit("t_dsk", unit) for unit in shape.own_group[1:]]

    def applies(columns: Columns) -> Any:
        passing = columns.offline
        for figure in mirrored:
            passing = passing | (getattr(columns, figure) > 0)
        return ~passing

    return Limit(Fail.DISK, "t_dsk", ABOVE, roles=(SOURCE,), applies=applies, thing=name)
