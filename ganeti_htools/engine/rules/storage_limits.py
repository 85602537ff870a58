"""What disks ask of nodes: storage units with enough free space, and access to pools.

Each unit and each pool has limits of its own.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ganeti_htools.engine.rules.limits import ABOVE, AT_LEAST, BOTH, MIB, PRIMARY, SOURCE, Limit, Role
from ganeti_htools.model.columns import NOWHERE, Columns, Shape, of_pool, of_unit
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail


def _room(shape: Shape, unit: int) -> Limit:
    """What must be free on a storage unit, whatever is forced."""
    thing = f"disk space on {shape.units[unit]}" if shape.told else "disk"
    return Limit(Fail.DISK, of_unit("f_dsk", unit), ABOVE, of=unit, thing=thing, unit=MIB)


@dataclass(frozen=True, slots=True)
class _Spare:
    """Free space (MiB) that a unit must keep where Ganeti makes disks (:attr:`.RequestedInstance.spare`).

    Disks are made on all nodes of a new instance, and on the secondary of one that becomes mirrored. On the
    primary of the latter only metadata is made: if that is on a unit of its own, nothing else has to stay
    free. A dataclass, as limits are compared.
    """

    unit: int
    role: Role

    def __call__(self, _old: Columns, _new: Columns, asked: RequestedInstance | None) -> Any:
        if asked is None or (self.role is PRIMARY and asked.index != NOWHERE and asked.units > 1):
            return 0
        return asked.spare[self.unit]


def reserved_room(shape: Shape, unit: int) -> Limit:
    """What an administrator wants to stay free on a storage unit (``--min-disk``)."""
    reserved = of_unit("lo_dsk", unit)
    return _room(shape, unit)._replace(
        relation=AT_LEAST, bound=lambda old, _new, _asked: getattr(old, reserved), soft=True
    )


def pool_limits(shape: Shape) -> tuple[Limit, ...]:
    """A node must see the pools that the instance is on."""
    return tuple(
        Limit(Fail.DISK, of_pool(pool), ABOVE, of=position, thing=f"access to {name}", fixed=True)
        for pool, (position, name) in enumerate(enumerate(shape.pools, len(shape.units)))
    )


@lru_cache(maxsize=32)
def unit_limits(shape: Shape) -> tuple[Limit, ...]:
    """Nodes must have the storage units, if those are told. (What must be free there implies it.)"""
    return tuple(
        Limit(Fail.DISK, of_unit("t_dsk", unit), ABOVE, of=unit, thing=name, fixed=True)
        for unit, name in enumerate(shape.units if shape.told else ())
    )


@lru_cache(maxsize=32)
def disk_limits(shape: Shape) -> tuple[Limit, ...]:
    """What must be free on each storage unit, whatever is forced."""
    if not shape.told:
        return (_room(shape, 0),)
    return tuple(
        _room(shape, unit)._replace(bound=_Spare(unit, role), roles=(role,))
        for unit in range(len(shape.units))
        for role in BOTH
    )


@lru_cache(maxsize=32)
def default_group(shape: Shape) -> Limit:
    """The node from which disks are copied must have the cluster's own volume group, whatever groups they are
    on: Ganeti looks for it (``TLReplaceDisks``, ``lib/cmdlib/instance_storage.py``). A node that is offline
    does not tell; one that has the group for mirrored disks has it.
    """
    name = shape.units[0]
    mirrored = [of_unit("t_dsk", unit) for unit in shape.own_group[1:]]

    def applies(columns: Columns) -> Any:
        there = columns.offline
        for figure in mirrored:
            there = there | (getattr(columns, figure) > 0)
        return ~there

    return Limit(Fail.DISK, "t_dsk", ABOVE, roles=(SOURCE,), applies=applies, thing=name)
