from dataclasses import replace

from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.node_after import node_after
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.model.units_in_use import units_in_use
from ganeti_htools.model.without_instances import without_instances
from tests.support import by_hand

SSD, POOL = DesiredUnit(StorageType.LVM_VG, "ssdvg"), DesiredUnit(StorageType.RADOS, "fast")
XEN = DesiredUnit(StorageType.LVM_VG, "xenvg")
UNITS = Unit(XEN, 1000, 900), Unit(SSD, 500, 400), Unit(POOL, 9000, 8000)
NODE = by_hand.node("node1", 8192, 4096, storage=UNITS, t_dsk=1000.0, f_dsk=900)
ROW = replace(
    by_hand.instance("a", DiskTemplate.PLAIN, "node1", mem=512),
    disks=(Disk(30, None, XEN), Disk(70, None, SSD)),
    dsk=100,
)
CLUSTER = replace(by_hand.cluster({}, []), nodes=(NODE,), instances=(ROW,))


def test_memory_and_each_unit_of_the_node_are_taken() -> None:
    left = node_after(NODE, ROW, units_in_use(CLUSTER), memory=1, storage=1)
    assert (left.f_mem, left.f_dsk) == (3584, 870)
    assert [unit.free for unit in left.storage or ()] == [870, 330, 8000]
    assert node_after(left, ROW, units_in_use(CLUSTER), memory=-1, storage=-1) == NODE


def test_down_instance_takes_no_memory_and_forthcoming_one_no_disk() -> None:
    for row, taken in ((replace(ROW, status=Status.DOWN), 30), (replace(ROW, forthcoming=True), 0)):
        left = node_after(NODE, row, units_in_use(CLUSTER), memory=1, storage=1)
        assert (left.f_mem, NODE.f_dsk - left.f_dsk) == (4096, taken)


def test_without_instances_no_more_is_free_than_there_is() -> None:
    [bare] = without_instances(CLUSTER, CLUSTER.nodes)
    assert (bare.f_mem, bare.f_dsk) == (4608, 930)
    assert [unit.free for unit in bare.storage or ()] == [930, 470, 8000]
    full = replace(NODE, f_mem=8000, f_dsk=990)
    [bare] = without_instances(CLUSTER, [full])
    assert (bare.f_mem, bare.f_dsk) == (8192, 1000)
