"""Ganeti's data about storage: settings, locations of disks, units on nodes.

Disk locations are in Ganeti's configuration file (``config.data``) and in results of
OP_INSTANCE_QUERY_DATA; units of nodes in results of OP_NODE_QUERY_STORAGE (``lib/cmdlib/node.py``).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ganeti_htools.backends import units
from ganeti_htools.backends.fields import Fields, parse_json
from ganeti_htools.backends.inventories import (
    read_inventories,
    read_inventory,
    write_inventories,
    write_inventory,
)
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Disk
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.known_storage import (
    DisksByInstance,
    UnitReports,
    UnitSpace,
    with_disks,
    with_inventories,
)
from ganeti_htools.model.resource_classes import POOL
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, Pool, StorageType
from ganeti_htools.model.types import DiskTemplate

_LONGEST = 200  # characters of a provider's name
_SETTINGS = {
    "volume_group_name": StorageType.LVM_VG,
    "file_storage_dir": StorageType.FILE,
    "shared_file_storage_dir": StorageType.SHARED_FILE,
    "gluster_storage_dir": StorageType.GLUSTER,
}


def default_units(settings: Fields) -> tuple[DesiredUnit, ...]:
    """Return the units of disks without a named unit, by the cluster's settings. Raises DataError."""
    named = {kind: settings.text(key) for key, kind in _SETTINGS.items() if settings.has(key)}
    pool = rbd_pool(settings)
    if pool:
        named[StorageType.RADOS] = pool
    return tuple(DesiredUnit(kind, key) for kind, key in named.items() if key)


def metavg(owner: Fields) -> str | None:
    """Return a group's volume group for the metadata of new mirrored disks. Raises DataError."""
    return _parameter(owner, DiskTemplate.DRBD, "metavg")


def rbd_pool(owner: Fields) -> str | None:
    """Return the pool of new RBD disks of the cluster or a group. Raises DataError."""
    return _parameter(owner, DiskTemplate.RBD, "pool")


def _parameter(owner: Fields, template: DiskTemplate, name: str) -> str | None:
    """Return a disk parameter of a cluster or group, or None."""
    if not owner.has("diskparams"):
        return None
    parameters = owner.object("diskparams")
    if not parameters.has(template.value):
        return None
    found = parameters.object(template.value)
    return (found.text(name) or None) if found.has(name) else None


def enabled_templates(settings: Fields) -> tuple[DiskTemplate, ...] | None:
    """Return the known disk templates that new instances may have."""
    if not settings.has("enabled_disk_templates"):
        return None
    known = {template.value: template for template in DiskTemplate}
    return tuple(known[name] for name in settings.texts("enabled_disk_templates") if name in known)


class DiskLocations(NamedTuple):
    """Disks with their locations by instance, and an error line for each unreadable instance."""

    disks: DisksByInstance
    wrong: tuple[str, ...]


def configured_disks(data: bytes) -> DiskLocations:
    """Read disk locations from Ganeti's configuration file. Raises DataError for another file."""
    what = "Ganeti's configuration"
    document = Fields(what, parse_json(data, what))
    settings, disks = document.object("cluster"), document.object("disks").values
    defaults = {unit.type: unit.key for unit in default_units(settings)}
    rows = document.object("nodegroups").values.items()
    pools = {uuid: pool for uuid, values in rows if (pool := _own_pool(values))}
    groups = {
        uuid: str(node.get("group"))
        for uuid, node in document.object("nodes").values.items()
        if isinstance(node, dict)
    }

    def read(_uuid: str, row: Fields) -> tuple[str, tuple[Disk, ...]]:
        name = row.text("name")
        row.owner = f"instance {on_one_line(name)}"
        keys = _with_pool(defaults, pools.get(groups.get(str(row.values.get("primary_node")), "")))
        parts = [Fields(f"{row.owner}: disk", disks.get(disk)) for disk in row.texts("disks")]
        return name, tuple(_disk(part, keys) for part in parts)

    return _found(document.object("instances").values, read)


def _own_pool(group: Any) -> str | None:
    """Return a group's own RBD pool; None without one or for invalid data."""
    try:
        return rbd_pool(Fields("group", group))
    except DataError:
        return None


def queried_disks(result: Any, defaults: Iterable[DesiredUnit], pools: Mapping[str, str]) -> DiskLocations:
    """Read disk locations from a result of OP_INSTANCE_QUERY_DATA. Raises DataError for another result.

    ``pools`` are the RBD pools of groups, by UUID.
    """
    keys = {unit.type: unit.key for unit in defaults}

    def read(name: str, row: Fields) -> tuple[str, tuple[Disk, ...]]:
        own = _with_pool(keys, pools.get(str(row.values.get("pnode_group_uuid"))))
        return name, tuple(_disk(disk, own) for disk in row.objects("disks"))

    return _found(Fields("Ganeti's instance data", result).values, read)


def _found(
    rows: Mapping[str, Any], read: Callable[[str, Fields], tuple[str, tuple[Disk, ...]]]
) -> DiskLocations:
    """Collect disk locations. ``read`` returns an instance's name and disks."""
    found, wrong = dict[str, tuple[Disk, ...]](), list[str]()
    for key, values in rows.items():
        try:
            name, disks = read(key, Fields(f"instance {on_one_line(key)}", values))
            found[name] = disks
        except DataError as error:
            wrong.append(str(error))
    return DiskLocations(found, tuple(wrong))


def _with_pool(defaults: Mapping[StorageType, str], pool: str | None) -> Mapping[StorageType, str]:
    """Return the default keys by storage type, with a group's own RBD pool."""
    return {**defaults, StorageType.RADOS: pool} if pool else defaults


def _disk(fields: Fields, defaults: Mapping[StorageType, str]) -> Disk:
    """Read a disk; configuration and query results share the format (``objects.Disk``)."""
    template = fields.choice("dev_type", DiskTemplate)
    disk = Disk(fields.integer("size"), fields.count("spindles") if fields.has("spindles") else None)
    kind = TYPE_OF[template]
    match template:
        case DiskTemplate.DRBD:
            parts = fields.objects("children")
            if len(parts) != 2:
                raise fields.wrong("children", "[Disk]", "the disks of data and metadata")
            data, meta = map(_first, parts)
            return replace(disk, unit=DesiredUnit(kind, data), metavg=None if meta == data else meta)
        case DiskTemplate.PLAIN | DiskTemplate.EXT:
            return replace(disk, unit=DesiredUnit(kind, _first(fields)))
        case DiskTemplate.FILE | DiskTemplate.SHARED_FILE:
            return replace(disk, unit=DesiredUnit(kind, _directory(fields, defaults.get(kind))))
    key = defaults.get(kind)
    return replace(disk, unit=DesiredUnit(kind, key)) if key else disk


def _first(fields: Fields) -> str:
    """Return the first part of a disk's location: volume group, driver or provider."""
    return _parts(fields)[0]


def _parts(fields: Fields) -> list[str]:
    value = fields.value("logical_id")
    if not isinstance(value, list) or len(value) != 2 or not all(_text(part) for part in value):
        raise fields.wrong("logical_id", "disk", "a list of two strings")
    return value


def _text(value: Any) -> bool:
    """Whether it is a printable name on one line."""
    return isinstance(value, str) and value != "" and value.isprintable()


def _directory(fields: Fields, default: str | None) -> str:
    """Return a file's storage directory: the cluster's if it contains the file, else that of its instance."""
    path = _parts(fields)[1]
    if default and path.startswith(default.rstrip("/") + "/"):
        return default
    return path.rsplit("/", 2)[0] or "/"


def storage_to_json(cluster: Cluster) -> dict[str, Any]:
    """Return units of nodes, disks of instances, pools with their settings, and any inventories as JSON.

    Units, disks and inventories are in the text format, by name.
    """
    there = {node.name: write_inventories(node.inventories) for node in cluster.nodes if node.inventories}
    return {
        "pools": [
            {
                "type": pool.unit.type.value,
                "key": pool.unit.key,
                "total": pool.total,
                "reserved": pool.reserved,
                **({} if pool.free is None else {"free": pool.free}),
                "allocation_ratio": pool.allocation_ratio,
                "taken": pool.taken,
            }
            for pool in cluster.pools
        ],
        "pool_settings": [
            {"type": unit.type.value, "key": unit.key, "inventory": write_inventory(POOL, each)}
            for unit, each in cluster.pool_settings
        ],
        "nodes": {
            node.name: units.write_units(node.storage) for node in cluster.nodes if node.storage is not None
        },
        "instances": {
            row.name: units.write_disks(row.disks)
            for row in cluster.instances
            if any(disk.unit or disk.metavg for disk in row.disks)
        },
        **({"inventories": there} if there else {}),
    }


def with_storage_json(cluster: Cluster, said: Any) -> Cluster:
    """Return the cluster with the data of :func:`storage_to_json`. Raises DataError."""
    fields = Fields("storage", said)
    nodes, instances = fields.object("nodes"), fields.object("instances")
    cluster = with_disks(cluster, {name: units.read_disks(instances.text(name)) for name in instances.values})
    storage = {name: units.read_units(nodes.text(name)) for name in nodes.values}
    rows = tuple(
        replace(node, storage=storage[node.name]) if node.name in storage else node for node in cluster.nodes
    )
    pools = tuple(
        pool(each)._replace(taken=each.integer("taken") if each.has("taken") else 0)
        for each in fields.objects("pools")
    )
    settings = fields.objects("pool_settings") if fields.has("pool_settings") else ()
    cluster = replace(cluster, nodes=rows, pools=pools, pool_settings=tuple(map(_pool_setting, settings)))
    if not fields.has("inventories"):
        return cluster
    there = fields.object("inventories")
    return with_inventories(cluster, {name: read_inventories(there.text(name)) for name in there.values})


def _pool_setting(fields: Fields) -> tuple[DesiredUnit, Inventory]:
    """Read the inventory that an administrator has set for a pool. Raises DataError."""
    return _pool_unit(fields), read_inventory(fields.text("inventory"))[1]


def _pool_unit(fields: Fields) -> DesiredUnit:
    known = {kind.value: kind for kind in StorageType if kind.pool}
    kind, key = fields.text("type"), fields.text("key")
    if kind not in known:
        raise fields.wrong("type", "StorageType", f"one of {', '.join(known)}")
    if not key:
        raise fields.wrong("key", "String", "the name of a pool")
    return DesiredUnit(known[kind], key)


def pool(fields: Fields) -> Pool:
    """Read a pool's type, key, total, reserved and free MiB, overcommit factor, provider's name, and probe.

    Raises DataError.
    """
    unit = _pool_unit(fields)
    probe = fields.texts("probe") if fields.has("probe") else ()
    if fields.has("probe") and not (probe and probe[0]):
        raise fields.wrong("probe", "[String]", "a command and its arguments")
    total = fields.integer("total") if fields.has("total") or not probe else 0
    reserved = fields.integer("reserved", high=total or MAX_MIB) if fields.has("reserved") else 0
    free = fields.free("free") if fields.has("free") else None
    provider = fields.text("provider") if fields.has("provider") else ""
    if not provider.isprintable() or len(provider) > _LONGEST:
        raise fields.wrong("provider", "String", f"a name of one line and at most {_LONGEST} characters")
    ratio = fields.number("allocation_ratio") if fields.has("allocation_ratio") else 1.0
    if ratio <= 0 or ratio * total > MAX_MIB:
        expected = f"a number above 0, and a capacity of at most {MAX_MIB} MiB"
        raise fields.wrong("allocation_ratio", "Double", expected)
    return Pool(unit, total, reserved, provider, free, probe, ratio)


def reports(results: Mapping[StorageType, Any]) -> tuple[UnitReports, tuple[str, ...]]:
    """Read the units of nodes from results of OP_NODE_QUERY_STORAGE (STORAGE_FIELDS) by type.

    A node with an invalid row is left out; the second value has an error line for each.
    """
    found: defaultdict[str, dict[DesiredUnit, UnitSpace]] = defaultdict(dict)
    wrong: dict[str, str] = {}
    for kind, rows in results.items():
        for row in rows if isinstance(rows, list) else ():
            match row:
                case [str(node), str(name), int(size), int(free)] if (
                    _text(name)
                    and 0 <= free <= size <= MAX_MIB
                    and DesiredUnit(kind, name) not in found[node]
                ):
                    found[node][DesiredUnit(kind, name)] = UnitSpace(size, free)
                case [str(node), *_]:
                    wrong[node] = (
                        f"node {on_one_line(node)}: storage of type {kind.value}: expected each unit's name,"
                        f" size and free space once, got {on_one_line(str(row[1:]))[:60]}"
                    )
    return {node: units for node, units in found.items() if node not in wrong}, tuple(wrong.values())
