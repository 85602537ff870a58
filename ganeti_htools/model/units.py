"""The storage units of a cluster: which there are, what instances take of them, which nodes see which pool;
and what they take of custom resource classes.

While no node tells its units there is one, of which ``t_dsk`` and ``f_dsk`` speak, and instances on volume
groups take their ``dsk`` of it. Otherwise (Ganeti's design "multi-storage htools", "Interpretation") an
instance takes of each unit what its disks there need.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node, spindles_of
from ganeti_htools.model.new_disks import made_in
from ganeti_htools.model.resource_classes import is_own
from ganeti_htools.model.storage import DRBD_META, TYPE_NAMES, TYPE_OF, DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status

POOL_TAG = "htools:storage:"


class Units(NamedTuple):
    """The units of a cluster.

    ``local`` are those on nodes, the default volume group first; ``pools`` those pools that some nodes do
    not see. ``told`` are the types of which nodes tell units; disks of other local types take nothing.
    ``mirrored`` are the volume groups whose DRBD disks want a unit of their own. ``defaults`` are the units
    of disks that do not tell theirs. ``classes`` are the custom resource classes that some node has.
    """

    local: tuple[DesiredUnit, ...]
    pools: tuple[DesiredUnit, ...] = ()
    told: frozenset[StorageType] = frozenset()
    mirrored: frozenset[str] = frozenset()
    defaults: tuple[DesiredUnit, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether nodes tell their units."""
        return bool(self.told)

    def default(self, kind: StorageType) -> DesiredUnit:
        """The unit of a disk of that type that does not tell its own."""
        return next((unit for unit in self.defaults if unit.type is kind), DesiredUnit(kind, ""))

    @property
    def own_group(self) -> tuple[int, ...]:
        """Positions of the cluster's own volume group: as it is, and for mirrored disks if there is that."""
        mirrored = DesiredUnit(StorageType.DRBD, self.local[0].key)
        return (0, *(at for at, unit in enumerate(self.local) if unit == mirrored))

    def wanted_by(self, disk: Disk, template: DiskTemplate) -> DesiredUnit:
        """The unit that a disk wants, of an instance with that template."""
        unit = disk.unit or self.default(TYPE_OF[template])
        if template is DiskTemplate.DRBD and unit.type is StorageType.LVM_VG and unit.key in self.mirrored:
            return DesiredUnit(StorageType.DRBD, unit.key)
        return unit

    def taken_by(self, disk: Disk, template: DiskTemplate) -> list[tuple[DesiredUnit, int]]:
        """What a disk takes (MiB) of which units: of its own, and a mirrored one of that of its metadata."""
        unit = self.wanted_by(disk, template)
        if template is not DiskTemplate.DRBD:
            return [(unit, disk.size)]
        elsewhere = disk.metavg is not None and disk.metavg != unit.key
        meta = DesiredUnit(StorageType.LVM_VG, disk.metavg or "") if elsewhere else unit
        return [(unit, disk.size), (meta, DRBD_META)]

    def wants(self, row: Instance) -> dict[DesiredUnit, int]:
        """What an instance needs (MiB) of each unit that its disks want, on each of its nodes.

        Where one unit has it all that is ``dsk``, which is what Ganeti counts.
        """
        needs = self._of_disks(row) if self.known else {}
        if not needs and row.template.local_storage:
            return {self.local[0]: row.dsk}
        return needs

    def of_pools(self, row: Instance) -> dict[DesiredUnit, int]:
        """What an instance needs (MiB) of pools, which does not depend on what nodes tell."""
        return {unit: need for unit, need in self._of_disks(row).items() if unit.type.pool}

    def _of_disks(self, row: Instance) -> dict[DesiredUnit, int]:
        needs: dict[DesiredUnit, int] = {}
        for disk in row.disks:
            for unit, size in self.taken_by(disk, row.template):
                needs[unit] = needs.get(unit, 0) + size
        return dict.fromkeys(needs, row.dsk) if len(needs) == 1 else needs

    def spare(self, row: Instance) -> tuple[int, ...]:
        """What Ganeti wants to be free of each local unit beyond what an instance takes of it when it is made
        there (MiB): it looks for the metadata of a mirrored disk on the volume group of its data, wherever it
        goes (``ComputeDiskSizePerVG``, ``lib/cmdlib/instance_storage.py``).
        """
        wanted = Counter[DesiredUnit]()
        for disk in row.disks if self.known and row.template is DiskTemplate.DRBD else ():
            wanted[self.wanted_by(disk, row.template)] += disk.size + DRBD_META
        taken = self.wants(row) if wanted else {}
        return tuple(max(0, wanted[unit] - taken.get(unit, 0)) for unit in self.local)


class Needs(NamedTuple):
    """What an instance takes of a node's storage and custom classes: see :class:`.state.Asked`."""

    disk: tuple[int, ...]
    wants: tuple[bool, ...]
    spindles: int | None
    classes: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()

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
        kept=amounts if row.uses_secondary_memory else (0,) * len(amounts),
    )


def _of_storage(row: Instance, units: Units) -> Needs:
    """What an instance needs of the units and pools that have columns.

    Spindles are those of the default volume group; an instance without disks on its node takes spindles all
    the same, as with Ganeti's htools.
    """
    needs = units.wants(row)
    if not units.known:
        pools = units.of_pools(row) if units.pools else {}
        wants = (bool(needs), *(pool in pools for pool in units.pools))
        return Needs((sum(needs.values()),), wants, row.spindles)
    disk = tuple(needs.get(unit, 0) for unit in units.local)
    wants = tuple(unit in needs for unit in (*units.local, *units.pools))
    spindles: int | None = row.spindles
    if any(wants[: len(disk)]):
        there = [disk for disk in row.disks if units.wanted_by(disk, row.template) == units.local[0]]
        spindles = spindles_of(there)
    return Needs(disk, wants, spindles)


SINGLE = Units((DesiredUnit(StorageType.LVM_VG, ""),))


def custom_classes(cluster: Cluster) -> tuple[str, ...]:
    """The custom resource classes that some node has. What is demanded of others limits nothing."""
    met = {name for node in cluster.nodes if node.inventories for name, _ in node.inventories}
    return tuple(sorted(name for name in met if not is_own(name)))


def told_units(cluster: Cluster) -> Units:
    """Units that nodes tell, and custom classes: what instances take of nodes that have what they want."""
    units, classes = _told_units(cluster), custom_classes(cluster)
    return units._replace(classes=classes) if classes else units


def _told_units(cluster: Cluster) -> Units:
    told = {unit.desired for node in cluster.nodes for unit in node.storage or ()}
    if all(node.storage is None for node in cluster.nodes):
        return SINGLE._replace(defaults=cluster.default_units)
    mirrored = frozenset(unit.key for unit in told if unit.type is StorageType.DRBD)
    types = frozenset(unit.type for unit in told) | {StorageType.LVM_VG}
    units = SINGLE._replace(told=types, mirrored=mirrored, defaults=default_units(cluster))
    return units._replace(local=_local(units.default(StorageType.LVM_VG), told))


def _local(first: DesiredUnit, units: Iterable[DesiredUnit]) -> tuple[DesiredUnit, ...]:
    return (first, *sorted({unit for unit in units if unit.type.local} - {first}, key=str))


def survey(cluster: Cluster, requested: Iterable[Instance] = ()) -> Units:
    """The units of a cluster, and of instances that are going to be placed on it."""
    units = told_units(cluster)
    if not units.known:
        return units._replace(pools=_hidden(cluster, _pools(set(), cluster)))
    told = {unit.desired for node in cluster.nodes for unit in node.storage or ()}
    new = {made_in(group, row) for row in requested for group in cluster.groups}
    met = told | _wanted(units, (*cluster.instances, *requested, *new))
    local = _local(units.local[0], (unit for unit in met if unit.type in units.told))
    return units._replace(local=local, pools=_hidden(cluster, _pools(met, cluster)))


def _hidden(cluster: Cluster, pools: Iterable[DesiredUnit]) -> tuple[DesiredUnit, ...]:
    """Those of the pools that some nodes do not see."""
    return tuple(pool for pool in sorted(pools, key=str) if not all(sees(cluster, pool)))


def named_by(rows: Iterable[Instance]) -> set[DesiredUnit]:
    """The units that disks name, also for their metadata."""
    disks = [disk for row in rows for disk in row.disks]
    named = {disk.unit for disk in disks if disk.unit}
    return named | {DesiredUnit(StorageType.LVM_VG, key) for key in {disk.metavg for disk in disks} if key}


def pools_met(cluster: Cluster, units: Units) -> set[DesiredUnit]:
    """The pools whose room is told, those of tags, and if nodes tell their units, those of instances, too."""
    met = {pool.unit for pool in cluster.pools}
    if not units.known:
        return _pools(met, cluster)
    met |= {unit.desired for node in cluster.nodes for unit in node.storage or ()}
    return _pools(met | _wanted(units, cluster.instances), cluster)


def _wanted(units: Units, rows: Iterable[Instance]) -> set[DesiredUnit]:
    # Of many disks few name different units.
    disks = {(row.template, disk.unit, disk.metavg): disk for row in rows for disk in row.disks}
    return {unit for (template, *_), disk in disks.items() for unit, _ in units.taken_by(disk, template)}


def _pools(met: set[DesiredUnit], cluster: Cluster) -> set[DesiredUnit]:
    return {unit for unit in met | set(tagged(cluster)) if unit.type.pool}


def default_units(cluster: Cluster) -> tuple[DesiredUnit, ...]:
    """The default unit of each type: the cluster's, else the one that most nodes list first of its type.

    A volume group for mirrored disks only is a volume group all the same.
    """
    firsts: dict[StorageType, Counter[DesiredUnit]] = {}
    for node in cluster.nodes:
        met: dict[StorageType, DesiredUnit] = {}
        for unit in node.storage or ():
            kind, key = unit.desired
            kind = StorageType.LVM_VG if kind is StorageType.DRBD else kind
            met.setdefault(kind, DesiredUnit(kind, key))
        for kind, first in met.items():
            firsts.setdefault(kind, Counter())[first] += 1
    told = {unit.type: unit for unit in cluster.default_units}
    found = {kind: counted.most_common(1)[0][0] for kind, counted in firsts.items()}
    return tuple((found | told).values())


def tagged(cluster: Cluster) -> list[DesiredUnit]:
    """The pools that tags of nodes and groups tell of (``htools:storage:TYPE/KEY``)."""
    owners = [node.tags for node in cluster.nodes] + [group.tags for group in cluster.groups]
    return [unit for tags in owners for unit in map(_tag_unit, tags) if unit]


def _tag_unit(tag: str) -> DesiredUnit | None:
    if not tag.startswith(POOL_TAG):
        return None
    kind, _, key = tag.removeprefix(POOL_TAG).partition("/")
    known = key and key.isprintable() and kind in TYPE_NAMES
    return DesiredUnit(TYPE_NAMES[kind], key) if known else None


def sees(cluster: Cluster, pool: DesiredUnit) -> list[bool]:
    """Whether each node sees a pool.

    If nodes list it in their storage: those; else if nodes or their groups have its tag: those; else all.
    """
    listed = [any(unit.desired == pool for unit in node.storage or ()) for node in cluster.nodes]
    if any(listed):
        return listed
    groups = {group.uuid for group in cluster.groups if _has(group.tags, pool)}
    tagged = [node.group in groups or _has(node.tags, pool) for node in cluster.nodes]
    return tagged if any(tagged) else [True] * len(cluster.nodes)


def _has(tags: Iterable[str], pool: DesiredUnit) -> bool:
    return any(_tag_unit(tag) == pool for tag in tags)


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
        taken.update(units.of_pools(row))
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
