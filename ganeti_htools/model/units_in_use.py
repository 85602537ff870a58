"""The storage units, pools and custom resource classes of a cluster, and the nodes that see each pool."""

from collections import Counter
from collections.abc import Iterable

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.resource_classes import is_own
from ganeti_htools.model.storage import TYPE_NAMES, TYPE_OF, DesiredUnit, StorageType
from ganeti_htools.model.units import SINGLE, Units

POOL_TAG = "htools:storage:"


def reported_units(cluster: Cluster) -> Units:
    """Return the units that nodes report, and the resource classes of inventories.

    Demands for custom classes that no node has limit nothing.
    """
    units = _reported_units(cluster)
    met = [each for node in cluster.nodes if node.inventories for each in node.inventories]
    if not met:
        return units
    custom = {name for name, _ in met if not is_own(name)}
    limited = {name for name, inventory in met if is_own(name) and inventory.limits_amounts}
    return units._replace(classes=tuple(sorted(custom)), limited=tuple(sorted(limited)))


def _reported_units(cluster: Cluster) -> Units:
    if all(node.storage is None for node in cluster.nodes):
        return SINGLE._replace(defaults=cluster.default_units)
    told = _reported(cluster)
    mirrored = frozenset(unit.key for unit in told if unit.type is StorageType.DRBD)
    types = frozenset(unit.type for unit in told) | {StorageType.LVM_VG} | _asked_types(cluster)
    units = SINGLE._replace(reported_types=types, mirrored=mirrored, defaults=default_units(cluster))
    return units._replace(local=_local(units.default(StorageType.LVM_VG), told))


def _asked_types(cluster: Cluster) -> frozenset[StorageType]:
    """Return the types whose units nodes would report: Ganeti is asked for the enabled ones only."""
    if cluster.enabled_templates is None:
        return frozenset(StorageType)
    return frozenset(TYPE_OF[template] for template in cluster.enabled_templates)


def _reported(cluster: Cluster) -> set[DesiredUnit]:
    return {unit.desired for node in cluster.nodes for unit in node.storage or ()}


def _local(first: DesiredUnit, units: Iterable[DesiredUnit]) -> tuple[DesiredUnit, ...]:
    return (first, *sorted({unit for unit in units if unit.type.local} - {first}, key=str))


def units_in_use(cluster: Cluster, requested: Iterable[Instance] = ()) -> Units:
    """Return the units of a cluster and of instances to be placed on it."""
    units = reported_units(cluster)
    if not units.reported:
        return units._replace(pools=_hidden(cluster, _pools(set(), cluster)))
    new = {with_disk_defaults(group, row) for row in requested for group in cluster.groups}
    met = _reported(cluster) | _wanted(units, (*cluster.instances, *requested, *new))
    local = _local(units.local[0], (unit for unit in met if unit.type in units.reported_types))
    return units._replace(local=local, pools=_hidden(cluster, _pools(met, cluster)))


def _hidden(cluster: Cluster, pools: Iterable[DesiredUnit]) -> tuple[DesiredUnit, ...]:
    """Return the pools that some nodes do not see."""
    return tuple(pool for pool in sorted(pools, key=str) if not all(nodes_seeing(cluster, pool)))


def units_of_disks(rows: Iterable[Instance]) -> set[DesiredUnit]:
    """Return the units that disks name, also for their metadata."""
    disks = [disk for row in rows for disk in row.disks]
    named = {disk.unit for disk in disks if disk.unit}
    return named | {DesiredUnit(StorageType.LVM_VG, key) for key in {disk.metavg for disk in disks} if key}


def known_pools(cluster: Cluster, units: Units) -> set[DesiredUnit]:
    """Return the pools with a known size and those of tags; if nodes report units, also those of disks."""
    met = {pool.unit for pool in cluster.pools}
    if not units.reported:
        return _pools(met, cluster)
    met |= _reported(cluster)
    return _pools(met | _wanted(units, cluster.instances), cluster)


def _wanted(units: Units, rows: Iterable[Instance]) -> set[DesiredUnit]:
    # Of many disks few name different units.
    disks = {(row.template, disk.unit, disk.metavg): disk for row in rows for disk in row.disks}
    return {unit for (template, *_), disk in disks.items() for unit, _ in units.disk_needs(disk, template)}


def _pools(met: set[DesiredUnit], cluster: Cluster) -> set[DesiredUnit]:
    return {unit for unit in met | set(pools_of_tags(cluster)) if unit.type.pool}


def default_units(cluster: Cluster) -> tuple[DesiredUnit, ...]:
    """Return the default unit of each type: the cluster's, otherwise the one that most nodes list first.

    A volume group for mirrored disks counts as a volume group.
    """
    firsts: dict[StorageType, Counter[DesiredUnit]] = {}
    # Many nodes list the same units.
    lists = Counter(tuple(unit.desired for unit in node.storage or ()) for node in cluster.nodes)
    for listed, number in lists.items():
        met: dict[StorageType, DesiredUnit] = {}
        for kind, key in listed:
            kind = StorageType.LVM_VG if kind is StorageType.DRBD else kind
            met.setdefault(kind, DesiredUnit(kind, key))
        for kind, first in met.items():
            firsts.setdefault(kind, Counter())[first] += number
    told = {unit.type: unit for unit in cluster.default_units}
    found = {kind: counted.most_common(1)[0][0] for kind, counted in firsts.items()}
    return tuple((found | told).values())


def pools_of_tags(cluster: Cluster) -> list[DesiredUnit]:
    """Return the pools in tags of nodes and groups (``htools:storage:TYPE/KEY``)."""
    owners = [node.tags for node in cluster.nodes] + [group.tags for group in cluster.groups]
    return [unit for tags in owners for unit in map(_tag_unit, tags) if unit]


def _tag_unit(tag: str) -> DesiredUnit | None:
    if not tag.startswith(POOL_TAG):
        return None
    kind, _, key = tag.removeprefix(POOL_TAG).partition("/")
    known = key and key.isprintable() and kind in TYPE_NAMES
    return DesiredUnit(TYPE_NAMES[kind], key) if known else None


def nodes_seeing(cluster: Cluster, pool: DesiredUnit) -> list[bool]:
    """Return for each node whether it sees a pool.

    * If nodes list the pool in their storage: those nodes.
    * Otherwise, if nodes or their groups have the pool's tag: those nodes.
    * Otherwise all nodes.
    """
    listed = [any(unit.desired == pool for unit in node.storage or ()) for node in cluster.nodes]
    if any(listed):
        return listed
    groups = {group.uuid for group in cluster.groups if _has(group.tags, pool)}
    pools_of_tags = [node.group in groups or _has(node.tags, pool) for node in cluster.nodes]
    return pools_of_tags if any(pools_of_tags) else [True] * len(cluster.nodes)


def _has(tags: Iterable[str], pool: DesiredUnit) -> bool:
    return any(_tag_unit(tag) == pool for tag in tags)
