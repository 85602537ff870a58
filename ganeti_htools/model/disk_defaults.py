"""Default locations of new disks, by the node group's disk parameters.

Ganeti: the disk parameters ``drbd:metavg`` and ``rbd:pool`` of ``gnt-group(8)``.
"""

from dataclasses import replace

from ganeti_htools.model.cluster import Disk, Group, Instance
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate


def with_disk_defaults(group: Group, row: Instance) -> Instance:
    """Return a new instance with the disk defaults of a group. Unchanged rows are the same object."""
    disks = tuple(_made_in(group, disk, row.template) for disk in row.disks)
    return row if disks == row.disks else replace(row, disks=disks)


def _made_in(group: Group, disk: Disk, template: DiskTemplate) -> Disk:
    match template:
        case DiskTemplate.DRBD if group.metavg and disk.metavg is None:
            return replace(disk, metavg=group.metavg)
        case DiskTemplate.RBD if group.rbd_pool and disk.unit is None:
            return replace(disk, unit=DesiredUnit(StorageType.RADOS, group.rbd_pool))
    return disk
