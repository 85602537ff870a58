"""Small clusters of several node groups, tight and partly broken, from a seed. Sizes are MiB."""

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Nic, Node
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status
from tests.support.classes import with_classes
from tests.support.placement_rules import with_rules

TAGS = (
    *("htools:iextags:a", "htools:nlocation:rack", "htools:desiredlocation:rack"),
    *("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"),
)
TEMPLATES = (
    *([DiskTemplate.DRBD] * 5),
    *([DiskTemplate.EXT] * 4),
    *(DiskTemplate.PLAIN, DiskTemplate.BLOCK, DiskTemplate.DISKLESS),
)
VOLUME_GROUP = DesiredUnit(StorageType.LVM_VG, "xenvg")
SSD = DesiredUnit(StorageType.LVM_VG, "ssdvg")
POOLS = (DesiredUnit(StorageType.EXT, "san"), DesiredUnit(StorageType.EXT, "nas"))


def super_cluster(rng: Random, *, told: bool = True, between: bool = True, classes: bool = True) -> Cluster:
    """Groups of 2 to 4 nodes, some offline or overcommitted.

    Perhaps nodes are ``told`` to have storage units, perhaps there is an instance ``between`` two groups, and
    perhaps nodes have custom resource ``classes``.
    """
    told = rng.random() < 0.4 and told
    networks = rng.random() < 0.3
    groups = tuple(_group(rng, number, networks) for number in range(rng.choice((2, 3, 3, 4))))
    members = {
        group.name: [f"{group.name}-node{number}" for number in range(rng.choice((2, 3, 3, 4)))]
        for group in groups
    }
    seen = {group.name: [pool for pool in POOLS if rng.random() < 0.7] for group in groups}
    rows = []
    for number in range(rng.randint(2, 18)):
        group = rng.choice(groups)
        row = _instance(rng, f"inst{number}", members[group.name])
        if networks and rng.random() < 0.5 and group.networks:
            row = replace(row, nics=(Nic(network=rng.choice(group.networks)),))
        rows.append(_on_units(rng, row, seen[group.name]) if told else row)
    if rng.random() < 0.15 and between:
        rows = _one_between(rng, rows, members)
    tags = tuple(tag for tag in TAGS if rng.random() < 0.4)
    tags += ("htools:nointergroup",) if rng.random() < 0.05 else ()
    nodes = []
    for group in groups:
        lost = rng.choice(members[group.name]) if rng.random() < 0.35 else None
        room = rng.choice(((100, 300, 600), (300, 900, 1500), (1500, 4000, 8000)))
        for name in members[group.name]:
            node = replace(_node(rng, name, group.uuid, rows, rng.choice(room)), offline=name == lost)
            nodes.append(_with_units(rng, node, rows, seen[group.name]) if told else node)
    found = Cluster(groups, tuple(nodes), tuple(rows), tags)
    return with_classes(rng, found) if classes and rng.random() < 0.25 else found


def _group(rng: Random, number: int, networks: bool) -> Group:
    policy = DEFAULT_IPOLICY
    if rng.random() < 0.2:
        policy = replace(policy, disk_templates=(DiskTemplate.DRBD, DiskTemplate.EXT))
    return Group(
        f"group{number}",
        f"uuid{number}",
        rng.choice((*[AllocPolicy.PREFERRED] * 5, AllocPolicy.LAST_RESORT, AllocPolicy.UNALLOCABLE)),
        tuple(name for name in ("net-a", "net-b") if networks and rng.random() < 0.7),
        policy,
        ("htools:nointergroup",) if rng.random() < 0.05 else (),
    )


def _instance(rng: Random, name: str, nodes: list[str]) -> Instance:
    template, size = rng.choice(TEMPLATES), rng.choice((1024, 2048, 4096))
    pnode, snode = rng.sample(nodes, 2)
    return Instance(
        name,
        rng.choice((128, 512, 512, 1024)),
        size,
        (Disk(size, 1),),
        rng.choice((1, 2)),
        status=rng.choice((*[Status.RUNNING] * 6, Status.DOWN)),
        tags=tuple(tag for tag in ("a:1", "a:2", "rack:1") if rng.random() < 0.2),
        pnode=pnode,
        snode=snode if template is DiskTemplate.DRBD else None,
        template=template,
    )


def _one_between(rng: Random, rows: list[Instance], members: dict[str, list[str]]) -> list[Instance]:
    """One mirrored instance has its secondary in another group."""
    mirrored = [row for row in rows if row.snode is not None]
    if not mirrored:
        return rows
    chosen = rng.choice(mirrored)
    elsewhere = [name for names in members.values() if chosen.pnode not in names for name in names]
    return [replace(row, snode=rng.choice(elsewhere)) if row is chosen else row for row in rows]


def _node(rng: Random, name: str, group: str, rows: list[Instance], free: int) -> Node:
    """A node that reports what its instances take, with so much memory left."""
    used = sum(row.mem for row in rows if row.pnode == name and row.uses_memory)
    disk = sum(_local(row) for row in rows if name in (row.pnode, row.snode))
    total = float(100 + used + free)
    return Node(
        name,
        group,
        t_mem=total,
        n_mem=100,
        f_mem=free,
        t_dsk=float(disk + 40960),
        f_dsk=rng.choice((40960, 40960, 5000)),
        t_cpu=16.0,
        t_spindles=64,
        tags=tuple(tag for tag in ("rack:1", "rack:2", "cpu:old", "cpu:new") if rng.random() < 0.3),
    )


def _local(row: Instance) -> int:
    return row.dsk if row.template in (DiskTemplate.DRBD, DiskTemplate.PLAIN) else 0


def _on_units(rng: Random, row: Instance, pools: list[DesiredUnit]) -> Instance:
    """The instance with its disks on a unit, or on a pool that its group sees."""
    if row.template is DiskTemplate.EXT and pools:
        return replace(row, disks=(replace(row.disks[0], unit=rng.choice(pools)),))
    if _local(row):
        unit = rng.choice((VOLUME_GROUP, VOLUME_GROUP, SSD))
        return replace(row, disks=(replace(row.disks[0], unit=unit),))
    return row


def _with_units(rng: Random, node: Node, rows: list[Instance], pools: list[DesiredUnit]) -> Node:
    """The node with the units of its instances' disks, some more, and the pools of its group."""
    here = [row for row in rows if node.name in (row.pnode, row.snode)]
    wanted = {VOLUME_GROUP, *([SSD] if rng.random() < 0.5 else [])}
    wanted |= {disk.unit for row in here if _local(row) for disk in row.disks if disk.unit is not None}
    units = [Unit(unit, int(node.t_dsk), node.f_dsk) for unit in sorted(wanted, key=str)]
    return replace(node, storage=(*units, *(Unit(pool, 90000, 50000) for pool in pools)))


def _made(seed: int) -> Cluster:
    found = super_cluster(rng := Random(seed))
    return with_rules(rng, found) if rng.random() < 0.3 else found


# Any cluster of several groups.
super_clusters = st.builds(_made, st.integers(0, 1 << 40))
