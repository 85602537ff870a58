"""Storage and inventories that a request lacks, filled in from the known cluster.

A request has one figure of disk space per node: the space for the requested disk template, for the template
of the relocated instance, or for the first enabled template (``lib/masterd/iallocator.py``). The figure is
about the default unit of that storage type, and overrides what is known of this unit. All other units are
filled in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ganeti_htools.model.cluster import MAX_MIB, Cluster, Group, Instance, Node
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.known_storage import REPORTED, with_disk, with_disk_units
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, Relocate, Request, new_instances
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import pools_of_tags, units_of_disks

T = TypeVar("T")


class CompletedRows:
    """Cache of the rows completed for the last request, by name.

    Each entry begins with all that it was made from.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[Node, tuple[Node, DesiredUnit | None], Node]] = {}
        self.instances: dict[str, tuple[Instance, Instance | None, Instance]] = {}
        self.filled: dict[str, tuple[Node, Node, Node]] = {}
        self.inventories: dict[str, tuple[Node, Inventories, Node]] = {}
        self.loaded: dict[str, tuple[Node, float, Node]] = {}
        self._known: tuple[Instance, ...] = ()
        self._named: dict[str, Instance] = {}

    def named(self, known: Cluster) -> dict[str, Instance]:
        if known.instances is not self._known:
            self._known, self._named = known.instances, {row.name: row for row in known.instances}
        return self._named


def with_known_inventories(cluster: Cluster, known: Cluster, cache: CompletedRows) -> Cluster:
    """Fill in the known inventories of nodes.

    Returns the same object if no inventories are known, or the request has some.
    """
    by_name = {node.name: node.inventories for node in known.nodes if node.inventories}
    if not by_name or any(node.inventories for node in cluster.nodes):
        return cluster
    rows, cache.inventories = _completed(
        cluster.nodes, by_name, cache.inventories, lambda node, known: replace(node, inventories=known)
    )
    return replace(cluster, nodes=rows)


def _completed(
    nodes: Sequence[Node],
    known: Mapping[str, T],
    before: Mapping[str, tuple[Node, T, Node]],
    complete: Callable[[Node, T], Node],
) -> tuple[tuple[Node, ...], dict[str, tuple[Node, T, Node]]]:
    """Complete the nodes about which something is known, by name. Also returns an entry for each of these.

    Equal nodes with the same knowledge are taken from the entries ``before``.
    """
    rows, entries = [], {}
    for node in nodes:
        if (source := known.get(node.name)) is not None:
            entry = before.get(node.name)
            if entry is None or entry[:-1] != (node, source):
                entry = node, source, complete(node, source)
            entries[node.name] = entry
            node = entry[-1]
        rows.append(node)
    return tuple(rows), entries


def with_known_loads(cluster: Cluster, loads: Mapping[str, float], cache: CompletedRows) -> Cluster:
    """Return the cluster with these loads of nodes (:attr:`.Node.cpu_load`)."""
    rows, cache.loaded = _completed(
        cluster.nodes, loads, cache.loaded, lambda node, load: replace(node, cpu_load=load)
    )
    return replace(cluster, nodes=rows) if loads else cluster


def lacks_disks(cluster: Cluster, request: Request) -> bool:
    """Whether the request has no disk space of any node, although instances have local disks.

    Ganeti reports the disk space for the template of an allocation, and for the first enabled template in
    other requests (``lib/masterd/iallocator.py``). It reports none for shared, external and diskless
    templates, and then no instance on local disks would fit anywhere. The figures of an allocation on local
    disks are complete.
    """
    if any(node.t_dsk or node.f_dsk for node in cluster.nodes):
        return False
    if isinstance(request, Allocate) and request.placement.instance.template.local_storage:
        return False
    return any(row.template.local_storage for row in (*cluster.instances, *new_instances(request)))


def with_disks(cluster: Cluster, other: Cluster, cache: CompletedRows) -> Cluster:
    """Fill in the disk space (and spindles) that nodes have in the ``other`` cluster.

    Nodes that report nothing or are unknown there stay as they are. Returns the same object if all stay.
    """
    silent = {node.name for node in cluster.nodes if not node.t_mem}
    others = {node.name: node for node in other.nodes if node.t_dsk and node.name not in silent}
    rows, cache.filled = _completed(cluster.nodes, others, cache.filled, with_disk)
    return replace(cluster, nodes=rows) if cache.filled else cluster


def without_disk_limits(cluster: Cluster, request: Request, options: PlacementOptions) -> tuple[Cluster, str]:
    """Give nodes disk space without limit, if the request lacks it and its new instances use no local disks.

    N+1 redundancy is then judged by all else. Also returns a note for the answer.
    """
    judged = options.capacity and all(node.storage is None for node in cluster.nodes)
    rows = new_instances(request) if judged else ()
    if not rows or any(row.template.local_storage for row in rows) or not lacks_disks(cluster, request):
        return cluster, ""
    nodes = tuple(with_disk(node, _roomy(node)) if node.t_mem else node for node in cluster.nodes)
    return replace(cluster, nodes=nodes), "; N+1 is judged without disk space, which the request lacks"


def _roomy(node: Node) -> Node:
    return replace(node, t_dsk=float(MAX_MIB), f_dsk=MAX_MIB, t_spindles=MAX_MIB, f_spindles=MAX_MIB)


_REPORTED_BY_GANETI = (StorageType.LVM_VG, StorageType.FILE)  # ``STS_REPORT``


def with_known(cluster: Cluster, request: Request, known: Cluster, cache: CompletedRows) -> Cluster:
    """Fill in the storage of the known cluster: settings, pools, and the units of nodes and disks.

    The nodes stay as they are if no units are known, or the request has some.
    """
    groups = {group.uuid: group for group in known.groups}
    cluster = replace(
        cluster,
        groups=tuple(_group(group, groups.get(group.uuid)) for group in cluster.groups),
        default_units=known.default_units,
        enabled_templates=known.enabled_templates,
        pools=known.pools,
        pool_settings=known.pool_settings,
    )
    nodes = {node.name: node for node in known.nodes if node.storage is not None}
    if any(node.storage is not None for node in cluster.nodes):
        return cluster
    if nodes:
        unit = _reported_unit(cluster, request, known)
        silent = {node.name for node in cluster.nodes if not node.t_mem}
        told = {name: (node, unit) for name, node in nodes.items() if name not in silent}
        rows, cache.nodes = _completed(
            cluster.nodes, told, cache.nodes, lambda node, known: _with_storage(node, *known)
        )
        cluster = replace(cluster, nodes=rows)
    if nodes or known.pools or pools_of_tags(cluster):
        cluster = replace(cluster, instances=_instances(cluster, cache.named(known), cache))
    return cluster


def _group(group: Group, known: Group | None) -> Group:
    return replace(group, metavg=known.metavg, rbd_pool=known.rbd_pool) if known else group


def _instances(cluster: Cluster, known: Mapping[str, Instance], cache: CompletedRows) -> tuple[Instance, ...]:
    before, now = cache.instances, {}
    for row in cluster.instances:
        entry, other = before.get(row.name), known.get(row.name)
        if entry is None or entry[:-1] != (row, other):
            entry = row, other, with_disk_units(row, other.disks) if other else row
        now[row.name] = entry
    cache.instances = now
    return tuple(entry[-1] for entry in now.values())


def _reported_unit(cluster: Cluster, request: Request, known: Cluster) -> DesiredUnit | None:
    """Return the unit that the single figure of nodes is about; None if it is about no known unit."""
    template: DiskTemplate | None = next(iter(known.enabled_templates or ()), None)
    match request:
        case Allocate(placement, _):
            template = placement.instance.template
        case Relocate(name, _, _):
            template = next(row.template for row in cluster.instances if row.name == name)
    kind = TYPE_OF[template] if template else None
    return next(
        (unit for unit in known.default_units if unit.type is kind and kind in _REPORTED_BY_GANETI), None
    )


def _with_storage(node: Node, known: Node, reported: DesiredUnit | None) -> Node:
    units = [unit for unit in known.storage or () if unit.desired != reported]
    if reported and node.t_dsk:
        params = (True,) if node.excl_stor and reported.type is StorageType.LVM_VG else ()
        units.insert(0, Unit(reported, int(node.t_dsk), node.f_dsk, params))
    return replace(node, storage=tuple(units))


def names_units(rows: tuple[Instance, ...], known: Cluster) -> bool:
    """Whether disks of new instances name units other than the default units that nodes can report."""
    return any(unit.type in REPORTED for unit in units_of_disks(rows) - set(known.default_units))


def unused_units(rows: tuple[Instance, ...], known: Cluster) -> frozenset[DesiredUnit]:
    """Return the local units that disks of new instances name and that no node is known to have."""
    named = {unit for unit in units_of_disks(rows) if unit.type.local and unit not in known.default_units}
    return frozenset(named and named - {unit.desired for node in known.nodes for unit in node.storage or ()})
