from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Disk, Group
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance

SSD, FAST, SLOW = (
    DesiredUnit(StorageType.LVM_VG, "ssd"),
    *(DesiredUnit(StorageType.RADOS, key) for key in ("fast", "slow")),
)
GROUP = Group("group1", "uuid-1", metavg="meta", rbd_pool="fast")


@pytest.mark.parametrize(
    ("template", "disk", "made"),
    [
        (DiskTemplate.DRBD, Disk(1), Disk(1, metavg="meta")),
        (DiskTemplate.DRBD, Disk(1, unit=SSD), Disk(1, unit=SSD, metavg="meta")),
        (DiskTemplate.DRBD, Disk(1, metavg="own"), Disk(1, metavg="own")),
        (DiskTemplate.RBD, Disk(1), Disk(1, unit=FAST)),
        (DiskTemplate.RBD, Disk(1, unit=SLOW), Disk(1, unit=SLOW)),
        (DiskTemplate.PLAIN, Disk(1), Disk(1)),
        (DiskTemplate.EXT, Disk(1), Disk(1)),
    ],
)
def test_disks_without_unit_get_the_groups_defaults(template: DiskTemplate, disk: Disk, made: Disk) -> None:
    row = replace(instance("new", template, ""), disks=(Disk(2, unit=SSD, metavg="x"), disk))
    assert with_disk_defaults(GROUP, row).disks == (row.disks[0], made)
    assert (with_disk_defaults(GROUP, row) is row) is (made == disk)
    assert with_disk_defaults(Group("group2", "uuid-2"), row) is row
