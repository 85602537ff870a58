"""The columns of queries about nodes, instances, groups and networks."""

from collections.abc import Callable
from typing import Any

from ganeti_htools.model.cluster import Group, Instance, Node
from ganeti_htools.model.policy import IPolicy, ISpec
from ganeti_htools.model.types import Status
from ganeti_htools.simulator import storage_units
from ganeti_htools.simulator.fields import (
    NO_DATA,
    NORMAL,
    OFFLINE,
    UNAVAILABLE,
    Entry,
    Field,
    QueryTable,
    field,
    world_field,
)
from ganeti_htools.simulator.world import World


def _reported(title: str, kind: str, doc: str, value: Callable[[Node], Any]) -> Field:
    """Return a field that only the node itself can report."""

    def entry(world: World, node: Node) -> Entry:
        if node.name in world.offline:
            return OFFLINE, None
        return (NO_DATA, None) if node.name in world.silent else (NORMAL, value(node))

    return Field(title, kind, doc, entry)


def json_number(value: float) -> float:
    """Return a number as Ganeti writes it: a whole one without a fraction."""
    return int(value) if value == int(value) else value


def _instances(world: World, names: Callable[[Instance], Any], node: Node) -> list[str]:
    return [instance.name for instance in world.cluster.instances if names(instance) == node.name]


def _role(world: World, node: Node) -> str:
    if node.name == world.master:
        return "M"
    return "O" if node.name in world.offline else "D" if node.name in world.drained else "R"


def _address(world: World, node: Node) -> Entry:
    return (NORMAL, world.addresses[node.name]) if node.name in world.addresses else (NO_DATA, None)


def _boot(world: World, node: Node) -> Entry:
    number = world.boots.get(node.name, 0)
    named = storage_units.object_uuid(f"boot {number} of {node.name}")
    return (NORMAL, named) if world.answers(node.name) else (NO_DATA, None)


def _candidate(world: World, node: Node) -> bool:
    return node.name not in world.regular | world.offline | world.drained


def _powered(world: World, node: Node) -> Entry:
    return (UNAVAILABLE, None) if node.name in world.unpowered else (NORMAL, node.name not in world.off)


def _group_name(world: World, node: Node) -> str:
    return next(group.name for group in world.cluster.groups if group.uuid == node.group)


def _uuid(row: Node | Instance) -> str:
    return row.uuid or storage_units.object_uuid(row.name)


def _primary(instance: Instance) -> str:
    return instance.pnode


def _secondary(instance: Instance) -> str | None:
    return instance.snode


NODES = QueryTable(
    {
        "name": field("Node", "text", "Node name", lambda node: node.name),
        "uuid": field("UUID", "text", "Node UUID", _uuid),
        "pip": Field("PrimaryIP", "text", "Primary IP address", _address),
        "mtotal": _reported(
            "MTotal",
            "unit",
            "Total amount of memory of physical machine",
            lambda node: json_number(node.t_mem),
        ),
        "mnode": _reported(
            "MNode", "unit", "Amount of memory used by node (dom0 for Xen)", lambda node: node.n_mem
        ),
        "mfree": _reported(
            "MFree", "unit", "Memory available for instance allocations", lambda node: node.f_mem
        ),
        "dtotal": _reported(
            "DTotal",
            "unit",
            "Total storage space on storage unit for instance disk allocation",
            lambda node: json_number(node.t_dsk),
        ),
        "dfree": _reported(
            "DFree", "unit", "Available storage space on storage unit", lambda node: node.f_dsk
        ),
        "ctotal": _reported(
            "CTotal", "number", "Number of logical processors", lambda node: json_number(node.t_cpu)
        ),
        "cnos": _reported(
            "CNOs",
            "number",
            "Number of logical processors used by the node OS (dom0 for Xen)",
            lambda node: node.n_cpu,
        ),
        "sptotal": _reported(
            "SpTotal",
            "number",
            "Total spindles in volume group (exclusive storage only)",
            lambda node: node.t_spindles if node.excl_stor else 0,
        ),
        "spfree": _reported(
            "SpFree",
            "number",
            "Available spindles in volume group (exclusive storage only)",
            lambda node: node.f_spindles,
        ),
        "bootid": Field(
            "BootID",
            "text",
            "Random UUID renewed for each system reboot, can be used for detecting reboots by tracking"
            " changes",
            _boot,
        ),
        "offline": world_field(
            "Offline",
            "bool",
            "Whether node is marked offline",
            lambda world, node: node.name in world.offline,
        ),
        "drained": world_field(
            "Drained", "bool", "Whether node is drained", lambda world, node: node.name in world.drained
        ),
        "vm_capable": field("VMCapable", "bool", "Whether node can host instances", lambda node: True),
        "master_capable": field(
            "MasterCapable", "bool", "Whether node can become a master candidate", lambda node: True
        ),
        "master_candidate": world_field("MasterC", "bool", "Whether node is a master candidate", _candidate),
        "master": world_field(
            "Master", "bool", "Whether node is master", lambda world, node: node.name == world.master
        ),
        "role": world_field("Role", "text", "Node role", _role),
        "powered": Field(
            "Powered",
            "bool",
            "Whether node is thought to be powered on",
            _powered,
        ),
        "ndp/spindle_count": field(
            "SpindleCount",
            "number",
            'The "spindle_count" node parameter',
            lambda node: 1 if node.excl_stor else node.t_spindles,
        ),
        "ndp/exclusive_storage": field(
            "ExclusiveStorage",
            "bool",
            'The "exclusive_storage" node parameter',
            lambda node: node.excl_stor,
        ),
        "ndp/cpu_speed": field(
            "ndp/cpu_speed",
            "float",
            'The "cpu_speed" node parameter',
            lambda node: json_number(node.cpu_speed),
        ),
        "group": world_field("Group", "text", "Node group", _group_name),
        "group.uuid": field("GroupUUID", "text", "UUID of node group", lambda node: node.group),
        "tags": field("Tags", "other", "Tags", lambda node: node.tags),
        "pinst_cnt": world_field(
            "Pinst",
            "number",
            "Number of instances with this node as primary",
            lambda world, node: len(_instances(world, _primary, node)),
        ),
        "sinst_cnt": world_field(
            "Sinst",
            "number",
            "Number of instances with this node as secondary",
            lambda world, node: len(_instances(world, _secondary, node)),
        ),
        "pinst_list": world_field(
            "PriInstances",
            "other",
            "List of instances with this node as primary",
            lambda world, node: _instances(world, _primary, node),
        ),
        "sinst_list": world_field(
            "SecInstances",
            "other",
            "List of instances with this node as secondary",
            lambda world, node: _instances(world, _secondary, node),
        ),
    }
)


def _oper_state(world: World, instance: Instance) -> Entry:
    if not world.answers(instance.pnode):
        return (OFFLINE if instance.pnode in world.offline else NO_DATA), None
    return NORMAL, instance.status.running


def _oper_ram(world: World, instance: Instance) -> Entry:
    state, running = _oper_state(world, instance)
    if state != NORMAL:
        return state, None
    return (NORMAL, instance.mem) if running else (UNAVAILABLE, None)


def _admin_state(instance: Instance) -> str:
    match instance.status:
        case Status.OFFLINE:
            return "offline"
        case Status.DOWN | Status.ERROR_UP:
            return "down"
        case _:
            return "up"


_STATUS = (
    'Instance status; "running" if instance is set to be running and actually is, "ADMIN_down" if'
    ' instance is stopped and is not running, "ERROR_*" if what was found is not what is wanted'
)

INSTANCES = QueryTable(
    {
        "name": field("Instance", "text", "Instance name", lambda row: row.name),
        "uuid": field("UUID", "text", "Instance UUID", _uuid),
        "disk_usage": field(
            "DiskUsage",
            "unit",
            "Total disk space used by instance on each of its nodes; this is not the disk size visible"
            " to the instance, but the usage on the node",
            lambda row: row.dsk,
        ),
        "be/memory": field("ConfigMaxMem", "unit", 'The "maxmem" backend parameter', lambda row: row.mem),
        "be/maxmem": field("ConfigMaxMem", "unit", 'The "maxmem" backend parameter', lambda row: row.mem),
        "be/minmem": field("ConfigMinMem", "unit", 'The "minmem" backend parameter', lambda row: row.mem),
        "be/vcpus": field("ConfigVCPUs", "number", 'The "vcpus" backend parameter', lambda row: row.vcpus),
        "be/auto_balance": field(
            "Auto_balance", "bool", 'The "auto_balance" backend parameter', lambda row: row.auto_balance
        ),
        "be/spindle_use": field(
            "be/spindle_use", "number", 'The "spindle_use" backend parameter', lambda row: row.spindle_use
        ),
        "status": field("Status", "text", _STATUS, lambda row: row.status.value),
        "admin_state": field("InstanceState", "text", "Desired state of instance", _admin_state),
        "oper_state": Field("Running", "bool", "Actual state of instance", _oper_state),
        "oper_ram": Field("Memory", "unit", "Actual memory usage as seen by hypervisor", _oper_ram),
        "pnode": field("Primary_node", "text", "Primary node", lambda row: row.pnode),
        "snodes": field(
            "Secondary_Nodes",
            "other",
            "Secondary nodes; usually this will just be one node",
            lambda row: [] if row.snode is None else [row.snode],
        ),
        "tags": field("Tags", "other", "Tags", lambda row: row.tags),
        "disk_template": field(
            "Disk_template", "text", "Instance disk template", lambda row: row.template.value
        ),
        "disk.sizes": field(
            "Disk_sizes", "other", "List of disk sizes", lambda row: [disk.size for disk in row.disks]
        ),
        "disk.spindles": field(
            "Disk_spindles",
            "other",
            "List of disk spindles",
            lambda row: [disk.spindles for disk in row.disks],
        ),
        "nic.networks": field(
            "NIC_networks",
            "other",
            "List containing each interface's network",
            lambda row: [nic.network for nic in row.nics],
        ),
        "forthcoming": field(
            "Forthcoming", "bool", "whether the Instance is forthcoming", lambda row: row.forthcoming
        ),
    }
)


def _spec(spec: ISpec) -> dict[str, int]:
    return {
        "memory-size": spec.memory_size,
        "disk-size": spec.disk_size,
        "disk-count": spec.disk_count,
        "cpu-count": spec.cpu_count,
        "nic-count": spec.nic_count,
        "spindle-use": spec.spindle_use,
    }


def ipolicy(policy: IPolicy) -> dict[str, Any]:
    """Return an instance policy as Ganeti writes it."""
    return {
        "minmax": [{"min": _spec(pair.min), "max": _spec(pair.max)} for pair in policy.minmax],
        "std": _spec(policy.std),
        "spindle-ratio": json_number(policy.spindle_ratio),
        "vcpu-ratio": json_number(policy.vcpu_ratio),
        "disk-templates": [template.value for template in policy.disk_templates],
    }


def _nodes_of(world: World, group: Group) -> list[str]:
    return [node.name for node in world.cluster.nodes if node.group == group.uuid]


def _instances_of(world: World, group: Group) -> list[str]:
    nodes = set(_nodes_of(world, group))
    return [instance.name for instance in world.cluster.instances if instance.pnode in nodes]


GROUPS = QueryTable(
    {
        "uuid": field("UUID", "text", "Group UUID", lambda group: group.uuid),
        "name": field("Group", "text", "Group name", lambda group: group.name),
        "alloc_policy": field(
            "AllocPolicy", "text", "Allocation policy for group", lambda group: group.alloc_policy.value
        ),
        "ipolicy": field(
            "InstancePolicy",
            "other",
            "Instance policy limitations (merged)",
            lambda group: ipolicy(group.ipolicy),
        ),
        "tags": field("Tags", "other", "Tags", lambda group: group.tags),
        "diskparams": world_field(
            "DiskParameters", "other", "Disk parameters (merged)", storage_units.parameters
        ),
        "node_cnt": world_field(
            "Nodes", "number", "Number of nodes", lambda world, group: len(_nodes_of(world, group))
        ),
        "node_list": world_field("NodeList", "other", "List of nodes", _nodes_of),
        "pinst_cnt": world_field(
            "Instances",
            "number",
            "Number of primary instances",
            lambda world, group: len(_instances_of(world, group)),
        ),
        "pinst_list": world_field("InstanceList", "other", "List of primary instances", _instances_of),
    }
)


def networks(world: World) -> list[str]:
    """Return the UUIDs of the networks that groups are connected to. Files lack their names."""
    return sorted({network for group in world.cluster.groups for network in group.networks})


def _connections(world: World, network: str) -> list[tuple[str, str, str, str]]:
    groups = (group for group in world.cluster.groups if network in group.networks)
    return [(group.name, "bridged", "br0", "") for group in groups]


NETWORKS = QueryTable(
    {
        "name": field("Network", "text", "Name", lambda network: network),
        "uuid": field("UUID", "text", "Network UUID", lambda network: network),
        "group_list": world_field(
            "GroupList",
            "other",
            "List of nodegroups (group name, NIC mode, NIC link)",
            _connections,
        ),
    }
)
