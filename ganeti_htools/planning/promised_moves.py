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
from ganeti_htools.model.resource_classes import is_own
from ganeti_htools.model.resource_usage import local_unit_classes, usage_on
from ganeti_htools.model.units import Units


def lacking(
    row: Instance, target: Instance, units: Units, nodes: Mapping[str, Node]
) -> dict[str, Counter[str]]:
    """What an instance does not have yet of the nodes that it is to have, by node and class."""
    classes, found = local_unit_classes(units), dict[str, Counter[str]]()
    for node in (nodes[name] for name in (target.pnode, target.snode) if name and name in nodes):
        is_to_have, has = (
            Counter(usage_on(node.name, each, units, classes, node.excl_stor)) for each in (target, row)
        )
        if amounts := is_to_have - has:
            found[node.name] = amounts
    return found


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
