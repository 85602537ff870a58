"""Use of nodes by instances, in amounts of resource classes, as decisions count it."""

from collections.abc import Mapping

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.resource_classes import MEMORY, SPINDLES, VCPU, classes_of_units
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.tags import demands
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import Units, needs_of

Classes = Mapping[DesiredUnit, str]


def local_unit_classes(units: Units) -> dict[DesiredUnit, str]:
    """Return the resource class of each local unit."""
    # If no node reports its units, the single unit is the default volume group.
    told = units.local if units.reported else (units.default(StorageType.LVM_VG),)
    return dict(zip(units.local, classes_of_units(told).values(), strict=True))


def usage_on(node: str, row: Instance, units: Units, classes: Classes, exclusive: bool) -> dict[str, int]:
    """Return the amounts of a node that a placed instance uses, by resource class; no zero amounts.

    Both nodes: disk space of the units in ``classes``, and spindles: those of disks with ``exclusive``
    storage, otherwise the spindle use. The primary also: CPUs, custom classes, and memory unless the
    instance is down. A forthcoming instance counts with its future use.
    """
    if node not in (row.pnode, row.snode):
        return {}
    wanted = units.needs(row)
    found = {classes[unit]: mib for unit, mib in wanted.items() if unit in classes}
    if exclusive:
        found[SPINDLES] = needs_of(row, units).spindles or 0
    elif units.local[0] in wanted:
        found[SPINDLES] = row.spindle_use
    if node == row.pnode:
        found[MEMORY] = row.mem if row.uses_memory or row.forthcoming else 0
        if row.status is not Status.OFFLINE:
            found |= {VCPU: row.vcpus, **demands(row.tags)}
    return {name: amount for name, amount in found.items() if amount > 0}
