"""What instances take of storage units and of custom resource classes, and what nodes have of units.

While no node tells its units there is one, of which ``t_dsk`` and ``f_dsk`` speak, and instances on volume
groups take their ``dsk`` of it. Otherwise (Ganeti's design "multi-storage htools", "Interpretation") an
instance takes of each unit what its disks there need.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Disk, Instance, Node, spindles_of
from ganeti_htools.model.storage import DRBD_META, TYPE_OF, DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status


class Units(NamedTuple):
    """The units of a cluster.

    ``local`` are those on nodes, the default volume group first; ``pools`` those pools that some nodes do
    not see. ``told`` are the types of which nodes tell units; disks of other local types take nothing.
    ``mirrored`` are the volume groups whose DRBD disks want a unit of their own. ``defaults`` are the units
    of disks that do not tell theirs. ``classes`` are the custom resource classes that some node has.
    """

    local: tuple[DesiredUnit, ...]
    pools: tuple[DesiredUnit, ...] = ()
    reported_types: frozenset[StorageType] = frozenset()
    mirrored: frozenset[str] = frozenset()
    defaults: tuple[DesiredUnit, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def reported(self) -> bool:
        """Whether nodes tell their units."""
        return bool(self.reported_types)

    def default(self, kind: StorageType) -> DesiredUnit:
        """The unit of a disk of that type that does not tell its own."""
        return next((unit for unit in self.defaults if unit.type is kind), DesiredUnit(kind, ""))

    @property
    def own_group(self) -> tuple[int, ...]:
        """Positions of the cluster's own volume group: as it is, and for mirrored disks if there is that."""
        mirrored = DesiredUnit(StorageType.DRBD, self.local[0].key)
        return (0, *(at for at, unit in enumerate(self.local) if unit == mirrored))

    def unit_of(self, disk: Disk, template: DiskTemplate) -> DesiredUnit:
        """The unit that a disk wants, of an instance with that template."""
        unit = disk.unit or self.default(TYPE_OF[template])
        if template is DiskTemplate.DRBD and unit.type is StorageType.LVM_VG and unit.key in self.mirrored:
            return DesiredUnit(StorageType.DRBD, unit.key)
        return unit

    def disk_needs(self, disk: Disk, template: DiskTemplate) -> list[tuple[DesiredUnit, int]]:
        """What a disk takes (MiB) of which units: of its own, and a mirrored one of that of its metadata."""
        unit = self.unit_of(disk, template)
        if template is not DiskTemplate.DRBD:
            return [(unit, disk.size)]
        elsewhere = disk.metavg is not None and disk.metavg != unit.key
        meta = DesiredUnit(StorageType.LVM_VG, disk.metavg or "") if elsewhere else unit
        return [(unit, disk.size), (meta, DRBD_META)]

    def needs(self, row: Instance) -> dict[DesiredUnit, int]:
        """What an instance needs (MiB) of each unit that its disks want, on each of its nodes.

        Where one unit has it all that is ``dsk``, which is what Ganeti counts.
        """
        needs = self._of_disks(row) if self.reported else {}
        if not needs and row.template.local_storage:
            return {self.local[0]: row.dsk}
        return needs

    def pool_needs(self, row: Instance) -> dict[DesiredUnit, int]:
        """What an instance needs (MiB) of pools, which does not depend on what nodes tell."""
        return {unit: need for unit, need in self._of_disks(row).items() if unit.type.pool}

    def _of_disks(self, row: Instance) -> dict[DesiredUnit, int]:
        needs: dict[DesiredUnit, int] = {}
        for disk in row.disks:
            for unit, size in self.disk_needs(disk, row.template):
                needs[unit] = needs.get(unit, 0) + size
        return dict.fromkeys(needs, row.dsk) if len(needs) == 1 else needs

    def creation_spare(self, row: Instance) -> tuple[int, ...]:
        """What Ganeti wants to be free of each local unit beyond what an instance takes of it when it is made
        there (MiB): it looks for the metadata of a mirrored disk on the volume group of its data, wherever it
        goes (``ComputeDiskSizePerVG``, ``lib/cmdlib/instance_storage.py``).
        """
        wanted = Counter[DesiredUnit]()
        for disk in row.disks if self.reported and row.template is DiskTemplate.DRBD else ():
            wanted[self.unit_of(disk, row.template)] += disk.size + DRBD_META
        taken = self.needs(row) if wanted else {}
        return tuple(max(0, wanted[unit] - taken.get(unit, 0)) for unit in self.local)


class Needs(NamedTuple):
    """Storage and custom classes that an instance takes of a node: see :class:`.RequestedInstance`."""

    disk: tuple[int, ...]
    wants: tuple[bool, ...]
    spindles: int | None
    classes: tuple[int, ...] = ()
    secondary_classes: tuple[int, ...] = ()

    @property
    def units(self) -> int:
        """How many units and pools it wants."""
        return sum(self.wants[: len(self.wants) - len(self.classes)])


def needs_of(row: Instance, units: Units) -> Needs:
    """What an instance needs of the units, pools and classes that have columns."""
    needs = _of_storage(row, units)
    if not units.classes:
        return needs
    demands = tags.demands(row.tags) if row.status is not Status.OFFLINE else {}
    amounts = tuple(demands.get(name, 0) for name in units.classes)
    return needs._replace(
        wants=(*needs.wants, *(amount > 0 for amount in amounts)),
        classes=amounts,
        secondary_classes=amounts if row.uses_secondary_memory else (0,) * len(amounts),
    )


def _of_storage(row: Instance, units: Units) -> Needs:
    """What an instance needs of the units and pools that have columns.

    Spindles are those of the default volume group; an instance without disks on its node takes spindles all
    the same, as with Ganeti's htools.
    """
    needs = units.needs(row)
    if not units.reported:
        pools = units.pool_needs(row) if units.pools else {}
        wants = (bool(needs), *(pool in pools for pool in units.pools))
        return Needs((sum(needs.values()),), wants, row.spindles)
    disk = tuple(needs.get(unit, 0) for unit in units.local)
    wants = tuple(unit in needs for unit in (*units.local, *units.pools))
    spindles: int | None = row.spindles
    if any(wants[: len(disk)]):
        there = [disk for disk in row.disks if units.unit_of(disk, row.template) == units.local[0]]
        spindles = spindles_of(there)
    return Needs(disk, wants, spindles)


SINGLE = Units((DesiredUnit(StorageType.LVM_VG, ""),))


def space_of(node: Node, units: Units, unit: int) -> tuple[float, int]:
    """Total and free space (MiB) of a unit on a node; 0 where the node does not have it.

    A node that tells no units has the default one.
    """
    if node.storage is None:
        return (node.t_dsk, node.f_dsk) if unit == 0 else (0.0, 0)
    there = unit_on(node, units, units.local[unit])
    return (float(there.total), there.free) if there else (0.0, 0)


def unit_on(node: Node, units: Units, wanted: DesiredUnit) -> Unit | None:
    """A unit as a node has it; None if it does not. A node that tells no units has the default one."""
    if node.storage is None:
        return Unit(wanted, int(node.t_dsk), node.f_dsk) if wanted == units.local[0] else None
    return next((each for each in node.storage if each.desired == wanted), None)


def taken_of_pools(units: Units, rows: Iterable[Instance]) -> Counter[DesiredUnit]:
    """What instances take (MiB) of each pool."""
    taken = Counter[DesiredUnit]()
    for row in rows:
        taken.update(units.pool_needs(row))
    return taken


def with_free(
    node: Node, units: Units, free: Sequence[int], taken: Mapping[DesiredUnit, int]
) -> dict[str, Any]:
    """The fields of a node that tell its free space (MiB), given that of each unit.

    ``taken`` is what new instances took of pools, of which it may tell as well.
    """
    if node.storage is None:
        return {"f_dsk": free[0]}
    room = dict(zip(units.local, free, strict=True))
    left = ((each, room.get(each.desired, each.free - taken.get(each.desired, 0))) for each in node.storage)
    return {"storage": tuple(unit._replace(free=mib) for unit, mib in left)}
