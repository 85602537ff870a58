"""Storage units: where disks can be (Ganeti's designs "multi-storage htools" and "storage types").

A disk wants a unit, that is a type and a key, such as the volume group ``ssdvg``; a node has some of them.
What an instance takes of each local unit becomes an amount like its memory. Pools are units that many nodes
see: of those only the nodes that see them matter here.
"""

from enum import Enum
from typing import NamedTuple

from ganeti_htools.model.types import DiskTemplate


class StorageType(Enum):
    """A storage type, by Ganeti's name; ``drbd8``, of the design, is a volume group for mirrored disks."""

    LVM_VG = "lvm-vg"
    DRBD = "drbd8"
    FILE = "file"
    SHARED_FILE = "sharedfile"
    GLUSTER = "gluster"
    RADOS = "rados"
    EXT = "ext"
    BLOCK = "blockdev"
    DISKLESS = "diskless"

    @property
    def local(self) -> bool:
        """Whether a unit of this type belongs to one node; otherwise it is a pool that many see."""
        return self in (StorageType.LVM_VG, StorageType.DRBD, StorageType.FILE)

    @property
    def pool(self) -> bool:
        """Whether a unit of this type is a pool."""
        return self in (
            StorageType.SHARED_FILE,
            StorageType.GLUSTER,
            StorageType.RADOS,
            StorageType.EXT,
        )


# Other names that files may use.
ALIASES = {"drbd": StorageType.DRBD, "rbd": StorageType.RADOS}
# A physical volume, on which no disk can be.
IGNORED = "lvm-pv"
TYPE_NAMES = {each.value: each for each in StorageType} | ALIASES

# Design "storage types", with the types that Ganeti has got since.
TYPE_OF = {
    DiskTemplate.DISKLESS: StorageType.DISKLESS,
    DiskTemplate.FILE: StorageType.FILE,
    DiskTemplate.SHARED_FILE: StorageType.SHARED_FILE,
    DiskTemplate.PLAIN: StorageType.LVM_VG,
    DiskTemplate.BLOCK: StorageType.BLOCK,
    DiskTemplate.DRBD: StorageType.LVM_VG,
    DiskTemplate.RBD: StorageType.RADOS,
    DiskTemplate.EXT: StorageType.EXT,
    DiskTemplate.GLUSTER: StorageType.GLUSTER,
}

DRBD_META = 128  # MiB of metadata for each mirrored disk


class DesiredUnit(NamedTuple):
    """What a disk wants: a unit of this type with this key (volume group, directory, pool, provider)."""

    type: StorageType
    key: str

    def __str__(self) -> str:
        return f"{self.type.value}/{self.key}" if self.key else self.type.value


def holds(unit: DesiredUnit, template: DiskTemplate) -> bool:
    """Whether disks of instances with that template can be on that unit."""
    mirrored = unit.type is StorageType.DRBD and template is DiskTemplate.DRBD
    return mirrored or unit.type is TYPE_OF[template]


class Unit(NamedTuple):
    """A storage unit of a node. Sizes in MiB; ``free`` is negative where more is promised than there is.

    ``params`` describe it there: of a volume group, whether it is used as exclusive storage.
    """

    desired: DesiredUnit
    total: int
    free: int
    params: tuple[bool | str, ...] = ()


class Pool(NamedTuple):
    """What is known of a pool's room (MiB), of which ``reserved`` is not for disks.

    Clusters that share the pool have the same ``provider``, its name in their ledger; it is empty for others.
    """

    unit: DesiredUnit
    total: int
    reserved: int = 0
    provider: str = ""
