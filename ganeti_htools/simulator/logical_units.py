"""Effects of opcodes on the world, and Ganeti's refusals: its logical units (``lib/cmdlib``)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.simulator import instances, tags
from ganeti_htools.simulator.objects import group_of, node_of
from ganeti_htools.simulator.opcodes import OpcodeError, prereq_error
from ganeti_htools.simulator.storage_units import query_disks, query_storage, query_volumes
from ganeti_htools.simulator.world import World, lose_node, restore_node, with_role

LogicalUnit = Callable[[World, Opcode], tuple[World, Any]]

_NO_DATA = 2  # of an out-of-band program that failed (RS_NODATA)


def carry_out(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Carry out an opcode; return the new world and the opcode's result. Raises OpcodeError."""
    return _UNITS[opcode["OP_ID"]](world, opcode)


def world_during(world: World, opcode: Opcode) -> World:
    """Return the world while the opcode runs. Raises OpcodeError if it cannot begin."""
    return instances.begin_move(world, opcode) if opcode["OP_ID"] == "OP_INSTANCE_MOVE" else world


def warnings(opcode: Opcode, result: Any) -> Iterator[str]:
    """Yield the warnings that an opcode with this result logs (``LUOobCommand``)."""
    if opcode["OP_ID"] == "OP_OOB_COMMAND":
        for (_, name), (state, _) in result:
            if state == _NO_DATA:
                yield f" - WARNING: Out-of-band RPC failed on node '{name}': program failed as ordered"


def _assign_nodes(world: World, opcode: Opcode) -> tuple[World, Any]:
    group = group_of(world, opcode["group_name"])
    assigned = world.with_nodes(replace(node_of(world, name), group=group.uuid) for name in opcode["nodes"])
    split = sorted(_split(assigned) - _split(world))
    if split and not opcode.get("force"):
        text = "The following instances get split by this change and --force was not given: "
        raise OpcodeError("OpExecError", text + ", ".join(split))
    return assigned, None


def _split(world: World) -> set[str]:
    """Return the mirrored instances with nodes in two groups."""
    groups = {node.name: node.group for node in world.cluster.nodes}
    return {
        row.name
        for row in world.cluster.instances
        if row.snode is not None and groups[row.pnode] != groups[row.snode]
    }


def _remove_group(world: World, opcode: Opcode) -> tuple[World, Any]:
    group = group_of(world, opcode["group_name"])
    nodes = sorted(node.name for node in world.cluster.nodes if node.group == group.uuid)
    if nodes:
        text = f"Group '{group.name}' not empty, has the following nodes: {', '.join(nodes)}"
        raise prereq_error(text, "wrong_state")
    groups = tuple(each for each in world.cluster.groups if each is not group)
    if not groups:
        raise prereq_error(f"Group '{group.name}' is the only group, cannot be removed", "wrong_state")
    return replace(world, cluster=replace(world.cluster, groups=groups)), None


def _set_node(world: World, opcode: Opcode) -> tuple[World, Any]:
    name, offline, drained = opcode["node_name"], opcode.get("offline"), opcode.get("drained")
    node_of(world, name)
    if offline is None and drained is None:
        raise prereq_error("Please pass at least one modification", "wrong_input")
    if offline and drained:
        raise prereq_error("Can't set the node into more than one state at the same time", "wrong_input")
    if name == world.master and (offline or drained):
        raise prereq_error("The master role can be changed only via master-failover", "wrong_input")
    if offline is False and name in world.off - world.unpowered:
        text = f"Node {name} needs to be turned on before its offline status can be reset"
        raise prereq_error(text, "wrong_state")
    if offline is False and name in world.offline and name in world.silent:
        text = f"Node {name} is being de-offlined but fails to report its version: Node does not answer"
        raise prereq_error(text, "wrong_state")
    if (offline or drained) and name not in world.regular | world.offline | world.drained:
        missing = world.missing_candidates(name)
        if missing > 0 and not opcode.get("auto_promote"):
            raise prereq_error("Not enough master candidates, please pass auto promote option", "wrong_state")
        promoted = sorted(world.regular)[: max(missing, 0)]
        world = replace(world, regular=world.regular.difference(promoted))
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
    """Run the out-of-band programs of nodes. The opcode succeeds even if they fail (``LUOobCommand``)."""
    command, names = opcode["command"], sorted(opcode["node_names"])
    if command not in ("power-on", "power-off", "power-cycle", "power-status", "health"):
        raise prereq_error(f"Unknown command {command}", "wrong_input")
    for name in names:
        node_of(world, name)
        if command == "power-off" and name not in world.offline and not opcode.get("ignore_status"):
            raise prereq_error(
                f"Cannot power off node {name} because it is not marked offline", "wrong_state"
            )
    result = []
    for name in names:
        state = 3 if name in world.unpowered else _NO_DATA if name in world.stuck else 0
        if state == 0 and command == "power-off":
            world = replace(lose_node(world, name), off=world.off | {name})
        elif state == 0 and command in ("power-on", "power-cycle"):
            switched = {name} if command == "power-on" else set()
            world = replace(restore_node(world, name), off=world.off - switched)
        reports = state == 0 and command == "power-status"
        result.append([[0, name], [state, {"powered": name not in world.silent} if reports else None]])
    return world, result


def _unchanged(query: Callable[[World, Opcode], Any]) -> LogicalUnit:
    return lambda world, opcode: (world, query(world, opcode))


def _nothing(world: World, _opcode: Opcode) -> tuple[World, Any]:
    return world, None


_UNITS: Mapping[str, LogicalUnit] = {
    "OP_INSTANCE_CREATE": instances.create,
    "OP_INSTANCE_SET_PARAMS": instances.set_params,
    "OP_INSTANCE_MIGRATE": instances.migrate,
    "OP_INSTANCE_FAILOVER": instances.failover,
    "OP_INSTANCE_REPLACE_DISKS": instances.replace_disks,
    "OP_INSTANCE_MOVE": instances.move,
    "OP_INSTANCE_RECREATE_DISKS": instances.recreate_disks,
    "OP_INSTANCE_REINSTALL": instances.reinstall,
    "OP_INSTANCE_ACTIVATE_DISKS": instances.activate_disks,
    "OP_TAGS_SET": tags.add,
    "OP_TAGS_DEL": tags.remove,
    "OP_NODE_SET_PARAMS": _set_node,
    "OP_OOB_COMMAND": _out_of_band,
    "OP_GROUP_ASSIGN_NODES": _assign_nodes,
    "OP_GROUP_REMOVE": _remove_group,
    "OP_NODE_QUERYVOLS": _unchanged(query_volumes),
    "OP_NODE_QUERY_STORAGE": _unchanged(query_storage),
    "OP_INSTANCE_QUERY_DATA": _unchanged(query_disks),
    "OP_TEST_DELAY": _nothing,
}
