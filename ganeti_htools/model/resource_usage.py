"""What instances use of nodes, by resource class: the amounts by which decisions count."""

from collections.abc import Mapping

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.resource_classes import MEMORY, SPINDLES, VCPU, classes_of_units
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.tags import demands
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import Units, needs_of

Classes = Mapping[DesiredUnit, str]


def local_unit_classes(units: Units) -> dict[DesiredUnit, str]:
    """The resource classes of the local units."""
    # While no node tells its units, the only one stands for the default volume group.
    told = units.local if units.reported else (units.default(StorageType.LVM_VG),)
    return dict(zip(units.local, classes_of_units(told).values(), strict=True))


def usage_on(node: str, row: Instance, units: Units, classes: Classes, exclusive: bool) -> dict[str, int]:
    """What a placed instance uses of a node: spindles, and disk space of those units of which classes are
    given; of its primary memory (unless it is down), CPUs and custom classes, too.

    With ``exclusive`` storage the spindles of disks count, otherwise the spindle use of instances. One that
    is forthcoming uses what it is going to.
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
