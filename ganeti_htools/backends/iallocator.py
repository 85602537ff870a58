"""Ganeti's iallocator requests (``doc/iallocator.rst``): the cluster and the request itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ganeti_htools.backends import unit_fields
from ganeti_htools.backends.documents import RepeatingObject, without_garbage_collection
from ganeti_htools.backends.fields import Fields, parse_json
from ganeti_htools.model import request as wanted
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Group, Instance, Nic, Node, check
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.model.ignored_tags import request_without_ignored, without_ignored
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.policy import IPolicy, ISpec, MinMax
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, EvacMode, Status

ADMIN_STATES = {"up": Status.RUNNING, "down": Status.DOWN, "offline": Status.OFFLINE}
NIC_MODES = ("bridged", "routed", "openvswitch")


@dataclass(frozen=True, slots=True)
class Message:
    """A request with the cluster it is about; ``warnings`` name figures that were missing."""

    cluster: Cluster
    request: wanted.Request
    warnings: tuple[str, ...] = ()


def read(data: bytes) -> Message:
    """Parse a whole message. Raises DataError."""
    with without_garbage_collection():
        return _read(data)


def _read(data: bytes) -> Message:
    message = Fields("invalid iallocator message", parse_json(data, "Parsing input IAllocator message"))
    message.object("request")
    warnings: list[str] = []
    hypervisor = default_hypervisor(message)
    nodes = [node(name, values, hypervisor, warnings) for name, values in _section(message, "nodes")]
    instances = [instance(name, values) for name, values in _section(message, "instances")]
    rows = groups(dict(_section(message, "nodegroups")))
    return assemble(message, rows, nodes, instances, warnings)


def allocation_part(text: str) -> str:
    """Return the part ``request`` of a message, which must be of type allocate. Raises DataError."""
    message = Fields(
        "invalid iallocator message", parse_json(text.encode(), "Parsing input IAllocator message")
    )
    part = orjson.dumps(message.object("request").values).decode()
    read_allocation(part)
    return part


def read_allocation(text: str) -> wanted.Allocate:
    """Parse the part ``request`` of a message of type allocate. Raises DataError."""
    fields = Fields("invalid request dict", parse_json(text.encode(), "Parsing the request"))
    kind = fields.text("type")
    if kind != "allocate":
        raise DataError(f"expected a request of type allocate, got {on_one_line(kind)}")
    return _allocate(fields)


def _section(message: Fields, key: str) -> Iterable[tuple[str, Any]]:
    """Return the members of a section. Raises DataError if a name appears twice, since a member would be
    lost.
    """
    values = message.object(key).values
    if isinstance(values, RepeatingObject):
        raise DataError(f"{message.owner}: key '{key}': the name '{values.name}' stands twice")
    return values.items()


def assemble(
    message: Fields,
    groups: Iterable[Group],
    nodes: Iterable[Node],
    instances: Iterable[Instance],
    warnings: Iterable[str],
) -> Message:
    """Build a message from its parsed parts, and read the request."""
    cluster = Cluster(tuple(groups), tuple(nodes), tuple(instances), message.texts("cluster_tags"))
    check(cluster)
    request = Fields("invalid request dict", message.object("request").values)
    heeded = request_without_ignored(_request(request, cluster), cluster.tags)
    return Message(without_ignored(cluster), heeded, tuple(warnings))


def default_hypervisor(message: Fields) -> str | None:
    """Return the first enabled hypervisor; the message does not name those of nodes."""
    enabled = message.texts("enabled_hypervisors")
    return enabled[0] if enabled else None


def groups(values: Mapping[str, Any]) -> list[Group]:
    """Node groups by their UUIDs."""
    return [group(uuid, each) for uuid, each in values.items()]


def group(uuid: str, values: Any) -> Group:
    fields = Fields(f"invalid data for group '{uuid}'", values)
    return Group(
        fields.text("name"),
        uuid,
        fields.choice("alloc_policy", AllocPolicy),
        fields.texts("networks"),
        ipolicy(fields.object("ipolicy")),
        fields.texts("tags"),
    )


def ipolicy(fields: Fields) -> IPolicy:
    return IPolicy(
        tuple(
            MinMax(_ispec(pair.object("min")), _ispec(pair.object("max")))
            for pair in fields.objects("minmax")
        ),
        _ispec(fields.object("std")),
        fields.choices("disk-templates", DiskTemplate),
        fields.number("vcpu-ratio"),
        fields.number("spindle-ratio"),
    )


def _ispec(fields: Fields) -> ISpec:
    return ISpec(
        fields.integer("memory-size"),
        fields.count("cpu-count"),
        fields.integer("disk-size"),
        fields.count("disk-count"),
        fields.count("nic-count"),
        fields.count("spindle-use"),
    )


def node(name: str, values: Any, hypervisor: str | None, warnings: list[str]) -> Node:
    """Read a node. Figures that Ganeti omits without local storage become 0 with a warning."""
    fields = Fields(f"invalid data for node '{name}'", values)
    params = Fields(fields.owner, fields.object("ndparams").values)
    exclusive = params.boolean("exclusive_storage")
    capable = not fields.has("vm_capable") or fields.boolean("vm_capable")
    live = not fields.boolean("offline") and capable

    def unless_missing(key: str, default: int) -> int:
        if not live:
            return 0
        if fields.has(key):
            return fields.free(key)
        warnings.append(f"node {on_one_line(name)}: key '{key}' is missing, taken for {default}")
        return default

    t_spindles = unless_missing("total_spindles", 0) if exclusive else params.count("spindle_count")
    t_dsk = unless_missing("total_disk", 0)
    if t_dsk < 0:
        raise fields.wrong("total_disk", "Double", f"a number from 0 to {MAX_MIB}")
    return Node(
        name,
        fields.text("group"),
        t_mem=fields.number("total_memory") if live else 0.0,
        n_mem=fields.integer("reserved_memory") if live else 0,
        f_mem=fields.free("free_memory") if live else 0,
        t_dsk=float(t_dsk),
        f_dsk=unless_missing("free_disk", 0),
        t_cpu=fields.number("total_cpus") if live else 0.0,
        n_cpu=unless_missing("reserved_cpus", 1),
        t_spindles=t_spindles,
        f_spindles=unless_missing("free_spindles", 0),
        offline=not live or fields.boolean("drained"),
        excl_stor=exclusive,
        hypervisor=hypervisor,
        tags=fields.texts("tags") if fields.has("tags") else (),
        storage=unit_fields.units_of(fields) if live and fields.has("storage") else None,
        inventories=_inventories(fields) if fields.has("inventories") else (),
    )


def _inventories(fields: Fields) -> Inventories:
    from ganeti_htools.backends.inventories import inventories_of  # which most requests have none of

    return inventories_of(fields)


def instance(name: str, values: Any) -> Instance:
    fields = Fields(f"invalid data for instance '{name}'", values)
    nodes = fields.texts("nodes")
    if not nodes:
        raise DataError(f"empty node list for instance {name}")
    return _instance(name, fields, nodes[0], nodes[1] if len(nodes) > 1 else None)


def _instance(name: str, fields: Fields, pnode: str = "", snode: str | None = None) -> Instance:
    state = fields.values.get("admin_state")
    status = ADMIN_STATES[state if isinstance(state, str) and state in ADMIN_STATES else "up"]
    template = fields.choice("disk_template", DiskTemplate)
    return Instance(
        name,
        fields.integer("memory"),
        fields.integer("disk_space_total"),
        tuple(unit_fields.disk_of(disk, template) for disk in fields.objects("disks")),
        fields.count("vcpus"),
        status,
        fields.texts("tags"),
        True,
        pnode,
        snode,
        template,
        fields.count("spindle_use"),
        tuple(_nic(nic) for nic in fields.objects("nics")),
        fields.boolean("forthcoming") if fields.has("forthcoming") else False,
    )


def _nic(fields: Fields) -> Nic:
    mode, network = _optional(fields, "mode"), _optional(fields, "network")
    if mode is not None and mode not in NIC_MODES:
        raise fields.wrong("mode", "NIC mode", f"one of {', '.join(NIC_MODES)}")
    return Nic(
        _optional(fields, "mac"),
        _optional(fields, "ip"),
        mode,
        _optional(fields, "link"),
        _optional(fields, "bridge"),
        network,
    )


def _optional(fields: Fields, key: str) -> str | None:
    return fields.text(key) if fields.has(key) else None


def _request(fields: Fields, cluster: Cluster) -> wanted.Request:
    kind = fields.text("type")
    if kind not in READERS:
        raise DataError(f"Invalid request type '{kind}', expected one of {', '.join(READERS)}")
    request = READERS[kind](fields)
    check_known(request, cluster)
    return request


def check_known(request: wanted.Request, cluster: Cluster) -> None:
    """Check that the names in a request exist, except new instances and their groups. Raises DataError."""
    match request:
        case wanted.Relocate(name, _, leaving):
            _check_names("instance", [name], [row.name for row in cluster.instances])
            _check_names("node", leaving, [row.name for row in cluster.nodes])
        case wanted.AllocateSecondary(name):
            _check_names("instance", [name], [row.name for row in cluster.instances])
        case wanted.NodeEvacuate(names, _):
            _check_names("instance", names, [row.name for row in cluster.instances])
        case wanted.ChangeGroup(names, groups):
            _check_names("instance", names, [row.name for row in cluster.instances])
            _check_names("group", groups, [name for row in cluster.groups for name in (row.name, row.uuid)])


def _check_names(kind: str, names: Iterable[str], known: list[str]) -> None:
    unknown = [name for name in names if name not in set(known)]
    if unknown:
        raise DataError(f"Unknown {kind} '{unknown[0]}' in the request")


def _placement(fields: Fields, outer: Fields) -> wanted.Placement:
    name = fields.text("name")
    count = fields.count("required_nodes")
    named = Fields(f"invalid data for instance '{name}'", fields.values)
    group = _optional(fields, "group_name") or _optional(outer, "group_name")
    return wanted.Placement(_instance(name, named), count, group)


def _allocate(fields: Fields) -> wanted.Allocate:
    restrict = fields.texts("restrict-to-nodes") if fields.has("restrict-to-nodes") else None
    return wanted.Allocate(_placement(fields, fields), restrict)


def _multi_allocate(fields: Fields) -> wanted.Request:
    return wanted.MultiAllocate(tuple(_placement(each, fields) for each in fields.objects("instances")))


def _allocate_secondary(fields: Fields) -> wanted.Request:
    return wanted.AllocateSecondary(fields.text("name"))


def _relocate(fields: Fields) -> wanted.Request:
    return wanted.Relocate(fields.text("name"), fields.count("required_nodes"), fields.texts("relocate_from"))


def _node_evacuate(fields: Fields) -> wanted.Request:
    return wanted.NodeEvacuate(_once(fields.texts("instances")), fields.choice("evac_mode", EvacMode))


def _change_group(fields: Fields) -> wanted.Request:
    return wanted.ChangeGroup(_once(fields.texts("instances")), _once(fields.texts("target_groups")))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


READERS = {
    "allocate": _allocate,
    "relocate": _relocate,
    "change-group": _change_group,
    "node-evacuate": _node_evacuate,
    "multi-allocate": _multi_allocate,
    "allocate-secondary": _allocate_secondary,
}
