"""Opcodes that change instances (``lib/cmdlib/instance*.py``).

An instance can move to a node of another group if the policy of the group allows the instance
(``CheckTargetNodeIPolicy``). As in Ganeti, the networks of the group do not matter.
"""

from dataclasses import replace
from typing import Any

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.node_after import node_after
from ganeti_htools.model.policy import violation
from ganeti_htools.model.types import DiskTemplate, Fail, MirrorType, Status
from ganeti_htools.simulator.objects import group_of, instance_of, node_of, usable_node
from ganeti_htools.simulator.opcodes import OpcodeError, new_disks, prereq_error
from ganeti_htools.simulator.storage_units import VOLUME_GROUPS, check_volume_groups, with_new_disks
from ganeti_htools.simulator.world import World, full_unit

_POLICY = {
    Fail.MEM: "memory-size",
    Fail.CPU: "cpu-count",
    Fail.DISK: "disk-size or disk-templates",
    Fail.DISK_COUNT: "disk-count",
    Fail.SPINDLES: "spindle-use",
}


def _check_policy(world: World, opcode: Opcode, instance: Instance, target: Node) -> None:
    """Refuse an instance that the instance policy of another group does not allow."""
    primary = node_of(world, instance.pnode)
    if primary.group == target.group or opcode.get("ignore_ipolicy"):
        return
    group = group_of(world, target.group)
    secondary = world.node(instance.snode or "")
    exclusive = primary.excl_stor or (secondary is not None and secondary.excl_stor)
    reason = violation(instance.demand, group.ipolicy, exclusive)
    if reason is not None:
        text = f"Instance does not meet target node group's ({group.uuid}) instance policy: {_POLICY[reason]}"
        raise prereq_error(text, "wrong_input")


def _target(world: World, opcode: Opcode, instance: Instance, move: str) -> Node:
    """Return the target of a ``move`` (migration or failover): the secondary, or the node in the opcode."""
    wanted = opcode.get("target_node")
    if instance.template.mirror is MirrorType.NONE:
        text = f"Instance's disk layout '{instance.template.value}' does not allow {move}s"
        raise prereq_error(text, "wrong_state")
    if instance.template.mirror is MirrorType.INTERNAL:
        if wanted not in (None, instance.snode):
            text = f"Instances with disk types {instance.template.value} cannot be"
            verb = "migrated" if move == "migration" else "failed over"
            raise prereq_error(f"{text} {verb} to arbitrary nodes", "wrong_input")
        name = instance.snode
    else:
        name = wanted or _chosen(world, opcode, instance, 1)[0].name
    if name is None:
        raise prereq_error("No secondary node", "wrong_state")
    if name == instance.pnode:
        text = f"Cannot migrate instance {instance.name} to its primary ({name})"
        raise prereq_error(text, "wrong_state")
    _check_policy(world, opcode, instance, node_of(world, name))
    return usable_node(world, name)


def _check_memory(instance: Instance, target: Node) -> None:
    if target.f_mem < instance.mem:
        text = f"Not enough memory on node {target.name} for instance {instance.name}"
        text += f": needed {instance.mem} MiB, available {target.f_mem} MiB"
        raise prereq_error(text, "insufficient_resources")


def _move_to(world: World, instance: Instance, target: Node) -> World:
    """Return the world with an instance on its target. With DRBD the nodes swap roles."""
    if instance.uses_memory:
        _check_memory(instance, target)
    source = node_of(world, instance.pnode)
    doubled = instance.template.mirror is MirrorType.INTERNAL
    nodes = (
        node_after(source, instance, world.units, memory=-1),
        node_after(target, instance, world.units, memory=1),
    )
    lost = instance.status in (Status.NODE_DOWN, Status.NODE_OFFLINE)
    moved = replace(
        instance,
        pnode=target.name,
        snode=source.name if doubled else instance.snode,
        status=Status.RUNNING if lost else instance.status,
    )
    return world.with_nodes(nodes).with_instance(moved)


def failover(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Start an instance on another node that has or sees its disks."""
    instance = instance_of(world, opcode, forthcoming=True)
    return _move_to(world, instance, _target(world, opcode, instance, "failover")), None


def migrate(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Move a running instance to another node that has or sees its disks."""
    instance = instance_of(world, opcode)
    target = _target(world, opcode, instance, "migration")
    if not opcode.get("allow_failover"):
        if not instance.status.running:
            raise prereq_error(f"Instance {instance.name} is not running, please use failover", "wrong_state")
        if not world.answers(instance.pnode):
            text = f"Can't migrate, please use failover: node {instance.pnode} does not answer"
            raise prereq_error(text, "wrong_state")
    return _move_to(world, instance, target), None


def activate_disks(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Assemble the disks of an instance; its mirrors are always in sync."""
    instance = instance_of(world, opcode)
    if not world.answers(instance.pnode):
        raise prereq_error(f"Can't use offline node {instance.pnode}", "wrong_state")
    return world, []


def replace_disks(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Replace the secondary of an instance."""
    instance = instance_of(world, opcode, forthcoming=True)
    if instance.template is not DiskTemplate.DRBD or instance.snode is None:
        raise prereq_error("Can only run replace disks for DRBD8-based instances", "wrong_input")
    if opcode["mode"] != "replace_new_secondary":
        return world, None  # the disks stay on their nodes
    name = opcode.get("remote_node") or _chosen(world, opcode, instance, 1)[0].name
    target, source = usable_node(world, name), node_of(world, instance.snode)
    if name == instance.pnode:
        raise prereq_error("The specified node is the primary node of the instance", "wrong_input")
    if name == instance.snode:
        raise prereq_error("The specified node is already the secondary node of the instance", "wrong_input")
    _check_policy(world, opcode, instance, target)
    if not world.answers(instance.pnode):
        raise OpcodeError("OpExecError", f"Can't reach node {instance.pnode}, the source of the data")
    _check_default_group(world, instance)
    taken = _with_disks(world, instance, target)
    moved = world.with_nodes((node_after(source, instance, world.units, storage=-1), taken))
    return moved.with_instance(replace(instance, snode=name)), None


def _with_disks(world: World, instance: Instance, target: Node) -> Node:
    """Return the node with the disks of an instance. Raises OpcodeError if it has no space."""
    taken = node_after(target, instance, world.units, storage=1)
    short = full_unit(target, instance, world.units)
    if short or (taken.excl_stor and taken.f_spindles < 0):
        text = f"Can't create block device on node {target.name} for instance {instance.name}: no space"
        where = f" on {short}" if short and world.units.reported else ""
        raise OpcodeError("OpExecError", text + where)
    return taken


def _chosen(world: World, opcode: Opcode, instance: Instance, count: int) -> list[Node]:
    """Choose nodes in place of the opcode's iallocator: those of the group with the most free disk."""
    if opcode.get("iallocator") is None:
        raise prereq_error("No target node and no iallocator in the opcode", "wrong_input")
    group = node_of(world, instance.pnode).group
    unusable = world.offline | world.drained | world.silent | {instance.pnode, instance.snode}
    nodes = [node for node in world.cluster.nodes if node.group == group and node.name not in unusable]
    if len(nodes) < count:
        text = f"Can't compute nodes using iallocator '{opcode['iallocator']}': not enough nodes"
        raise prereq_error(text, "insufficient_resources")
    return sorted(nodes, key=lambda node: -node.f_dsk)[:count]


def recreate_disks(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Make the disks of an instance anew, on other nodes."""
    instance = instance_of(world, opcode)
    targets = _chosen(world, opcode, instance, instance.template.required_nodes)
    source = node_of(world, instance.pnode)
    if source.name not in world.offline and _meant_to_run(instance):
        text = f"Instance '{instance.name}' is marked to be up, cannot recreate disks"
        raise prereq_error(text, "wrong_state")
    changed = [node_after(source, instance, world.units, storage=-1, memory=-1)]
    if instance.snode is not None:
        changed.append(node_after(node_of(world, instance.snode), instance, world.units, storage=-1))
    changed += [_with_disks(world, instance, target) for target in targets]
    names = [target.name for target in targets]
    moved = replace(instance, pnode=names[0], snode=names[1] if len(names) > 1 else None)
    return world.with_nodes(changed).with_instance(moved), None


def reinstall(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Install the system of a stopped instance anew, which changes nothing that others see."""
    instance = instance_of(world, opcode)
    usable_node(world, instance.pnode)
    if _meant_to_run(instance):
        text = f"Instance '{instance.name}' is marked to be up, cannot reinstall"
        raise prereq_error(text, "wrong_state")
    return world, None


def create(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Create an instance, and start it unless the opcode forbids that (``LUInstanceCreate``)."""
    name, pnode, snode = opcode["instance_name"], opcode.get("pnode"), opcode.get("snode")
    if world.instance(name) is not None:
        raise prereq_error(f"Instance '{name}' is already in the cluster", "already_exists")
    template = DiskTemplate(opcode["disk_template"])
    mirrored = template is DiskTemplate.DRBD
    if pnode is None or (mirrored and snode is None):
        raise prereq_error("No nodes for the instance, and iallocators are not simulated", "wrong_input")
    if mirrored and snode == pnode:
        raise prereq_error("The secondary node cannot be the primary node", "wrong_input")
    nodes = [usable_node(world, node) for node in (pnode, snode if mirrored else None) if node is not None]
    params = opcode.get("beparams") or {}
    group = group_of(world, nodes[0].group)
    instance = with_new_disks(
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
        check_volume_groups(world, instance, node)
    if instance.uses_memory:
        _check_memory(instance, nodes[0])
    changed = [_with_disks(world, instance, node) for node in nodes]
    changed[0] = node_after(changed[0], instance, world.units, memory=1)
    cluster = world.with_nodes(changed).cluster
    cluster = replace(cluster, instances=(*cluster.instances, instance))
    return replace(world, cluster=cluster), [node.name for node in nodes]


def set_params(world: World, opcode: Opcode) -> tuple[World, Any]:
    """A plain instance becomes mirrored (``LUInstanceSetParams``); no other change is simulated."""
    instance, name = instance_of(world, opcode), opcode.get("remote_node")
    if instance.template is not DiskTemplate.PLAIN or opcode.get("disk_template") != DiskTemplate.DRBD.value:
        raise prereq_error("Only conversions from plain to drbd are simulated", "wrong_input")
    if _meant_to_run(instance):
        text = f"Instance '{instance.name}' is marked to be up, cannot change disk template"
        raise prereq_error(text, "wrong_state")
    if name is None:
        raise prereq_error("No new node, and iallocators are not simulated", "wrong_input")
    if name == instance.pnode:
        text = f"Given new secondary node {name} is the same as the primary node of the instance"
        raise prereq_error(text, "wrong_state")
    target, primary = usable_node(world, name), node_of(world, instance.pnode)
    _check_policy(world, opcode, instance, target)
    mirrored = replace(instance, template=DiskTemplate.DRBD, snode=name)
    mirrored = with_new_disks(world, group_of(world, primary.group), mirrored)
    check_volume_groups(world, mirrored, target)  # Ganeti does not check the primary
    primary = _with_disks(world, mirrored, node_after(primary, instance, world.units, storage=-1))
    world = world.with_nodes((primary, _with_disks(world, mirrored, target)))
    return world.with_instance(mirrored), [["disk_template", DiskTemplate.DRBD.value]]


_COPYABLE = (DiskTemplate.PLAIN, DiskTemplate.FILE)


def _check_move(world: World, opcode: Opcode) -> tuple[Instance, Node]:
    """Return the instance and the target of a move. Raises OpcodeError if the move is impossible."""
    instance, name = instance_of(world, opcode), opcode["target_node"]
    if instance.disks and instance.template not in _COPYABLE:
        text = f"Instance disk 0 has disk type {instance.template.value} and is not suitable for copying"
        raise prereq_error(text, "wrong_state")
    if name == instance.pnode:
        raise prereq_error(f"Instance {instance.name} is already on the node {name}", "wrong_state")
    target = usable_node(world, name)
    _check_policy(world, opcode, instance, target)
    if _meant_to_run(instance):
        _check_memory(instance, target)
    if not world.answers(instance.pnode):
        text = f"Could not shutdown instance {instance.name} on node {instance.pnode}"
        raise OpcodeError("OpExecError", text)
    return instance, target


def _meant_to_run(instance: Instance) -> bool:
    return instance.status not in (Status.DOWN, Status.OFFLINE, Status.ERROR_UP)


def _stopped(world: World, instance: Instance) -> World:
    if _meant_to_run(instance):
        return _with_status(world, instance, Status.ERROR_DOWN)
    return _with_status(world, instance, Status.DOWN) if instance.status is Status.ERROR_UP else world


def _with_status(world: World, instance: Instance, status: Status) -> World:
    """Return the world with an instance started or stopped; its memory is taken or freed."""
    node, now = node_of(world, instance.pnode), replace(instance, status=status)
    node = node_after(node_after(node, instance, world.units, memory=-1), now, world.units, memory=1)
    return world.with_nodes((node,)).with_instance(now)


def begin_move(world: World, opcode: Opcode) -> World:
    """Stop the instance of a move. If the move fails, the instance stays stopped."""
    return _stopped(world, _check_move(world, opcode)[0])


def move(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Copy the disks to a new primary while the instance is stopped; start it there if it should run."""
    found, target = _check_move(world, opcode)
    world = _stopped(world, found)
    instance = instance_of(world, opcode)
    source = node_after(node_of(world, instance.pnode), instance, world.units, storage=-1)
    world = world.with_nodes((source, _with_disks(world, instance, target)))
    moved = replace(instance, pnode=target.name)
    started = _meant_to_run(found)
    return _with_status(world, moved, Status.RUNNING) if started else world.with_instance(moved), None


def _check_default_group(world: World, instance: Instance) -> None:
    """Refuse a new secondary if the primary lacks the cluster's volume group, even if no disk uses it.

    A forthcoming instance has no disks to copy, so it is not refused.
    """
    group, primary = world.units.local[0].key, node_of(world, instance.pnode)
    groups = [unit for unit in primary.storage or () if unit.desired.type in VOLUME_GROUPS and unit.total]
    present = primary.storage is None or any(unit.desired.key == group for unit in groups)
    if not present and not instance.forthcoming:
        raise OpcodeError("OpExecError", f"Volume group '{group}' not found on node {primary.name}")
