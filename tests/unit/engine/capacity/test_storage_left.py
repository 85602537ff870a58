from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.counting import standard
from ganeti_htools.engine.capacity.site import chosen_site
from ganeti_htools.engine.capacity.sizes import InstanceKind, Size
from ganeti_htools.engine.capacity.storage_left import Left, StorageLeft, storage_left
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.view import View, state_of

SSD, VMS = DesiredUnit(StorageType.LVM_VG, "ssdvg"), DesiredUnit(StorageType.RADOS, "vms")


def left(kind: InstanceKind, size: Size, limit: int | None = None, *units: str) -> StorageLeft | None:
    cluster = simu.parse([";".join(["p,2,100g,64g,64", *units])])
    state = state_of(cluster, View(min_disk=0.1))
    site = chosen_site(state, Options(capacity=False))
    return storage_left(standard(state, kind, size, site, limit), kind, size, site)


def test_what_is_left_and_what_ends_first() -> None:
    kind = InstanceKind(DiskTemplate.PLAIN, 1, disks=(Disk(10240, 1), Disk(3072, 0, SSD)))
    found = left(kind, Size(128, 13312, 1), None, "lvm-vg,ssdvg,10000", "rbd,vms,5g")
    # Of 102400 and 10000 MiB a tenth stays free on each node.
    assert found == StorageLeft(
        (
            Left("lvm-vg", "xenvg", 204800, 2 * (92160 - 2 * 10240), 92160 - 2 * 10240),
            Left("lvm-vg", "ssdvg", 20000, 2 * (9000 - 2 * 3072), 9000 - 2 * 3072),
        ),
        (Left("rados", "vms", 5120, 5120),),
        "disk space on lvm-vg/ssdvg; closest: node-01-001 lacks 216 MiB",
    )


def test_a_pool_that_ends_first() -> None:
    kind = InstanceKind(DiskTemplate.RBD, 1, VMS)
    found = left(kind, Size(128, 1024, 1), None, "rbd,vms,5g", "rbd,other,5g")
    assert found
    assert found.ends_first == "space in rados/vms"
    assert found.pools == (Left("rados", "other", 5120, 5120), Left("rados", "vms", 5120, 1024))


def test_a_pool_of_which_nobody_tells_how_much_is_left() -> None:
    kind = InstanceKind(DiskTemplate.EXT, 1, DesiredUnit(StorageType.EXT, "san"))
    found = left(kind, Size(128, 1024, 1), 1, "rbd,vms,5g")
    assert found
    assert found.pools == (Left("ext", "san", None, None), Left("rados", "vms", 5120, 5120))


def test_nothing_is_told_while_no_node_tells_its_units() -> None:
    assert left(InstanceKind(DiskTemplate.PLAIN, 1), Size(128, 1024, 1)) is None
