"""Moves that were decided and are not made yet: what new nodes have to keep for them.

It is reserved there, by resource class, until the instance is there. What it leaves is not given to others
before it has left.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import MEMORY, SPINDLES, VCPU, is_own, of_units
from ganeti_htools.model.storage import StorageType
from ganeti_htools.model.tags import demands
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import Units, needs_of


def lacking(
    row: Instance, target: Instance, units: Units, nodes: Mapping[str, Node]
) -> dict[str, Counter[str]]:
    """What an instance does not have yet of the nodes that it is to have, by node and class."""
    found: dict[str, Counter[str]] = {}
    for name in (target.pnode, target.snode):
        if name is not None and name in nodes:
            amounts = Counter[str]()
            if name not in (row.pnode, row.snode):
                amounts.update(_of_disks(target, units, nodes[name]))
            if name == target.pnode != row.pnode:
                amounts.update(_of_primary(row))
            if amounts := +amounts:
                found[name] = amounts
    return found


def _of_disks(target: Instance, units: Units, node: Node) -> dict[str, int]:
    wanted = units.wants(target)
    # While no node tells its units, the only one stands for the default volume group.
    told = units.local if units.known else (units.default(StorageType.LVM_VG),)
    classes = dict(zip(units.local, of_units(told).values(), strict=True))
    amounts = {classes[unit]: mib for unit, mib in wanted.items() if unit in classes}
    if node.excl_stor:
        return amounts | {SPINDLES: needs_of(target, units).spindles or 0}
    return amounts | {SPINDLES: target.spindle_use if units.local[0] in wanted else 0}


def _of_primary(row: Instance) -> dict[str, int]:
    vcpus = 0 if row.status is Status.OFFLINE else row.vcpus
    return {MEMORY: row.mem if row.uses_memory else 0, VCPU: vcpus} | demands(row.tags)


def keeping(node: Node, amounts: Mapping[str, int]) -> Node:
    """The node that keeps these amounts. What it has no inventory of is not counted, unless Ganeti does."""
    inventories = dict(node.inventories)
    for name, amount in amounts.items():
        there = inventories.get(name)
        if is_own(name):
            there = there or Inventory(0)
            inventories[name] = replace(there, reserved=there.reserved + amount)
        elif there is not None and there.allocation_ratio > 0:
            lost = math.ceil(amount / there.allocation_ratio)
            inventories[name] = replace(there, reserved=there.reserved + lost)
    return replace(node, inventories=tuple(inventories.items()))
