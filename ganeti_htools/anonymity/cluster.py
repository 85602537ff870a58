"""A cluster with substitutes for all names, and with rounded sizes. Sizes are MiB."""

from dataclasses import replace
from typing import Any

from ganeti_htools.anonymity.names import Collector, NameKind, Rename, Substitutes
from ganeti_htools.anonymity.tags import TagRenamer, rename_class
from ganeti_htools.anonymity.text import rounded
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Nic, Node
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.storage import DesiredUnit, Pool, Unit


def substitutes_of(cluster: Cluster) -> Substitutes:
    """Return substitutes for all names of a cluster."""
    collector = Collector()
    rename_cluster(cluster, collector)
    return Substitutes(collector.names)


def rename_cluster(cluster: Cluster, rename: Rename) -> Cluster:
    """Replace all names of a cluster."""
    return _ClusterRenamer(cluster, rename).cluster(cluster)


def with_coarse_figures(cluster: Cluster) -> Cluster:
    """Round the memory and disks of nodes and instances to two significant digits."""

    def unit(each: Unit) -> Unit:
        return each._replace(total=rounded(each.total), free=rounded(each.free))

    def node(row: Node) -> Node:
        keys = "t_mem", "n_mem", "f_mem", "t_dsk", "f_dsk"
        sizes: dict[str, Any] = {key: rounded(getattr(row, key)) for key in keys}
        return replace(row, **sizes, storage=row.storage and tuple(map(unit, row.storage)))

    def instance(row: Instance) -> Instance:
        disks = tuple(replace(disk, size=rounded(disk.size)) for disk in row.disks)
        return replace(row, mem=rounded(row.mem), dsk=rounded(row.dsk), disks=disks)

    return replace(
        cluster, nodes=tuple(map(node, cluster.nodes)), instances=tuple(map(instance, cluster.instances))
    )


class _ClusterRenamer:
    def __init__(self, cluster: Cluster, rename: Rename) -> None:
        self._rename = rename
        self._tags = TagRenamer(cluster.tags, rename).all

    def cluster(self, cluster: Cluster) -> Cluster:
        iallocator = cluster.iallocator_options
        restrict_to = iallocator.restrict_to and tuple(map(self._node, iallocator.restrict_to))
        return replace(
            cluster,
            groups=tuple(map(self._group, cluster.groups)),
            nodes=tuple(map(self._node_row, cluster.nodes)),
            instances=tuple(map(self._instance, cluster.instances)),
            tags=self._tags(cluster.tags),
            default_units=tuple(map(self._unit, cluster.default_units)),
            pools=tuple(map(self._pool, cluster.pools)),
            pool_settings=tuple((self._unit(unit), each) for unit, each in cluster.pool_settings),
            standby=tuple(map(self._node_row, cluster.standby)),
            moving=tuple(map(self._instance, cluster.moving)),
            iallocator=self._rename(NameKind.WORD, cluster.iallocator),
            iallocator_options=replace(iallocator, restrict_to=restrict_to),
        )

    def _node(self, name: str) -> str:
        return self._rename(NameKind.NODE, name)

    def _uuid(self, name: str) -> str:
        return self._rename(NameKind.UUID, name)

    def _key(self, name: str | None) -> str | None:
        return None if name is None else self._rename(NameKind.UNIT, name)

    def _group(self, row: Group) -> Group:
        return replace(
            row,
            name=self._rename(NameKind.GROUP, row.name),
            uuid=self._uuid(row.uuid),
            networks=tuple(map(self._uuid, row.networks)),
            tags=self._tags(row.tags),
            metavg=self._key(row.metavg),
            rbd_pool=self._key(row.rbd_pool),
        )

    def _node_row(self, row: Node) -> Node:
        return replace(
            row,
            name=self._node(row.name),
            group=self._uuid(row.group),
            tags=self._tags(row.tags),
            storage=row.storage and tuple(map(self._node_unit, row.storage)),
            inventories=self._inventories(row.inventories),
            uuid=self._uuid(row.uuid),
        )

    def _inventories(self, inventories: Inventories) -> Inventories:
        return tuple((rename_class(self._rename, name), each) for name, each in inventories)

    def _unit(self, unit: DesiredUnit) -> DesiredUnit:
        return unit._replace(key=self._rename(NameKind.UNIT, unit.key))

    def _node_unit(self, unit: Unit) -> Unit:
        params = [
            self._rename(NameKind.UNIT, each) if isinstance(each, str) else each for each in unit.params
        ]
        return unit._replace(desired=self._unit(unit.desired), params=tuple(params))

    def _pool(self, pool: Pool) -> Pool:
        probe = tuple(self._rename(NameKind.PATH, each) for each in pool.probe)
        return pool._replace(
            unit=self._unit(pool.unit), provider=self._rename(NameKind.UNIT, pool.provider), probe=probe
        )

    def _disk(self, disk: Disk) -> Disk:
        return replace(disk, unit=disk.unit and self._unit(disk.unit), metavg=self._key(disk.metavg))

    def _nic(self, nic: Nic) -> Nic:
        kinds = {
            "mac": NameKind.MAC,
            "ip": NameKind.ADDRESS,
            "link": NameKind.NETWORK,
            "bridge": NameKind.NETWORK,
            "network": NameKind.UUID,
        }
        names = {key: getattr(nic, key) for key in kinds}
        return replace(nic, **{key: name and self._rename(kinds[key], name) for key, name in names.items()})

    def _instance(self, row: Instance) -> Instance:
        return replace(
            row,
            name=self._rename(NameKind.INSTANCE, row.name),
            disks=tuple(map(self._disk, row.disks)),
            tags=self._tags(row.tags),
            pnode=self._node(row.pnode),
            snode=row.snode and self._node(row.snode),
            nics=tuple(map(self._nic, row.nics)),
            uuid=self._uuid(row.uuid),
        )
