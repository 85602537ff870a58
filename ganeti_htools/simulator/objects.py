"""The objects that opcodes name. Ganeti refuses those that are not there or cannot be used (OpcodeError)."""

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Group, Instance, Node
from ganeti_htools.simulator.opcodes import refused
from ganeti_htools.simulator.world import World


def instance_of(world: World, opcode: Opcode, forthcoming: bool = False) -> Instance:
    """The instance of an opcode, which must not be forthcoming unless the opcode takes such instances."""
    name = opcode["instance_name"]
    instance = world.instance(name)
    if instance is None:
        raise refused(f"Instance '{name}' not known", "unknown_entity")
    if instance.forthcoming and not forthcoming:
        raise refused(f"Instance '{name}' is forthcoming", "wrong_state")
    return instance


def node_of(world: World, name: str) -> Node:
    """The node with that name."""
    node = world.node(name)
    if node is None:
        raise refused(f"Node '{name}' not known", "unknown_entity")
    return node


def usable(world: World, name: str) -> Node:
    """A node that may take an instance or its disks."""
    node = node_of(world, name)
    if name in world.offline:
        raise refused(f"Can't use offline node: {name}", "wrong_state")
    if name in world.drained:
        raise refused(f"Can't use drained node: {name}", "wrong_state")
    if name in world.silent:
        raise refused(f"Can't get data from node {name}: Node does not answer", "environment_error")
    return node


def group_of(world: World, name: str) -> Group:
    """The group with that name or UUID."""
    found = [group for group in world.cluster.groups if is_group(group, name)]
    if not found:
        raise refused(f"Target group '{name}' not found", "unknown_entity")
    return found[0]


def is_group(group: Group, name: str) -> bool:
    """Whether that is the name or UUID of the group."""
    return name in (group.name, group.uuid)
