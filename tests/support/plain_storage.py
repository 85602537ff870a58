"""The rules of storage units (Ganeti's design "multi-storage htools"), told as plainly as possible."""

from collections import Counter

from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.resource_classes import class_of_unit
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate

VOLUMES = (StorageType.LVM_VG, StorageType.DRBD)


def told(cluster: Cluster) -> bool:
    """Whether any node tells its units."""
    return any(node.storage is not None for node in cluster.nodes)


def listed(cluster: Cluster) -> set[DesiredUnit]:
    """The units that nodes tell."""
    return {unit.desired for node in cluster.nodes for unit in node.storage or ()}


def default_unit(cluster: Cluster, kind: StorageType) -> DesiredUnit:
    """The unit of a type that most nodes list first; a group for mirrored disks is a volume group, too."""
    kinds, firsts = VOLUMES if kind is StorageType.LVM_VG else (kind,), Counter[str]()
    for node in cluster.nodes:
        firsts.update([unit.desired.key for unit in node.storage or () if unit.desired.type in kinds][:1])
    return DesiredUnit(kind, firsts.most_common(1)[0][0] if firsts else "")


def unit_of(cluster: Cluster, row: Instance, disk: Disk) -> DesiredUnit:
    """The unit that a disk wants: its own, or the default one."""
    unit = disk.unit or default_unit(cluster, TYPE_OF[row.template])
    mirrored = DesiredUnit(StorageType.DRBD, unit.key)
    return mirrored if row.template is DiskTemplate.DRBD and mirrored in listed(cluster) else unit


def takes(cluster: Cluster, row: Instance) -> Counter[DesiredUnit]:
    """What an instance takes (MiB) of each unit on each of its nodes, disk by disk.

    A mirrored disk takes 128 MiB more.
    """
    found: Counter[DesiredUnit] = Counter()
    for disk in row.disks:
        unit = unit_of(cluster, row, disk)
        found[unit] += disk.size
        if row.template is DiskTemplate.DRBD:
            apart = disk.metavg is not None and disk.metavg != unit.key
            found[DesiredUnit(StorageType.LVM_VG, disk.metavg or "") if apart else unit] += 128
    return found if len(found) > 1 else Counter(dict.fromkeys(found, row.dsk))


def can_be_made(cluster: Cluster, row: Instance, node: Node) -> bool:
    """Whether Ganeti makes a mirrored instance's disks on a node, with something left: it looks for all of a
    disk, metadata as well, where its data goes.
    """
    free, wanted = left_on(cluster, node), Counter[DesiredUnit]()
    for disk in row.disks:
        wanted[unit_of(cluster, row, disk)] += disk.size + 128
    return all(free.get(unit, 0) > size for unit, size in wanted.items())


def is_source(cluster: Cluster, node: Node) -> bool:
    """Whether Ganeti copies disks from a node to a new secondary: it has the cluster's own volume group,
    if only for mirrored disks. Of nodes that are offline nothing is known.
    """
    key = default_unit(cluster, StorageType.LVM_VG).key
    told = [unit for unit in node.storage or () if unit.desired.type in VOLUMES and unit.total > 0]
    there = any(unit.desired.key == key for unit in told) if node.storage is not None else node.t_dsk > 0
    return node.offline or there


def counted(cluster: Cluster, unit: DesiredUnit) -> bool:
    """Whether a unit on nodes limits anything: nodes tell units of its type, or were asked for them."""
    types = {each.type for each in listed(cluster)} | {StorageType.LVM_VG}
    enabled = cluster.enabled_templates
    asked = told(cluster) and (enabled is None or unit.type in [TYPE_OF[each] for each in enabled])
    return unit.type.local and (unit.type in types or asked)


def free_on(cluster: Cluster, node: Node) -> dict[DesiredUnit, int]:
    """What a node has free (MiB) of each unit that it has, not reserved; without forthcoming instances."""
    if node.storage is not None:
        free = {unit.desired: unit.free for unit in node.storage if unit.total > 0}
    else:
        free = {default_unit(cluster, StorageType.LVM_VG): node.f_dsk}
    reserved = {name: inventory.reserved for name, inventory in node.inventories}
    return {unit: mib - reserved.get(class_of_unit(unit), 0) for unit, mib in free.items()}


def left_on(cluster: Cluster, node: Node) -> dict[DesiredUnit, int]:
    """The same, less what forthcoming instances are going to take."""
    free = free_on(cluster, node)
    for row in cluster.instances:
        if row.forthcoming and node.name in (row.pnode, row.snode):
            for unit, size in takes(cluster, row).items():
                if unit in free:
                    free[unit] -= size
    return free


def sees(cluster: Cluster, node: Node, pool: DesiredUnit) -> bool:
    """Whether a node sees a pool: if it lists it, should any; or has its tag, should any; or else always."""
    tag, groups = f"htools:storage:{pool.type.value}/{pool.key}", {each.uuid: each for each in cluster.groups}
    listing = [any(unit.desired == pool for unit in each.storage or ()) for each in cluster.nodes]
    tagged = [tag in (*each.tags, *groups[each.group].tags) for each in cluster.nodes]
    row = cluster.nodes.index(node)
    return listing[row] if any(listing) else tagged[row] or not any(tagged)


def has_room(cluster: Cluster, row: Instance, node: Node, force: bool = False, made: bool = False) -> bool:
    """Whether a node has the unit of each disk of one more instance, with something left; and sees the pools.

    With ``force`` nothing is kept for forthcoming instances, nor need anything be free for one that is. Disks
    on several units that are ``made`` there have to be those that Ganeti makes.
    """
    free, wanted = (free_on if force else left_on)(cluster, node), takes(cluster, row)
    if made and row.template is DiskTemplate.DRBD and len(wanted) > 1 and not can_be_made(cluster, row, node):
        return False
    local = [unit for unit in wanted if counted(cluster, unit)]
    return (
        all(sees(cluster, node, unit) for unit in wanted if unit.type.pool)
        and all(unit in free for unit in local)
        and (all(free[unit] > wanted[unit] for unit in local) or (force and row.forthcoming))
    )


def keeps(cluster: Cluster, row: Instance, node: Node, force: bool = False) -> bool:
    """Whether a node has the units on which an instance is said to be there, with something left.

    ``force`` as in :func:`has_room`.
    """
    free = (free_on if force else left_on)(cluster, node)
    local = [unit for unit in takes(cluster, row) if counted(cluster, unit)]
    return all(unit in free and (free[unit] > 0 or (force and row.forthcoming)) for unit in local)
