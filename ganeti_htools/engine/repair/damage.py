"""Repairs that instances need because of their nodes (``harep(1)``)."""

from collections.abc import Mapping

from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.types import DiskTemplate


def needed_repair(instance: Instance, nodes: Mapping[str, Node]) -> RepairType | None:
    """Return the repair that a mirrored or plain instance needs; None for any other.

    Offline nodes include drained ones.
    """
    primary = nodes[instance.pnode].offline
    if instance.template is DiskTemplate.PLAIN:
        return RepairType.REINSTALL if primary else None
    if instance.template is not DiskTemplate.DRBD or instance.snode is None:
        return None
    secondary = nodes[instance.snode].offline
    if primary:
        return RepairType.REINSTALL if secondary else RepairType.FAILOVER
    return RepairType.FIX_STORAGE if secondary else None


def node_in_maintenance(instance: Instance, nodes: Mapping[str, Node]) -> str | None:
    """Return the node in maintenance because of which an instance is left alone; None without one."""
    names = (name for name in (instance.pnode, instance.snode) if name is not None)
    return next((name for name in names if nodes[name].in_maintenance), None)
