"""The objects that opcodes name. Unknown and unusable ones are refused as Ganeti does (OpcodeError)."""

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Group, Instance, Node
from ganeti_htools.simulator.opcodes import prereq_error
from ganeti_htools.simulator.world import World


def instance_of(world: World, opcode: Opcode, forthcoming: bool = False) -> Instance:
    """Return the instance of an opcode. A ``forthcoming`` one is refused unless the opcode takes it."""
    name = opcode["instance_name"]
    instance = world.instance(name)
    if instance is None:
        raise prereq_error(f"Instance '{name}' not known", "unknown_entity")
    if instance.forthcoming and not forthcoming:
        raise prereq_error(f"Instance '{name}' is forthcoming", "wrong_state")
    return instance


def node_of(world: World, name: str) -> Node:
    """Return the node with that name."""
    node = world.node(name)
    if node is None:
        raise prereq_error(f"Node '{name}' not known", "unknown_entity")
    return node


def usable_node(world: World, name: str) -> Node:
    """Return a node that may take an instance or its disks."""
    node = node_of(world, name)
    if name in world.offline:
        raise prereq_error(f"Can't use offline node: {name}", "wrong_state")
    if name in world.drained:
        raise prereq_error(f"Can't use drained node: {name}", "wrong_state")
    if name in world.silent:
        raise prereq_error(f"Can't get data from node {name}: Node does not answer", "environment_error")
    return node


def group_of(world: World, name: str) -> Group:
    """Return the group with that name or UUID."""
    found = [group for group in world.cluster.groups if is_group(group, name)]
    if not found:
        raise prereq_error(f"Target group '{name}' not found", "unknown_entity")
    return found[0]


def is_group(group: Group, name: str) -> bool:
    """Whether the group has that name or UUID."""
    return name in (group.name, group.uuid)
