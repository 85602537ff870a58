"""Damage of instances by the loss of their nodes, and the repairs that they need (``harep(1)``)."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.placement_tags import FIXED, is_fixed
from ganeti_htools.model.types import DiskTemplate

_SHARED = (DiskTemplate.SHARED_FILE, DiskTemplate.RBD, DiskTemplate.EXT, DiskTemplate.GLUSTER)


class RepairScope(NamedTuple):
    """Repairs beyond those of Ganeti's harep.

    ``migrate_drained``: off drained nodes instances migrate; otherwise a drained node counts as lost.
    ``shared``: instances on shared storage are repaired, too.
    """

    migrate_drained: bool = False
    shared: bool = False


class Damage(NamedTuple):
    """A repair that an instance needs. ``obstacle`` is the reason why it is left alone nevertheless.

    ``elsewhere``: the instance goes to any node that sees its disks.
    """

    repair: RepairType
    obstacle: str | None = None
    elsewhere: bool = False


class _Node(Enum):
    UP = 0
    DRAINED = 1
    LOST = 2


_UP, _DRAINED, _LOST = _Node
_RECOVERED = {_DRAINED: RepairType.MIGRATE, _LOST: RepairType.FAILOVER}


def damage_of(instance: Instance, nodes: Mapping[str, Node], scope: RepairScope) -> Damage | None:
    """Return what an instance needs; None without damage, or for disks that are not repaired."""
    found = _damage(instance, nodes, scope)
    if found is None:
        return None
    if is_fixed(instance.tags):
        return found._replace(obstacle=f"it has the tag {FIXED}")
    for name in filter(None, (instance.pnode, instance.snode)):
        if nodes[name].silent:
            return found._replace(obstacle=f"node {name} does not report")
        if nodes[name].in_maintenance:
            return found._replace(obstacle=f"node {name} is in maintenance")
    return found


def _damage(instance: Instance, nodes: Mapping[str, Node], scope: RepairScope) -> Damage | None:
    primary = _condition(nodes[instance.pnode], scope)
    if instance.template is DiskTemplate.DRBD:
        return None if instance.snode is None else _mirrored(instance, primary, nodes[instance.snode], scope)
    if primary is _UP:
        return None
    if instance.template in _SHARED:
        return Damage(_RECOVERED[primary], elsewhere=True) if scope.shared else None
    if instance.template is not DiskTemplate.PLAIN:
        return None
    if primary is _DRAINED:
        return Damage(RepairType.MIGRATE, f"node {instance.pnode} is drained, which plain disks cannot leave")
    return Damage(RepairType.REINSTALL)


def _mirrored(instance: Instance, primary: _Node, other: Node, scope: RepairScope) -> Damage | None:
    secondary = _condition(other, scope)
    if primary is _LOST and secondary is _LOST:
        return Damage(RepairType.REINSTALL)
    if primary is _LOST and secondary is _DRAINED:  # Ganeti fails nothing over to it
        return Damage(RepairType.FAILOVER, f"the secondary {instance.snode} is drained")
    if secondary is not _UP:
        return Damage(RepairType.FIX_STORAGE)
    return None if primary is _UP else Damage(_RECOVERED[primary])


def _condition(node: Node, scope: RepairScope) -> _Node:
    if not node.offline or node.silent:
        return _UP
    return _DRAINED if scope.migrate_drained and node.drained else _LOST
