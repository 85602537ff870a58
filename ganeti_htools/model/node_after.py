"""A node's reported free amounts after an instance arrived or left."""

from dataclasses import replace

from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.units import Units


def node_after(node: Node, instance: Instance, units: Units, *, memory: int = 0, storage: int = 0) -> Node:
    """Return the node after an instance's memory or storage arrived (1) or left (-1).

    An instance takes memory of its primary only. Pools keep their free space: nodes report the whole
    pool's.
    """
    mem = instance.mem * memory if instance.uses_memory else 0
    storage = 0 if instance.forthcoming else storage
    needs = units.needs(instance) if storage else {}
    spindles = instance.spindles or 0 if node.excl_stor and instance.template.local_storage else 0
    return replace(
        node,
        f_mem=node.f_mem - mem,
        f_dsk=node.f_dsk - storage * needs.get(units.local[0], 0),
        f_spindles=node.f_spindles - storage * spindles,
        storage=node.storage
        and tuple(
            unit._replace(free=unit.free - storage * needs.get(unit.desired, 0))
            if unit.desired.type.local
            else unit
            for unit in node.storage
        ),
    )
