"""Kinds and sizes of the instances that capacity is counted in."""

from dataclasses import dataclass, replace

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.storage import DRBD_META, DesiredUnit
from ganeti_htools.model.types import DiskTemplate, Fail

# What a size is made smaller by, which is also the least it can have.
UNIT = {Fail.MEM: 64, Fail.DISK: 256, Fail.CPU: 1, Fail.SPINDLES: 1}
SHRINKS = {Fail.MEM: "mem", Fail.DISK: "dsk", Fail.CPU: "vcpus", Fail.SPINDLES: "spindles"}


@dataclass(frozen=True, slots=True)
class InstanceSize:
    """The resources that an instance takes; memory and disk in MiB."""

    mem: int
    dsk: int
    vcpus: int
    spindles: int = 1

    def steps(self, fail: Fail) -> int:
        """Return the number of units by which the amount behind ``fail`` can shrink; 0 without such an
        amount.
        """
        return max(0, getattr(self, SHRINKS[fail]) // UNIT[fail] - 1) if fail in UNIT else 0

    def less(self, fail: Fail, units: int) -> "InstanceSize":
        """Return the size with the amount behind ``fail`` smaller by ``units`` (negative: larger)."""
        name = SHRINKS[fail]
        return replace(self, **{name: getattr(self, name) - units * UNIT[fail]})

    def smaller(self, fail: Fail) -> "InstanceSize | None":
        """Return the size with one unit less of the amount behind ``fail``; None if impossible."""
        return self.less(fail, 1) if self.steps(fail) else None

    def least(self, *fails: Fail) -> "InstanceSize":
        """Return the smallest size reachable by shrinking these amounts, or all amounts."""
        return replace(
            self,
            **{
                SHRINKS[fail]: getattr(self, SHRINKS[fail]) % UNIT[fail] + UNIT[fail]
                for fail in fails or UNIT
                if getattr(self, SHRINKS[fail]) > UNIT[fail]
            },
        )

    def holds(self, other: "InstanceSize") -> bool:
        """Whether this size is at least as large in every amount."""
        return (
            self.mem >= other.mem
            and self.dsk >= other.dsk
            and self.vcpus >= other.vcpus
            and self.spindles >= other.spindles
        )


@dataclass(frozen=True, slots=True)
class InstanceKind:
    """Instances that differ in size only: their common properties.

    Their disk is on ``unit``, the default one if that is None. If ``disks`` are given they have these, and
    a size is about memory and CPUs only. ``demands`` are of custom resource classes.
    """

    template: DiskTemplate
    spindle_use: int
    unit: DesiredUnit | None = None
    disks: tuple[Disk, ...] = ()
    demands: tuple[tuple[str, int], ...] = ()

    @property
    def mirrored(self) -> bool:
        return self.template is DiskTemplate.DRBD

    def instance(self, size: InstanceSize) -> Instance:
        disks = self.disks or (Disk(size.dsk, size.spindles, self.unit),)
        # As Ganeti's htools do, the metadata of the one disk of a size is not counted.
        meta = DRBD_META * len(self.disks) if self.mirrored else 0
        return Instance(
            name="new",
            mem=size.mem,
            dsk=sum(disk.size for disk in disks) + meta,
            disks=disks,
            vcpus=size.vcpus,
            template=self.template,
            spindle_use=self.spindle_use,
            tags=tuple(tags.demand(name, amount) for name, amount in self.demands),
        )
