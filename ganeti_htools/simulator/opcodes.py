"""Opcodes, the JSON objects in jobs: luxid's checks on arrival, summaries, duration, locks.

The simulator knows the opcodes that the tools submit, and a few for tests.
"""

from collections.abc import Mapping
from typing import Any

from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.unit_fields import disk_of
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.storage import IGNORED as PHYSICAL
from ganeti_htools.model.storage import TYPE_OF
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.world import World

STORAGE_TYPES = frozenset(each.value for each in TYPE_OF.values())


class OpcodeError(HtoolsError):
    """A refusal or failure in Ganeti's form: the name of an exception and its arguments."""

    def __init__(self, kind: str, *details: str) -> None:
        super().__init__(f"{kind}: {details[0]}")
        self.encoded: list[Any] = [kind, list(details)]


def prereq_error(text: str, code: str) -> OpcodeError:
    """Return the error for an opcode that the present state does not allow."""
    return OpcodeError("OpPrereqError", text, code)


# The known opcodes, with the fields that each must have.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "OP_INSTANCE_CREATE": ("instance_name", "disk_template", "disks"),
    "OP_INSTANCE_SET_PARAMS": ("instance_name",),
    "OP_INSTANCE_MIGRATE": ("instance_name",),
    "OP_INSTANCE_FAILOVER": ("instance_name",),
    "OP_INSTANCE_REPLACE_DISKS": ("instance_name", "mode"),
    "OP_INSTANCE_MOVE": ("instance_name", "target_node"),
    "OP_INSTANCE_RECREATE_DISKS": ("instance_name",),
    "OP_INSTANCE_REINSTALL": ("instance_name",),
    "OP_INSTANCE_ACTIVATE_DISKS": ("instance_name",),
    "OP_TAGS_SET": ("kind", "tags"),
    "OP_TAGS_DEL": ("kind", "tags"),
    "OP_NODE_SET_PARAMS": ("node_name",),
    "OP_OOB_COMMAND": ("node_names", "command"),
    "OP_GROUP_ASSIGN_NODES": ("group_name", "nodes"),
    "OP_GROUP_REMOVE": ("group_name",),
    "OP_NODE_QUERYVOLS": ("output_fields",),
    "OP_NODE_QUERY_STORAGE": ("output_fields",),
    "OP_INSTANCE_QUERY_DATA": (),
    "OP_TEST_DELAY": ("duration",),
}

# The types of fields that are present and not null.
_KINDS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        {
            "OP_ID",
            "instance_name",
            "node_name",
            "group_name",
            "mode",
            "kind",
            "name",
            "command",
            "target_node",
            "remote_node",
            "iallocator",
            "storage_type",
            "disk_template",
            "pnode",
            "snode",
        }
    ),
    bool: frozenset(
        {
            "offline",
            "drained",
            "allow_failover",
            "ignore_ipolicy",
            "force",
            "auto_promote",
            "static",
            "use_locking",
            "start",
            "forthcoming",
        }
    ),
    int: frozenset({"priority"}),
    list: frozenset(
        {"reason", "tags", "node_names", "depends", "output_fields", "nodes", "instances", "disks"},
    ),
}


def check(opcode: Any) -> Opcode:
    """Return the opcode if luxid would accept it. Raises DataError."""
    if not isinstance(opcode, dict):
        raise DataError("Unable to read JSObject")
    for key in ("OP_ID", "reason", *_REQUIRED.get(str(opcode.get("OP_ID")), ())):
        if opcode.get(key) is None:
            names = ",".join(f'"{name}"' for name in opcode)
            raise DataError(f"key '{key}' not found, object contains only [{names}]")
    for kind, keys in _KINDS.items():
        for key in keys & opcode.keys():
            if opcode[key] is not None and type(opcode[key]) is not kind:
                raise DataError(f"key '{key}': Unable to read {kind.__name__}")
    for key in ("tags", "node_names", "output_fields", "nodes", "instances"):
        if not all(isinstance(item, str) for item in opcode.get(key) or ()):
            raise DataError(f"key '{key}': Unable to read String")
    if opcode.get("disk_template") not in (None, *(template.value for template in DiskTemplate)):
        raise DataError(f"key 'disk_template': Invalid value {opcode['disk_template']}")
    if (opcode.get("storage_type") or PHYSICAL) not in (*STORAGE_TYPES, PHYSICAL):
        raise DataError(f"key 'storage_type': Invalid value {opcode['storage_type']} for type StorageType")
    if type(opcode.get("duration", 0)) not in (int, float) or not 0 <= opcode.get("duration", 0) < 1e6:
        raise DataError("key 'duration': Unable to read Double")
    if opcode["OP_ID"] not in _REQUIRED:
        raise DataError(f"Unknown opcode {opcode['OP_ID']}")
    if opcode["OP_ID"] == "OP_INSTANCE_CREATE":
        new_disks(opcode)
        params = opcode.get("beparams") or {}
        if not isinstance(params, dict) or any(type(value) is not int for value in params.values()):
            raise DataError("key 'beparams': Unable to read Int")
    return opcode


def new_disks(opcode: Opcode) -> tuple[Disk, ...]:
    """Return the disks of a new instance. Raises DataError."""
    template, owner = DiskTemplate(opcode["disk_template"]), f"instance {opcode['instance_name']}"
    return tuple(disk_of(Fields(owner, disk), template) for disk in opcode["disks"])


_SUBJECTS = ("instance_name", "node_name", "group_name", "duration")


def summary(opcode: Opcode) -> str:
    """Return the opcode as job lists show it, like ``INSTANCE_MIGRATE(name)``."""
    name = opcode["OP_ID"].removeprefix("OP_")
    subject = next((opcode[key] for key in _SUBJECTS if key in opcode), None)
    return name if subject is None else f"{name}({subject})"


def seconds(opcode: Opcode, usual: float) -> float:
    """Return the seconds that an opcode takes: its own for a delay, the ``usual`` ones otherwise."""
    return float(opcode["duration"]) if opcode["OP_ID"] == "OP_TEST_DELAY" else usual


def subjects(world: World, opcode: Opcode) -> frozenset[str]:
    """Return the names of the instances and nodes that no other job may change at the same time.

    A storage query locks its nodes, and so does their change to another group. No job can then work on the
    instances of these nodes.
    """
    if opcode["OP_ID"] in ("OP_NODE_QUERY_STORAGE", "OP_GROUP_ASSIGN_NODES"):
        nodes = set(opcode.get("nodes") or (node.name for node in world.cluster.nodes))
        instances = {
            row.name for row in world.cluster.instances if not nodes.isdisjoint((row.pnode, row.snode))
        }
        return frozenset(nodes | instances)
    if "instance_name" in opcode:
        return frozenset({opcode["instance_name"]})
    nodes = {opcode["node_name"]} if "node_name" in opcode else set(opcode.get("node_names") or ())
    return frozenset(nodes) | {row.name for row in world.cluster.instances if row.pnode in nodes}
