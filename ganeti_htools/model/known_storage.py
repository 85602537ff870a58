"""Adds known disk locations, storage units and inventories to a cluster.

LUXI queries return none of them. They are found separately and merged here.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType, Unit, holds
from ganeti_htools.model.units_in_use import nodes_seeing, units_of_disks

# Types whose units Ganeti can query on nodes (``constants.STS_REPORT_NODE_STORAGE``).
REPORTED = (StorageType.LVM_VG, StorageType.FILE, StorageType.SHARED_FILE, StorageType.GLUSTER)

# Disks with their locations, by instance name.
DisksByInstance = Mapping[str, tuple[Disk, ...]]


class UnitSpace(NamedTuple):
    """Size and free space (MiB) of a unit."""

    size: int
    free: int


# Units found on nodes, by node name.
UnitReports = Mapping[str, Mapping[DesiredUnit, UnitSpace]]


def with_inventories(cluster: Cluster, inventories: Mapping[str, Inventories]) -> Cluster:
    """Return the cluster with these inventories by node name, none for other nodes.

    The same object if nothing changes.
    """
    found = [inventories.get(node.name, ()) for node in cluster.nodes]
    rows = tuple(
        node if node.inventories == there else replace(node, inventories=there)
        for node, there in zip(cluster.nodes, found, strict=True)
    )
    same = all(new is old for new, old in zip(rows, cluster.nodes, strict=True))
    return cluster if same else replace(cluster, nodes=rows)


def with_disks(cluster: Cluster, disks: DisksByInstance) -> Cluster:
    """Return the cluster with the known locations of its disks. The same object if nothing changes."""
    rows = tuple(with_disk_units(row, disks.get(row.name, ())) for row in cluster.instances)
    same = all(new is old for new, old in zip(rows, cluster.instances, strict=True))
    return cluster if same else replace(cluster, instances=rows)


def other_volume_groups(cluster: Cluster) -> dict[str, list[str]]:
    """Return the volume groups besides the cluster's own that disks name, each with its instances.

    Empty where a node reports its storage units: plans then respect them.
    """
    own = {unit.key for unit in cluster.default_units if unit.type is StorageType.LVM_VG}
    found: dict[str, list[str]] = {}
    for row in () if any(node.storage is not None for node in cluster.nodes) else cluster.instances:
        data = {disk.unit.key for disk in row.disks if disk.unit and disk.unit.type is StorageType.LVM_VG}
        meta = {disk.metavg for disk in row.disks if disk.metavg}
        for key in sorted((data | meta) - own):
            found.setdefault(key, []).append(row.name)
    return found


def with_disk_units(row: Instance, disks: tuple[Disk, ...]) -> Instance:
    """Return the instance with the known locations of its disks. A location of its own wins.

    The instance is unchanged if sizes differ or a disk cannot be on its unit: the known disks are not its
    current ones.
    """
    if [disk.size for disk in disks] != [disk.size for disk in row.disks]:
        return row
    if not all(disk.unit is None or holds(disk.unit, row.template) for disk in disks):
        return row
    found = tuple(_located(old, new) for old, new in zip(row.disks, disks, strict=True))
    return row if found == row.disks else replace(row, disks=found)


def _located(own: Disk, known: Disk) -> Disk:
    if own.unit not in (None, known.unit):
        return own
    return replace(own, unit=known.unit, metavg=own.metavg or known.metavg)


def queryable_types(cluster: Cluster) -> tuple[StorageType, ...]:
    """Return the enabled storage types whose units Ganeti can query."""
    enabled = {TYPE_OF[template] for template in cluster.enabled_templates or ()}
    return tuple(kind for kind in REPORTED if kind in enabled)


def has_several_storage_types(cluster: Cluster) -> bool:
    """Whether instances have, or may have, disks on storage of more than one type."""
    templates = {*(cluster.enabled_templates or ()), *(row.template for row in cluster.instances)}
    return len({TYPE_OF[template] for template in templates} - {StorageType.DISKLESS}) > 1


def units_to_query(cluster: Cluster) -> set[DesiredUnit]:
    """Return the units named by disks, those of new metadata, and the defaults of enabled types."""
    named = units_of_disks(cluster.instances)
    named |= {DesiredUnit(StorageType.LVM_VG, group.metavg) for group in cluster.groups if group.metavg}
    types = queryable_types(cluster)
    return named | {unit for unit in cluster.default_units if unit.type in types}


def with_storage(cluster: Cluster, found: UnitReports, named: Collection[DesiredUnit]) -> Cluster:
    """Return the cluster whose nodes have the ``named`` units found on them. Other nodes are unchanged.

    Ganeti lists every volume group of a node, also the system's. With exclusive storage disks take whole
    physical volumes, so the free space of the default group is the node's own figure.
    """
    group = next((unit for unit in cluster.default_units if unit.type is StorageType.LVM_VG), None)
    rows = tuple(
        replace(node, storage=_storage(node, found[node.name], named, group)) if node.name in found else node
        for node in cluster.nodes
    )
    return replace(cluster, nodes=rows)


def with_shared_units(
    cluster: Cluster, reports: UnitReports, shared: Mapping[DesiredUnit, UnitSpace]
) -> UnitReports:
    """Return the reports of nodes with the pools that one node reported for all that see them.

    Those are the nodes that tags name, otherwise all nodes.
    """
    if not shared:
        return reports
    names = [node.name for node in cluster.nodes]
    seeing = {unit: {*compress(names, nodes_seeing(cluster, unit))} for unit in shared}
    return {
        name: {**rooms, **{unit: space for unit, space in shared.items() if name in seeing[unit]}}
        for name, rooms in reports.items()
    }


def _storage(
    node: Node,
    found: Mapping[DesiredUnit, UnitSpace],
    named: Collection[DesiredUnit],
    group: DesiredUnit | None,
) -> tuple[Unit, ...]:
    there = (Unit(unit, *room) for unit, room in found.items() if unit in named)
    return tuple(_exclusive(node, unit, unit.desired == group) for unit in there)


def _exclusive(node: Node, unit: Unit, default: bool) -> Unit:
    if not node.excl_stor or unit.desired.type is not StorageType.LVM_VG:
        return unit
    if default:
        unit = unit._replace(total=int(node.t_dsk), free=node.f_dsk)
    return unit._replace(params=(True,))


def with_disk(node: Node, source: Node) -> Node:
    """Return the node with the disk space of another; with exclusive storage also its spindles."""
    node = replace(node, t_dsk=source.t_dsk, f_dsk=source.f_dsk)
    if not node.excl_stor:
        return node
    return replace(node, t_spindles=source.t_spindles, f_spindles=source.f_spindles)
