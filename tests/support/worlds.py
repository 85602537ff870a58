"""A small world, and opcodes for it."""

from dataclasses import replace
from typing import Any

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.policy import DEFAULT_IPOLICY, IPolicy
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.simulator.world import World, initial_world


def node(name: str, **changes: Any) -> Node:
    """Return an empty node."""
    row = Node(name, "uuid", t_mem=4096.0, n_mem=96, f_mem=4000, t_dsk=9000.0, f_dsk=9000, t_cpu=4.0)
    return replace(row, **changes)


def instance(name: str, template: DiskTemplate, pnode: str, snode: str | None = None) -> Instance:
    """Return a running instance."""
    row = Instance(name, 1000, 500, (Disk(500),), 1, pnode=pnode, snode=snode, template=template)
    return replace(row, status=Status.RUNNING)


def world() -> World:
    """Return three nodes and the master; the first node has one instance for each way to move."""
    return initial_world(
        Cluster(
            groups=(Group("default", "uuid"),),
            nodes=(
                node("one", f_mem=1000, f_dsk=8000),
                node("two", f_dsk=8500),
                node("three"),
                node("boss", master=True),
            ),
            instances=(
                instance("mirrored", DiskTemplate.DRBD, "one", "two"),
                instance("shared", DiskTemplate.EXT, "one"),
                instance("stuck", DiskTemplate.PLAIN, "one"),
            ),
        )
    )


ANY = replace(DEFAULT_IPOLICY, minmax=())  # takes instances of all sizes


def grouped(policy: IPolicy = ANY) -> World:
    """Return that world with a second group that has this policy and two empty nodes."""
    first = world().cluster
    groups = (*first.groups, Group("second", "uuid-2", ipolicy=policy))
    nodes = (*first.nodes, node("four", group="uuid-2"), node("five", group="uuid-2"))
    return initial_world(replace(first, groups=groups, nodes=nodes))


def opcode(name: str, /, **fields: Any) -> dict[str, Any]:
    """Return an opcode as clients send it."""
    return {"OP_ID": f"OP_{name}", "reason": [["test", "", 1]], **fields}


def migrate(name: str, /, **fields: Any) -> dict[str, Any]:
    """Return the tools' opcode for a migration."""
    return opcode("INSTANCE_MIGRATE", instance_name=name, allow_failover=True, **fields)


def replace_disks(name: str, target: str) -> dict[str, Any]:
    """Return the tools' opcode for a new secondary."""
    return opcode(
        "INSTANCE_REPLACE_DISKS",
        instance_name=name,
        mode="replace_new_secondary",
        disks=[],
        remote_node=target,
    )


def move(name: str, target: str, **fields: Any) -> dict[str, Any]:
    """Return the opcode that moves an instance on local disks."""
    return opcode("INSTANCE_MOVE", instance_name=name, target_node=target, **fields)


def assign(group: str, *nodes: str, **fields: Any) -> dict[str, Any]:
    """Return the opcode that assigns nodes to a group."""
    return opcode("GROUP_ASSIGN_NODES", group_name=group, nodes=list(nodes), **fields)


def role(name: str, **roles: bool) -> dict[str, Any]:
    """Return the opcode that sets a node offline, drained, or neither."""
    return opcode("NODE_SET_PARAMS", node_name=name, **roles)


def delay(seconds: float, **fields: Any) -> dict[str, Any]:
    """Return an opcode that only takes time."""
    return opcode("TEST_DELAY", duration=seconds, **fields)


def uneven() -> Cluster:
    """Return three nodes with all instances on the first one, on shared storage."""
    count = 6
    nodes = (node("one", f_mem=4000 - 500 * count, t_mem=8192.0), node("two", t_mem=8192.0), node("boss"))
    rows = [replace(instance(f"web{at}", DiskTemplate.EXT, "one"), mem=500) for at in range(count)]
    return Cluster((Group("default", "uuid"),), nodes, tuple(rows))
