"""What a request does not tell of storage and inventories, from what else is known of the cluster.

Ganeti tells one figure of disk space for each node: that of the disk template asked for, of an instance that
is to be relocated, or else of the first that is enabled (``lib/masterd/iallocator.py``). It speaks of the
default unit of that type, for which it wins over what is known; the other units are filled in.
"""

from collections.abc import Mapping
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Group, Instance, Node
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.known_storage import REPORTED, with_disk, with_disk_units
from ganeti_htools.model.request import Allocate, Relocate, Request, new_instances
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import pools_of_tags, units_of_disks


class Memory:
    """What was made the last time: of an instance or node and what is known of it, by its identity.

    The rows are kept with it, so that no other gets theirs.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[Node, Node, DesiredUnit | None, Node]] = {}
        self.instances: dict[int, tuple[Instance, Instance | None, Instance]] = {}
        self.filled: dict[tuple[int, int], tuple[Node, Node, Node]] = {}
        self.having: dict[int, tuple[Node, Inventories, Node]] = {}
        self._known: tuple[Instance, ...] = ()
        self._named: dict[str, Instance] = {}

    def named(self, known: Cluster) -> dict[str, Instance]:
        """The instances that are known, by their names."""
        if known.instances is not self._known:
            self._known, self._named = known.instances, {row.name: row for row in known.instances}
        return self._named


def with_known_inventories(cluster: Cluster, known: Cluster, memory: Memory) -> Cluster:
    """The cluster of a request whose nodes have the inventories that they are known to have.

    The same object if none are known, or the request tells some.
    """
    there = {node.name: node.inventories for node in known.nodes if node.inventories}
    if not there or any(node.inventories for node in cluster.nodes):
        return cluster
    before, memory.having = memory.having, {}
    rows = []
    for node in cluster.nodes:
        if (inventories := there.get(node.name)) is not None:
            kept = before.get(id(node))
            if kept is None or kept[1] is not inventories:
                kept = node, inventories, replace(node, inventories=inventories)
            memory.having[id(node)] = kept
            node = kept[-1]
        rows.append(node)
    return replace(cluster, nodes=tuple(rows))


def lacks_disks(cluster: Cluster, request: Request) -> bool:
    """Whether no node seems to have disk space where there are instances on local disks.

    Ganeti tells the disk space for the disk template of an allocation, of other requests for the first that
    is enabled (``lib/masterd/iallocator.py``); for shared or external storage and diskless instances: none.
    Then no instance on local disks seems to fit anywhere. An allocation on local disks tells all there is.
    """
    if any(node.t_dsk or node.f_dsk for node in cluster.nodes):
        return False
    if isinstance(request, Allocate) and request.placement.instance.template.local_storage:
        return False
    return any(row.template.local_storage for row in (*cluster.instances, *new_instances(request)))


def with_disks(cluster: Cluster, other: Cluster, memory: Memory) -> Cluster:
    """The cluster with the disk space (and spindles) that its nodes have in the ``other`` one.

    Nodes that report nothing, or are not known there, stay as they are. The same object if all stay.
    """
    others = {node.name: node for node in other.nodes if node.t_dsk}
    nodes, filled = [], {}
    for node in cluster.nodes:
        source = others.get(node.name)
        if source is not None and node.t_mem:
            key = id(node), id(source)
            filled[key] = memory.filled.get(key) or (node, source, with_disk(node, source))
            node = filled[key][-1]
        nodes.append(node)
    memory.filled = filled
    return replace(cluster, nodes=tuple(nodes)) if filled else cluster


_TOLD = (StorageType.LVM_VG, StorageType.FILE)  # of others Ganeti tells no space (``STS_REPORT``)


def with_known(cluster: Cluster, request: Request, known: Cluster, memory: Memory) -> Cluster:
    """The cluster with what the ``known`` one tells of storage besides.

    These are its settings and pools, and the units that nodes and disks have there. The nodes stay as they
    are if nothing is known of units, or the request tells some. ``memory`` is what was made the last time.
    """
    groups = {group.uuid: group for group in known.groups}
    cluster = replace(
        cluster,
        groups=tuple(_group(group, groups.get(group.uuid)) for group in cluster.groups),
        default_units=known.default_units,
        enabled_templates=known.enabled_templates,
        pools=known.pools,
    )
    nodes = {node.name: node for node in known.nodes if node.storage is not None}
    if any(node.storage is not None for node in cluster.nodes):
        return cluster
    if nodes:
        spoken = _spoken_of(cluster, request, known)
        cluster = replace(cluster, nodes=_nodes(cluster, nodes, spoken, memory))
    if nodes or known.pools or pools_of_tags(cluster):
        cluster = replace(cluster, instances=_instances(cluster, memory.named(known), memory))
    return cluster


def _group(group: Group, known: Group | None) -> Group:
    return replace(group, metavg=known.metavg, rbd_pool=known.rbd_pool) if known else group


def _nodes(
    cluster: Cluster, known: Mapping[str, Node], spoken: DesiredUnit | None, memory: Memory
) -> tuple[Node, ...]:
    before, memory.nodes = memory.nodes, {}
    rows = []
    for node in cluster.nodes:
        other = known.get(node.name)
        if other is not None and node.t_mem:
            kept = before.get(id(node))
            if kept is None or kept[1] is not other or kept[2] != spoken:
                kept = node, other, spoken, _with_storage(node, other, spoken)
            memory.nodes[id(node)] = kept
            node = kept[-1]
        rows.append(node)
    return tuple(rows)


def _instances(cluster: Cluster, known: Mapping[str, Instance], memory: Memory) -> tuple[Instance, ...]:
    before, now = memory.instances, {}
    for row in cluster.instances:
        kept, other = before.get(id(row)), known.get(row.name)
        if kept is None or kept[1] is not other:
            kept = row, other, with_disk_units(row, other.disks) if other else row
        now[id(row)] = kept
    memory.instances = now
    return tuple(kept[-1] for kept in now.values())


def _spoken_of(cluster: Cluster, request: Request, known: Cluster) -> DesiredUnit | None:
    """The unit of which the nodes' single figure speaks; None if it speaks of none that is known."""
    template: DiskTemplate | None = next(iter(known.enabled_templates or ()), None)
    match request:
        case Allocate(placement, _):
            template = placement.instance.template
        case Relocate(name, _, _):
            template = next(row.template for row in cluster.instances if row.name == name)
    kind = TYPE_OF[template] if template else None
    return next((unit for unit in known.default_units if unit.type is kind and kind in _TOLD), None)


def _with_storage(node: Node, known: Node, spoken: DesiredUnit | None) -> Node:
    units = [unit for unit in known.storage or () if unit.desired != spoken]
    if spoken and node.t_dsk:
        params = (True,) if node.excl_stor and spoken.type is StorageType.LVM_VG else ()
        units.insert(0, Unit(spoken, int(node.t_dsk), node.f_dsk, params))
    return replace(node, storage=tuple(units))


def names_units(rows: tuple[Instance, ...], known: Cluster) -> bool:
    """Whether disks of new instances name units that nodes can be asked for, other than the default ones."""
    return any(unit.type in REPORTED for unit in units_of_disks(rows) - set(known.default_units))


def unused_units(rows: tuple[Instance, ...], known: Cluster) -> frozenset[DesiredUnit]:
    """The units on nodes that disks of new instances name, and of which no node is known to have one."""
    named = {unit for unit in units_of_disks(rows) if unit.type.local and unit not in known.default_units}
    return frozenset(named and named - {unit.desired for node in known.nodes for unit in node.storage or ()})
