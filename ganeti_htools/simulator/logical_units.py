"""What opcodes do to the world, with Ganeti's refusals: its logical units (``lib/cmdlib``).

Instances go to nodes of other groups if the instance policy there allows it (``CheckTargetNodeIPolicy``);
whether the group is connected to their networks is not looked at, here as in Ganeti.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Group, Instance, Node
from ganeti_htools.model.policy import violation
from ganeti_htools.model.types import DiskTemplate, Fail, Mirror, Status
from ganeti_htools.simulator.opcodes import OpcodeError, new_disks, refused
from ganeti_htools.simulator.storage import (
    VOLUME_GROUPS,
    check_groups,
    query_disks,
    query_storage,
    with_disks,
)
from ganeti_htools.simulator.world import World, charged, find, lacking, lose, with_role

LogicalUnit = Callable[[World, Opcode], tuple[World, Any]]


def carry_out(world: World, opcode: Opcode) -> tuple[World, Any]:
    """The world afterwards, and the opcode's result. Raises OpcodeError."""
    return _UNITS[opcode["OP_ID"]](world, opcode)


def begun(world: World, opcode: Opcode) -> World:
    """The world while the opcode is at work. Raises OpcodeError if it cannot begin.

    An instance that is moved is stopped first; it stays so if the move fails.
    """
    if opcode["OP_ID"] != "OP_INSTANCE_MOVE":
        return world
    instance, _ = _check_move(world, opcode)
    return _stopped(world, instance)


def _instance(world: World, opcode: Opcode, forthcoming: bool = False) -> Instance:
    """The instance of an opcode, which must not be forthcoming unless the opcode takes such instances."""
    name = opcode["instance_name"]
    instance = world.instance(name)
    if instance is None:
        raise refused(f"Instance '{name}' not known", "unknown_entity")
    if instance.forthcoming and not forthcoming:
        raise refused(f"Instance '{name}' is forthcoming", "wrong_state")
    return instance


def _node(world: World, name: str) -> Node:
    node = world.node(name)
    if node is None:
        raise refused(f"Node '{name}' not known", "unknown_entity")
    return node


def _usable(world: World, name: str) -> Node:
    """A node that may take an instance or its disks."""
    node = _node(world, name)
    if name in world.offline:
        raise refused(f"Can't use offline node: {name}", "wrong_state")
    if name in world.drained:
        raise refused(f"Can't use drained node: {name}", "wrong_state")
    if name in world.silent:
        raise refused(f"Can't get data from node {name}: Node does not answer", "environment_error")
    return node


_POLICY = {
    Fail.MEM: "memory-size",
    Fail.CPU: "cpu-count",
    Fail.DISK: "disk-size or disk-templates",
    Fail.DISK_COUNT: "disk-count",
    Fail.SPINDLES: "spindle-use",
}


def _check_policy(world: World, opcode: Opcode, instance: Instance, target: Node) -> None:
    """A node of another group takes an instance only if the group's instance policy allows it."""
    primary = _node(world, instance.pnode)
    if primary.group == target.group or opcode.get("ignore_ipolicy"):
        return
    group = _group(world, target.group)
    secondary = world.node(instance.snode or "")
    exclusive = primary.excl_stor or (secondary is not None and secondary.excl_stor)
    reason = violation(instance.demand, group.ipolicy, exclusive)
    if reason is not None:
        text = f"Instance does not meet target node group's ({group.uuid}) instance policy: {_POLICY[reason]}"
        raise refused(text, "wrong_input")


def _target(world: World, opcode: Opcode, instance: Instance, move: str) -> Node:
    """Where a ``move``, a migration or failover, takes an instance: its secondary, or the node asked for."""
    wanted = opcode.get("target_node")
    if instance.template.mirror is Mirror.NONE:
        text = f"Instance's disk layout '{instance.template.value}' does not allow {move}s"
        raise refused(text, "wrong_state")
    if instance.template.mirror is Mirror.INTERNAL:
        if wanted not in (None, instance.snode):
            text = f"Instances with disk types {instance.template.value} cannot be"
            verb = "migrated" if move == "migration" else "failed over"
            raise refused(f"{text} {verb} to arbitrary nodes", "wrong_input")
        name = instance.snode
    else:
        name = wanted
    if name is None:
        raise refused("No target node, and iallocators are not simulated", "wrong_input")
    if name == instance.pnode:
        text = f"Cannot migrate instance {instance.name} to its primary ({name})"
        raise refused(text, "wrong_state")
    _check_policy(world, opcode, instance, _node(world, name))
    return _usable(world, name)


def _check_memory(instance: Instance, target: Node) -> None:
    if target.f_mem < instance.mem:
        text = f"Not enough memory on node {target.name} for instance {instance.name}"
        text += f": needed {instance.mem} MiB, available {target.f_mem} MiB"
        raise refused(text, "insufficient_resources")


def _go(world: World, instance: Instance, target: Node) -> World:
    """An instance on its target; of DRBD the nodes change roles."""
    if instance.uses_memory:
        _check_memory(instance, target)
    source = _node(world, instance.pnode)
    doubled = instance.template.mirror is Mirror.INTERNAL
    nodes = (
        charged(source, instance, world.units, memory=-1),
        charged(target, instance, world.units, memory=1),
    )
    lost = instance.status in (Status.NODE_DOWN, Status.NODE_OFFLINE)
    moved = replace(
        instance,
        pnode=target.name,
        snode=source.name if doubled else instance.snode,
        status=Status.RUNNING if lost else instance.status,
    )
    return world.with_nodes(nodes).with_instance(moved)


def _failover(world: World, opcode: Opcode) -> tuple[World, Any]:
    instance = _instance(world, opcode, forthcoming=True)
    return _go(world, instance, _target(world, opcode, instance, "failover")), None


def _migrate(world: World, opcode: Opcode) -> tuple[World, Any]:
    instance = _instance(world, opcode)
    target = _target(world, opcode, instance, "migration")
    if not opcode.get("allow_failover"):
        if not instance.status.running:
            raise refused(f"Instance {instance.name} is not running, please use failover", "wrong_state")
        if not world.answers(instance.pnode):
            text = f"Can't migrate, please use failover: node {instance.pnode} does not answer"
            raise refused(text, "wrong_state")
    return _go(world, instance, target), None


def _replace_disks(world: World, opcode: Opcode) -> tuple[World, Any]:
    instance = _instance(world, opcode, forthcoming=True)
    if instance.template is not DiskTemplate.DRBD or instance.snode is None:
        raise refused("Can only run replace disks for DRBD8-based instances", "wrong_input")
    if opcode["mode"] != "replace_new_secondary":
        return world, None  # other disks on the same nodes
    name = opcode.get("remote_node")
    if name is None:
        raise refused("No new node, and iallocators are not simulated", "wrong_input")
    target, left = _usable(world, name), _node(world, instance.snode)
    if name == instance.pnode:
        raise refused("The specified node is the primary node of the instance", "wrong_input")
    if name == instance.snode:
        raise refused("The specified node is already the secondary node of the instance", "wrong_input")
    _check_policy(world, opcode, instance, target)
    if not world.answers(instance.pnode):
        raise OpcodeError("OpExecError", f"Can't reach node {instance.pnode}, the source of the data")
    _check_default_group(world, instance)
    taken = _with_disks(world, instance, target)
    moved = world.with_nodes((charged(left, instance, world.units, storage=-1), taken))
    return moved.with_instance(replace(instance, snode=name)), None


def _with_disks(world: World, instance: Instance, target: Node) -> Node:
    """The node once the disks of an instance were created there."""
    taken = charged(target, instance, world.units, storage=1)
    short = lacking(target, instance, world.units)
    if short or (taken.excl_stor and taken.f_spindles < 0):
        text = f"Can't create block device on node {target.name} for instance {instance.name}: no space"
        where = f" on {short}" if short and world.units.known else ""
        raise OpcodeError("OpExecError", text + where)
    return taken


def _create(world: World, opcode: Opcode) -> tuple[World, Any]:
    """A new instance, which starts unless the opcode says otherwise (``LUInstanceCreate``)."""
    name, pnode, snode = opcode["instance_name"], opcode.get("pnode"), opcode.get("snode")
    if world.instance(name) is not None:
        raise refused(f"Instance '{name}' is already in the cluster", "already_exists")
    template = DiskTemplate(opcode["disk_template"])
    mirrored = template is DiskTemplate.DRBD
    if pnode is None or (mirrored and snode is None):
        raise refused("No nodes for the instance, and iallocators are not simulated", "wrong_input")
    if mirrored and snode == pnode:
        raise refused("The secondary node cannot be the primary node", "wrong_input")
    nodes = [_usable(world, node) for node in (pnode, snode if mirrored else None) if node is not None]
    params = opcode.get("beparams") or {}
    group = _group(world, nodes[0].group)
    instance = with_disks(
        world,
        group,
        Instance(
            name,
            params.get("maxmem", 128),
            0,
            new_disks(opcode),
            params.get("vcpus", 1),
            Status.RUNNING if opcode.get("start", True) else Status.DOWN,
            pnode=pnode,
            snode=snode if mirrored else None,
            template=template,
            forthcoming=bool(opcode.get("forthcoming")),
        ),
    )
    for node in nodes:
        check_groups(world, instance, node)
    if instance.uses_memory:
        _check_memory(instance, nodes[0])
    made = [_with_disks(world, instance, node) for node in nodes]
    made[0] = charged(made[0], instance, world.units, memory=1)
    cluster = world.with_nodes(made).cluster
    cluster = replace(cluster, instances=(*cluster.instances, instance))
    return replace(world, cluster=cluster), [node.name for node in nodes]


def _set_instance(world: World, opcode: Opcode) -> tuple[World, Any]:
    """A plain instance becomes mirrored (``LUInstanceSetParams``); no other change is simulated."""
    instance, name = _instance(world, opcode), opcode.get("remote_node")
    if instance.template is not DiskTemplate.PLAIN or opcode.get("disk_template") != DiskTemplate.DRBD.value:
        raise refused("Only conversions from plain to drbd are simulated", "wrong_input")
    if _wanted(instance):
        text = f"Instance '{instance.name}' is marked to be up, cannot change disk template"
        raise refused(text, "wrong_state")
    if name is None:
        raise refused("No new node, and iallocators are not simulated", "wrong_input")
    if name == instance.pnode:
        text = f"Given new secondary node {name} is the same as the primary node of the instance"
        raise refused(text, "wrong_state")
    target, primary = _usable(world, name), _node(world, instance.pnode)
    _check_policy(world, opcode, instance, target)
    mirrored = replace(instance, template=DiskTemplate.DRBD, snode=name)
    mirrored = with_disks(world, _group(world, primary.group), mirrored)
    check_groups(world, mirrored, target)  # the primary is not looked at
    primary = _with_disks(world, mirrored, charged(primary, instance, world.units, storage=-1))
    world = world.with_nodes((primary, _with_disks(world, mirrored, target)))
    return world.with_instance(mirrored), [["disk_template", DiskTemplate.DRBD.value]]


_COPYABLE = (DiskTemplate.PLAIN, DiskTemplate.FILE)


def _check_move(world: World, opcode: Opcode) -> tuple[Instance, Node]:
    """The instance that is to be moved, and where to. Raises OpcodeError if it cannot be."""
    instance, name = _instance(world, opcode), opcode["target_node"]
    if instance.disks and instance.template not in _COPYABLE:
        text = f"Instance disk 0 has disk type {instance.template.value} and is not suitable for copying"
        raise refused(text, "wrong_state")
    if name == instance.pnode:
        raise refused(f"Instance {instance.name} is already on the node {name}", "wrong_state")
    target = _usable(world, name)
    _check_policy(world, opcode, instance, target)
    if _wanted(instance):
        _check_memory(instance, target)
    if not world.answers(instance.pnode):
        text = f"Could not shutdown instance {instance.name} on node {instance.pnode}"
        raise OpcodeError("OpExecError", text)
    return instance, target


def _wanted(instance: Instance) -> bool:
    """Whether the instance is meant to run."""
    return instance.status not in (Status.DOWN, Status.OFFLINE, Status.ERROR_UP)


def _stopped(world: World, instance: Instance) -> World:
    if _wanted(instance):
        return _with_status(world, instance, Status.ERROR_DOWN)
    return _with_status(world, instance, Status.DOWN) if instance.status is Status.ERROR_UP else world


def _with_status(world: World, instance: Instance, status: Status) -> World:
    """The world with an instance started or stopped, which takes memory or gives it back."""
    node, now = _node(world, instance.pnode), replace(instance, status=status)
    node = charged(charged(node, instance, world.units, memory=-1), now, world.units, memory=1)
    return world.with_nodes((node,)).with_instance(now)


def _move(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Disks are copied to a new primary, while the instance is stopped; there it runs if it is meant to."""
    found, target = _check_move(world, opcode)
    world = _stopped(world, found)
    instance = _instance(world, opcode)
    left = charged(_node(world, instance.pnode), instance, world.units, storage=-1)
    world = world.with_nodes((left, _with_disks(world, instance, target)))
    moved = replace(instance, pnode=target.name)
    started = _wanted(found)
    return _with_status(world, moved, Status.RUNNING) if started else world.with_instance(moved), None


def _check_default_group(world: World, instance: Instance) -> None:
    """New secondaries need the cluster's volume group on the primary, whatever groups the disks are on.

    Of a forthcoming instance nothing is copied.
    """
    group, primary = world.units.local[0].key, _node(world, instance.pnode)
    groups = [unit for unit in primary.storage or () if unit.desired.type in VOLUME_GROUPS and unit.total]
    there = primary.storage is None or any(unit.desired.key == group for unit in groups)
    if not there and not instance.forthcoming:
        raise OpcodeError("OpExecError", f"Volume group '{group}' not found on node {primary.name}")


def _tags(change: Callable[[Sequence[str], Sequence[str]], tuple[str, ...]]) -> LogicalUnit:
    def retag(world: World, opcode: Opcode) -> tuple[World, Any]:
        kind, name = opcode["kind"], opcode.get("name") or ""
        tags = change(tagged(world, kind, name), opcode["tags"])
        cluster = world.cluster
        if kind == "cluster":
            cluster = replace(cluster, tags=tags)
        elif kind == "nodegroup":
            groups = (replace(row, tags=tags) if _is(row, name) else row for row in cluster.groups)
            cluster = replace(cluster, groups=tuple(groups))
        elif kind == "node":
            return world.with_nodes((replace(_node(world, name), tags=tags),)), None
        else:
            return world.with_instance(replace(_instance(world, {"instance_name": name}), tags=tags)), None
        return replace(world, cluster=cluster), None

    return retag


def tagged(world: World, kind: str, name: str) -> tuple[str, ...]:
    """The tags of an object. Raises OpcodeError."""
    found: list[tuple[str, ...]]
    match kind:
        case "cluster":
            return world.cluster.tags
        case "nodegroup":
            found = [group.tags for group in world.cluster.groups if _is(group, name)]
        case "node":
            found = [node.tags for node in world.cluster.nodes if node.name == name]
        case "instance":
            found = [instance.tags for instance in world.cluster.instances if instance.name == name]
        case _:
            found = []
    if not found:
        title = "Group" if kind == "nodegroup" else kind.title()
        raise refused(f"{title} name {name} not found", "unknown_entity")
    return found[0]


def _is(group: Group, name: str) -> bool:
    return name in (group.name, group.uuid)


def _added(tags: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({*tags, *more}))


def _removed(tags: Sequence[str], less: Sequence[str]) -> tuple[str, ...]:
    missing = sorted({*less} - {*tags})
    if missing:
        raise refused(f"Tag(s) {', '.join(map(repr, missing))} not found", "unknown_entity")
    return tuple(tag for tag in tags if tag not in less)


def _group(world: World, name: str) -> Group:
    found = [group for group in world.cluster.groups if _is(group, name)]
    if not found:
        raise refused(f"Target group '{name}' not found", "unknown_entity")
    return found[0]


def _assign_nodes(world: World, opcode: Opcode) -> tuple[World, Any]:
    group = _group(world, opcode["group_name"])
    assigned = world.with_nodes(replace(_node(world, name), group=group.uuid) for name in opcode["nodes"])
    split = sorted(_split(assigned) - _split(world))
    if split and not opcode.get("force"):
        text = "The following instances get split by this change and --force was not given: "
        raise OpcodeError("OpExecError", text + ", ".join(split))
    return assigned, None


def _split(world: World) -> set[str]:
    """Mirrored instances with nodes in two groups."""
    groups = {node.name: node.group for node in world.cluster.nodes}
    return {
        row.name
        for row in world.cluster.instances
        if row.snode is not None and groups[row.pnode] != groups[row.snode]
    }


def _remove_group(world: World, opcode: Opcode) -> tuple[World, Any]:
    group = _group(world, opcode["group_name"])
    nodes = sorted(node.name for node in world.cluster.nodes if node.group == group.uuid)
    if nodes:
        text = f"Group '{group.name}' not empty, has the following nodes: {', '.join(nodes)}"
        raise refused(text, "wrong_state")
    groups = tuple(each for each in world.cluster.groups if each is not group)
    if not groups:
        raise refused(f"Group '{group.name}' is the only group, cannot be removed", "wrong_state")
    return replace(world, cluster=replace(world.cluster, groups=groups)), None


def _set_node(world: World, opcode: Opcode) -> tuple[World, Any]:
    name, offline, drained = opcode["node_name"], opcode.get("offline"), opcode.get("drained")
    _node(world, name)
    if offline is None and drained is None:
        raise refused("Please pass at least one modification", "wrong_input")
    if offline and drained:
        raise refused("Can't set the node into more than one state at the same time", "wrong_input")
    if name == world.master and (offline or drained):
        raise refused("The master role can be changed only via master-failover", "wrong_input")
    # The roles exclude each other.
    role = {
        "offline": bool(offline) or (offline is None and not drained and name in world.offline),
        "drained": bool(drained) or (drained is None and not offline and name in world.drained),
    }
    changes = [
        [key, value] for key, value in (("offline", offline), ("drained", drained)) if value is not None
    ]
    return with_role(world, name, **role), changes


def _out_of_band(world: World, opcode: Opcode) -> tuple[World, Any]:
    command, result = opcode["command"], []
    for name in opcode["node_names"]:
        _node(world, name)
        if command == "power-off":
            if name not in world.offline:
                raise refused(f"Cannot power off node {name} because it is not marked offline", "wrong_state")
            world = lose(world, name)
        elif command in ("power-on", "power-cycle"):
            world = find(world, name)
        elif command not in ("power-status", "health"):
            raise refused(f"Unknown command {command}", "wrong_input")
        powered = {"powered": name not in world.silent} if command == "power-status" else None
        result.append([[0, name], [0, powered]])
    return world, result


def _told(query: Callable[[World, Opcode], Any]) -> LogicalUnit:
    return lambda world, opcode: (world, query(world, opcode))


def _nothing(world: World, _opcode: Opcode) -> tuple[World, Any]:
    return world, None


_UNITS: Mapping[str, LogicalUnit] = {
    "OP_INSTANCE_CREATE": _create,
    "OP_INSTANCE_SET_PARAMS": _set_instance,
    "OP_INSTANCE_MIGRATE": _migrate,
    "OP_INSTANCE_FAILOVER": _failover,
    "OP_INSTANCE_REPLACE_DISKS": _replace_disks,
    "OP_INSTANCE_MOVE": _move,
    "OP_TAGS_SET": _tags(_added),
    "OP_TAGS_DEL": _tags(_removed),
    "OP_NODE_SET_PARAMS": _set_node,
    "OP_OOB_COMMAND": _out_of_band,
    "OP_GROUP_ASSIGN_NODES": _assign_nodes,
    "OP_GROUP_REMOVE": _remove_group,
    "OP_NODE_QUERY_STORAGE": _told(query_storage),
    "OP_INSTANCE_QUERY_DATA": _told(query_disks),
    "OP_TEST_DELAY": _nothing,
}
