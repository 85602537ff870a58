"""Storage units: where disks can be (Ganeti's designs "multi-storage htools" and "storage types").

A disk needs a unit: a type and a key, such as the volume group ``ssdvg``. A node has some units. Disk space
of a local unit is an amount, like memory. A pool is a unit that many nodes see; only its visibility matters
here.
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

    __hash__ = object.__hash__  # units are looked up millions of times, and Enum's own is written in Python

    @property
    def local(self) -> bool:
        """Whether a unit of this type belongs to one node."""
        return self in (StorageType.LVM_VG, StorageType.DRBD, StorageType.FILE)

    @property
    def pool(self) -> bool:
        """Whether a unit of this type is a pool."""
        return self in (StorageType.SHARED_FILE, StorageType.GLUSTER, StorageType.RADOS, StorageType.EXT)


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
    """A unit that a disk needs: its type and its key (volume group, directory, pool, provider)."""

    type: StorageType
    key: str

    def __str__(self) -> str:
        return f"{self.type.value}/{self.key}" if self.key else self.type.value


def holds(unit: DesiredUnit, template: DiskTemplate) -> bool:
    mirrored = unit.type is StorageType.DRBD and template is DiskTemplate.DRBD
    return mirrored or unit.type is TYPE_OF[template]


class Unit(NamedTuple):
    """A storage unit of a node. Sizes in MiB; ``free`` is negative if the unit is overcommitted.

    ``params`` describe the unit on the node: of a volume group, whether it is used as exclusive storage.
    """

    desired: DesiredUnit
    total: int
    free: int
    params: tuple[bool | str, ...] = ()


class Pool(NamedTuple):
    """The size of a pool (MiB). ``reserved`` MiB are not for disks.

    The capacity is ``total`` less ``reserved``, times the overcommit factor ``allocation_ratio``; ``taken``
    MiB of it are not for instances of this cluster. ``provider`` is the pool's name in the ledger, the same
    in all clusters that share the pool; or empty.

    ``free`` is the space as measured, less what instances have taken since; None if it was not measured.
    ``probe`` is the command that measures it; with a command, a total of 0 is unknown.
    """

    unit: DesiredUnit
    total: int
    reserved: int = 0
    provider: str = ""
    free: int | None = None
    probe: tuple[str, ...] = ()
    allocation_ratio: float = 1.0
    taken: int = 0

    def capacity(self, space: int, more_reserved: int = 0) -> int:
        """Return how much (MiB) of disks a space is for, with more reserved."""
        return max(0, int((space - self.reserved - more_reserved) * self.allocation_ratio))
