"""Storage units of a cluster, and the amounts of units and custom classes that instances take.

If no node reports its units, there is a single one. ``t_dsk`` and ``f_dsk`` are its figures, and instances
on volume groups take their ``dsk`` of it. Otherwise an instance takes of each unit the needs of its disks
(Ganeti's design "multi-storage htools", "Interpretation").
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

    ``local`` are the units on nodes, the default volume group first. ``pools`` are the pools that some
    nodes do not see. ``reported_types`` are the types whose units nodes report, or would report if they had
    any; disks of other local types take no space. ``mirrored`` are the volume groups with a separate unit for
    DRBD disks. ``defaults`` are the units of disks without a named unit. ``classes`` are the custom resource
    classes that some node has, ``limited`` the classes that Ganeti counts and of which some node limits the
    amount of one instance.
    """

    local: tuple[DesiredUnit, ...]
    pools: tuple[DesiredUnit, ...] = ()
    reported_types: frozenset[StorageType] = frozenset()
    mirrored: frozenset[str] = frozenset()
    defaults: tuple[DesiredUnit, ...] = ()
    classes: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()

    @property
    def reported(self) -> bool:
        """Whether nodes report their units."""
        return bool(self.reported_types)

    def default(self, kind: StorageType) -> DesiredUnit:
        """Return the unit of disks of a type that name no unit."""
        return next((unit for unit in self.defaults if unit.type is kind), DesiredUnit(kind, ""))

    @property
    def own_group(self) -> tuple[int, ...]:
        """Positions of the cluster's own volume group: as a plain unit, and as a unit for mirrored disks."""
        mirrored = DesiredUnit(StorageType.DRBD, self.local[0].key)
        return (0, *(at for at, unit in enumerate(self.local) if unit == mirrored))

    def unit_of(self, disk: Disk, template: DiskTemplate) -> DesiredUnit:
        unit = disk.unit or self.default(TYPE_OF[template])
        if template is DiskTemplate.DRBD and unit.type is StorageType.LVM_VG and unit.key in self.mirrored:
            return DesiredUnit(StorageType.DRBD, unit.key)
        return unit

    def disk_needs(self, disk: Disk, template: DiskTemplate) -> list[tuple[DesiredUnit, int]]:
        """Return the space (MiB) that a disk takes of its unit and then, if mirrored, of the unit of its
        metadata.
        """
        unit = self.unit_of(disk, template)
        if template is not DiskTemplate.DRBD:
            return [(unit, disk.size)]
        elsewhere = disk.metavg is not None and disk.metavg != unit.key
        meta = DesiredUnit(StorageType.LVM_VG, disk.metavg or "") if elsewhere else unit
        return [(unit, disk.size), (meta, DRBD_META)]

    def needs(self, row: Instance) -> dict[DesiredUnit, int]:
        """Return the space (MiB) of each unit that an instance needs on each of its nodes.

        With a single unit the space is the instance's ``dsk``, as Ganeti counts it.
        """
        needs = self._of_disks(row) if self.reported else {}
        if not needs and row.template.local_storage:
            return {self.local[0]: row.dsk}
        return needs

    def pool_needs(self, row: Instance) -> dict[DesiredUnit, int]:
        """Return the space (MiB) of each pool that an instance needs, whether or not nodes report units."""
        return {unit: need for unit, need in self._of_disks(row).items() if unit.type.pool}

    def _of_disks(self, row: Instance) -> dict[DesiredUnit, int]:
        needs: dict[DesiredUnit, int] = {}
        for disk in row.disks:
            for unit, size in self.disk_needs(disk, row.template):
                needs[unit] = needs.get(unit, 0) + size
        return dict.fromkeys(needs, row.dsk) if len(needs) == 1 else needs

    def creation_spare(self, row: Instance) -> tuple[int, ...]:
        """Return the free space (MiB) of each local unit that creating an instance demands beyond its use.

        Ganeti looks for the metadata of a mirrored disk on the volume group of its data, wherever the
        metadata goes (``ComputeDiskSizePerVG``, ``lib/cmdlib/instance_storage.py``).
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
        """Number of units and pools that a node must have."""
        return sum(self.wants[: len(self.wants) - len(self.classes)])


def needs_of(row: Instance, units: Units) -> Needs:
    """Return an instance's needs of the units, pools and classes that have columns."""
    needs = _of_storage(row, units)
    if not units.classes:
        return needs
    amounts, kept = class_needs(row, units)
    wants = (*needs.wants, *(amount > 0 for amount in amounts))
    return needs._replace(wants=wants, classes=amounts, secondary_classes=kept)


def class_needs(row: Instance, units: Units) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the amounts of each custom class that an instance takes, and that its secondary keeps free."""
    demands = tags.demands(row.tags) if row.status is not Status.OFFLINE else {}
    amounts = tuple(demands.get(name, 0) for name in units.classes)
    return amounts, amounts if row.uses_secondary_memory else (0,) * len(amounts)


def _of_storage(row: Instance, units: Units) -> Needs:
    """Return an instance's needs of the units and pools that have columns.

    Spindles are those of the default volume group. An instance without disks on its node takes spindles
    too, as in Ganeti's htools.
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


def spaces_of(node: Node, units: Units) -> list[tuple[float, int]]:
    """Return total and free space (MiB) of each local unit on a node; 0 of units that the node lacks.

    A node that reports no units has the default one.
    """
    if node.storage is None:
        return [(node.t_dsk, node.f_dsk), *[(0.0, 0)] * (len(units.local) - 1)]
    there = {unit.desired: (float(unit.total), unit.free) for unit in node.storage}
    return [there.get(unit, (0.0, 0)) for unit in units.local]


def unit_on(node: Node, units: Units, wanted: DesiredUnit) -> Unit | None:
    """Return a unit of a node, or None. A node that reports no units has the default one."""
    if node.storage is None:
        return Unit(wanted, int(node.t_dsk), node.f_dsk) if wanted == units.local[0] else None
    return next((each for each in node.storage if each.desired == wanted), None)


def taken_of_pools(units: Units, rows: Iterable[Instance]) -> Counter[DesiredUnit]:
    """Sum the space (MiB) that instances take of each pool."""
    taken = Counter[DesiredUnit]()
    for row in rows:
        taken.update(units.pool_needs(row))
    return taken


def with_free(
    node: Node, units: Units, free: Sequence[int], taken: Mapping[DesiredUnit, int]
) -> dict[str, Any]:
    """Return the fields of a node for these free amounts (MiB) of each unit.

    ``taken`` is the space that new instances took of pools; it reduces what the node reports of them.
    """
    if node.storage is None:
        return {"f_dsk": free[0]}
    room = dict(zip(units.local, free, strict=True))
    left = ((each, room.get(each.desired, each.free - taken.get(each.desired, 0))) for each in node.storage)
    return {"storage": tuple(unit._replace(free=mib) for unit, mib in left)}
