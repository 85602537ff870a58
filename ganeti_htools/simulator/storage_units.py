"""Storage of the simulated cluster: its settings, the units on nodes, and the units of disks.

The queries are answered as by ``LUNodeQueryStorage`` (``lib/cmdlib/node.py``) and ``LUInstanceQueryData``
(``lib/cmdlib/instance_query.py``) of Ganeti 3.0. Values that files lack are those of a new cluster.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Disk, Group, Instance, Node
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.storage import (
    DRBD_META,
    IGNORED,
    TYPE_OF,
    DesiredUnit,
    StorageType,
    Unit,
)
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units import unit_on
from ganeti_htools.simulator.opcodes import prereq_error
from ganeti_htools.simulator.world import World

_FIELDS = ("name", "size", "free", "used", "allocatable", "node", "type")
_REPORTED = {StorageType.LVM_VG, StorageType.FILE, StorageType.SHARED_FILE, StorageType.GLUSTER}
VOLUME_GROUPS = (StorageType.DRBD, StorageType.LVM_VG)  # to Ganeti both are volume groups
_USUAL = {
    StorageType.LVM_VG: "xenvg",
    StorageType.FILE: "/srv/ganeti/file-storage",
    StorageType.SHARED_FILE: "/srv/ganeti/shared-file-storage",
    StorageType.GLUSTER: "/var/run/ganeti/gluster",
    StorageType.RADOS: "rbd",
    StorageType.EXT: "ext",
    StorageType.BLOCK: "/dev/disk",
}


def object_uuid(name: str) -> str:
    """Return a UUID for an object, since files have none."""
    return str(uuid5(NAMESPACE_DNS, name))


def _default(world: World, kind: StorageType) -> str:
    """Return the key of the cluster's own unit of a type."""
    return world.units.default(kind).key or _USUAL[kind]


def settings(world: World) -> dict[str, Any]:
    """Return the storage part of the answer to QueryClusterInfo."""
    return {
        "enabled_disk_templates": [template.value for template in _enabled(world)],
        "volume_group_name": _default(world, StorageType.LVM_VG),
        "file_storage_dir": _default(world, StorageType.FILE),
        "shared_file_storage_dir": _default(world, StorageType.SHARED_FILE),
        "gluster_storage_dir": _default(world, StorageType.GLUSTER),
        "diskparams": parameters(world),
    }


def parameters(world: World, group: Group | None = None) -> dict[str, Any]:
    """Return the disk parameters of the cluster, or of a group, that name units."""
    metavg, pool = (group.metavg, group.rbd_pool) if group else (None, None)
    return {
        DiskTemplate.DRBD.value: {"metavg": metavg or _default(world, StorageType.LVM_VG)},
        DiskTemplate.RBD.value: {"pool": pool or _default(world, StorageType.RADOS)},
    }


def with_new_disks(world: World, group: Group, instance: Instance) -> Instance:
    """Return the instance with its disks as a group creates them."""
    instance = with_disk_defaults(group, instance)
    if instance.template is not DiskTemplate.DRBD:
        return replace(instance, dsk=sum(disk.size for disk in instance.disks))
    usual = _default(world, StorageType.LVM_VG)
    disks = tuple(replace(disk, metavg=disk.metavg or usual) for disk in instance.disks)
    return replace(instance, disks=disks, dsk=sum(disk.size + DRBD_META for disk in disks))


def check_volume_groups(world: World, instance: Instance, node: Node) -> None:
    """Check that volume groups have space for an instance's disks. Raises OpcodeError.

    The metadata of a mirrored disk counts on the group of the disk, even if it goes to another one
    (``CheckNodesFreeDiskPerVG``, ``lib/cmdlib/instance_storage.py``).
    """
    if TYPE_OF[instance.template] is not StorageType.LVM_VG:
        return
    needs, meta = Counter[DesiredUnit](), DRBD_META * (instance.template is DiskTemplate.DRBD)
    for disk in instance.disks:
        unit = world.units.unit_of(disk, instance.template) if world.units.reported else world.units.local[0]
        needs[unit] += disk.size + meta
    for unit, need in needs.items():
        present = unit_on(node, world.units, unit)
        if present is None:
            text = f"Can't compute free disk space on node {node.name} for vg {unit.key}, result was 'None'"
            raise prereq_error(text, "environment_error")
        if need > present.free:
            text = f"Not enough disk space on target node {node.name} vg {unit.key}"
            text += f": required {need} MiB, available {present.free} MiB"
            raise prereq_error(text, "insufficient_resources")


def _enabled(world: World) -> list[DiskTemplate]:
    """Return the templates that the cluster's policy allows, and those in use."""
    used = {row.template for row in world.cluster.instances}
    allowed = world.cluster.ipolicy.disk_templates
    found = [*allowed, *(template for template in DiskTemplate if template in used - set(allowed))]
    return found or [DiskTemplate.DISKLESS]


def query_storage(world: World, opcode: Opcode) -> list[list[Any]]:
    """Return the units of one type on nodes, a row each, without nodes that do not answer.

    The opcode asks all nodes if it lacks ``nodes``, and for the type of the first enabled template if it
    lacks ``storage_type``.
    """
    fields = opcode["output_fields"]
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise prereq_error(f"Unknown output fields selected: {','.join(unknown)}", "wrong_input")
    kind = _asked_type(world, opcode.get("storage_type"))
    wanted = opcode.get("nodes") or [node.name for node in world.cluster.nodes]
    missing = [name for name in wanted if world.node(name) is None]
    if missing:
        raise prereq_error(f"Node '{missing[0]}' not known", "unknown_entity")
    nodes = [node for node in world.cluster.nodes if node.name in wanted and world.answers(node.name)]
    rows = [(node, row) for node in nodes for row in _units(world, node, kind)] if kind else []
    only = opcode.get("name")
    entries = [
        {
            "name": name,
            "size": size,
            "free": free,
            "used": size - free,
            "allocatable": True,
            "node": node.name,
            "type": kind.value if kind else None,
        }
        for node, (name, size, free) in rows
        if only in (None, name)
    ]
    return [[row[field] for field in fields] for row in entries]


def _asked_type(world: World, name: str | None) -> StorageType | None:
    """Return the type of the query; None for physical volumes, which the simulation lacks."""
    enabled = _enabled(world)
    types = [TYPE_OF[template] for template in enabled]
    if name is None:
        if types[0] not in _REPORTED:
            raise prereq_error(
                f"Storage reporting for storage type '{types[0].value}' is not supported.", "wrong_input"
            )
        return types[0]
    kind = StorageType.LVM_VG if name == IGNORED else StorageType(name)
    if kind not in types:
        names = ",".join(template.value for template in enabled)
        raise prereq_error(
            f"No disk template of storage type '{name}' is enabled in this cluster."
            f" Enabled disk templates are: {names}",
            "wrong_input",
        )
    return None if name == IGNORED else kind


def _units(world: World, node: Node, kind: StorageType) -> list[tuple[str, int, int]]:
    """Return name, size and free space of the units of a type on a node.

    The only directory is the cluster's own. A node without known units has the default volume group.
    """
    if kind is StorageType.LVM_VG:
        if node.storage is None:
            return [(_default(world, kind), int(node.t_dsk), node.f_dsk)] if node.t_dsk else []
        groups = [unit for kind in VOLUME_GROUPS for unit in node.storage if unit.desired.type is kind]
        found = {unit.desired.key: (unit.desired.key, *_space(unit)) for unit in groups}
        return [found[name] for name in sorted(found)]
    if kind not in _REPORTED:
        return []
    own = DesiredUnit(kind, _default(world, kind))
    present = [unit for unit in node.storage or () if unit.desired == own]
    return [(unit.desired.key, *_space(unit)) for unit in present]


def _space(unit: Unit) -> tuple[int, int]:
    """Return size and free space as a node measures them: never negative, never more than the size."""
    return unit.total, min(unit.total, max(0, unit.free))


def query_volumes(world: World, opcode: Opcode) -> list[list[str]]:
    """Return the logical volumes of instances on nodes, a row each; none belongs to nobody."""
    entries = [
        {"node": name, "vg": _default(world, StorageType.LVM_VG), "name": volume, "instance": row.name}
        for row in world.cluster.instances
        for name in (row.pnode, row.snode)
        if name and name in opcode["nodes"] and row.template.local_storage and world.answers(name)
        for volume in (f"{object_uuid(f'{row.name}/{place}')}.disk{place}" for place in range(len(row.disks)))
    ]
    return [[entry[field] for field in opcode["output_fields"]] for entry in entries]


def query_disks(world: World, opcode: Opcode) -> dict[str, dict[str, Any]]:
    """Return the configuration of instances by name; of all instances if the opcode lacks ``instances``."""
    wanted: Sequence[str] = opcode.get("instances") or [row.name for row in world.cluster.instances]
    rows = [(name, world.instance(name)) for name in wanted]
    for name, row in rows:
        if row is None:
            raise prereq_error(f"Instance '{name}' not known", "unknown_entity")
    return {name: _data(world, row) for name, row in rows if row}


def _data(world: World, row: Instance) -> dict[str, Any]:
    # The text format gives each instance a disk.
    disks = () if row.template is DiskTemplate.DISKLESS else row.disks
    return {
        "name": row.name,
        "uuid": object_uuid(row.name),
        "run_state": None,
        "pnode": row.pnode,
        "pnode_group_uuid": next(node.group for node in world.cluster.nodes if node.name == row.pnode),
        "snodes": [] if row.snode is None else [row.snode],
        "disk_template": row.template.value,
        "disks": [_disk(world, row, disk, place) for place, disk in enumerate(disks)],
    }


def _disk(world: World, row: Instance, disk: Disk, place: int) -> dict[str, Any]:
    name = f"{object_uuid(f'{row.name}/{place}')}.disk{place}"
    key = disk.unit.key if disk.unit else _default(world, TYPE_OF[row.template])
    entry: dict[str, Any] = {
        "iv_name": f"disk/{place}",
        "dev_type": row.template.value,
        "mode": "rw",
        "size": disk.size,
        "spindles": disk.spindles,
        "uuid": object_uuid(name),
        "drbd_info": None,
        "pstatus": None,
        "sstatus": None,
        "children": [],
    }
    if row.template is not DiskTemplate.DRBD:
        return entry | {"logical_id": _logical_id(row, key, name)}
    nodes = [object_uuid(node) for node in (row.pnode, row.snode or row.pnode)]
    parts = ((key, f"{name}_data", disk.size), (disk.metavg or key, f"{name}_meta", DRBD_META))
    children: list[Mapping[str, Any]] = [
        entry | {"dev_type": "plain", "logical_id": [group, volume], "size": size}
        for group, volume, size in parts
    ]
    return entry | {"logical_id": [*nodes, 11000 + place, 0, 0, None], "children": children}


def _logical_id(row: Instance, key: str, name: str) -> list[str]:
    match row.template:
        case DiskTemplate.FILE | DiskTemplate.SHARED_FILE:
            return ["loop", f"{key}/{row.name}/{name}"]
        case DiskTemplate.GLUSTER:
            return ["loop", f"ganeti/{name}"]
        case DiskTemplate.BLOCK:
            return ["manual", f"/dev/disk/{name}"]
        case DiskTemplate.RBD:
            return ["rbd", name]
        case _:
            return [key, name]
