"""Resources of nodes that administrators reserve: they count as used by the node's own system.

The amounts are ``reserved`` in the inventories of classes that Ganeti counts. In custom classes they reduce
the inventory's capacity.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ganeti_htools.model import resource_classes
from ganeti_htools.model.cluster import Node
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_usage import local_unit_classes
from ganeti_htools.model.units import Units, unit_on


class NodeReservations(NamedTuple):
    """Reserved amounts of each node: memory (MiB), CPUs, spindles, disk space (MiB; units by nodes).

    ``free_spindles`` is 0 for nodes without exclusive storage.
    """

    memory: Ints
    vcpus: Ints
    spindles: Ints
    free_spindles: Ints
    disk: Ints


def node_reservations(nodes: Sequence[Node], units: Units) -> NodeReservations:
    """Return the reserved amounts of each node; a unit that the node lacks has none."""
    if not any(node.inventories for node in nodes):
        nothing = np.zeros(len(nodes), np.int64)
        return NodeReservations(
            nothing, nothing, nothing, nothing, np.zeros((len(units.local), len(nodes)), np.int64)
        )
    kept = [{name: each.reserved for name, each in node.inventories} for node in nodes]

    def of(name: str) -> Ints:
        return np.array([each.get(name, 0) for each in kept], np.int64)

    there = [[unit_on(node, units, unit) is not None for node in nodes] for unit in units.local]
    disk = np.array([of(name) for name in local_unit_classes(units).values()])
    spindles = of(resource_classes.SPINDLES)
    exclusive = np.array([node.excl_stor for node in nodes], np.bool_)
    return NodeReservations(
        memory=of(resource_classes.MEMORY),
        vcpus=of(resource_classes.VCPU),
        spindles=spindles,
        free_spindles=np.where(exclusive, spindles, 0),
        disk=np.where(there, disk, 0),
    )


def with_reserved(node: Node, amounts: Mapping[str, int]) -> Node:
    """Return the node with more reserved. ``amounts`` are as consumers have them, by resource class.

    A class without an inventory is not counted, unless Ganeti counts it. The same object without amounts.
    """
    if not amounts:
        return node
    inventories = dict(node.inventories)
    for name, amount in amounts.items():
        inventory = inventories.get(name)
        if resource_classes.is_own(name):
            inventory = inventory or Inventory(0)
            inventories[name] = replace(inventory, reserved=inventory.reserved + amount)
        elif inventory is not None and inventory.allocation_ratio > 0:
            physical = math.ceil(amount / inventory.allocation_ratio)
            inventories[name] = replace(inventory, reserved=inventory.reserved + physical)
    return replace(node, inventories=tuple(inventories.items()))
