"""Small clusters with little room and all features that the rules distinguish."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Load, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.hour_sums import HourSums
from ganeti_htools.model.load import HOURS, LoadProfile
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support.classes import demanding, with_classes
from tests.support.placement_rules import ruled, with_rules

TAGS = (
    *("htools:iextags:a", "htools:nlocation:rack", "htools:desiredlocation:rack"),
    *("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"),
)
TEMPLATES = (
    *([DiskTemplate.DRBD] * 4),
    *(DiskTemplate.PLAIN, DiskTemplate.FILE, DiskTemplate.EXT, DiskTemplate.BLOCK, DiskTemplate.DISKLESS),
)


def instance(rng: Random, name: str, nodes: tuple[str, ...] = ()) -> Instance:
    """An instance on some of the nodes, or a new one, whose load nobody knows."""
    template = rng.choice(TEMPLATES)
    pnode, snode = rng.sample(nodes, 2) if nodes else ("", None)
    size = rng.choice((10, 1000, 1000, 4000))
    return Instance(
        name,
        rng.choice((0, 128, 512, 512, 1024)),
        size,
        (Disk(size, rng.choice((1, 2))),),
        rng.choice((1, 2)),
        status=rng.choice((*[Status.RUNNING] * 4, Status.DOWN, Status.OFFLINE, Status.ERROR_UP)),
        tags=tuple(tag for tag in ("a:1", "a:2", "rack:1", "rack:9") if rng.random() < 0.3),
        auto_balance=rng.random() < 0.8,
        pnode=pnode,
        snode=snode if template is DiskTemplate.DRBD else None,
        template=template,
        spindle_use=rng.choice((1, 3)),
        forthcoming=rng.random() < 0.15,
        load=Load(*(rng.choice((0.0, 1.0, 2.5)) for _ in range(4))) if nodes else Load(),
    )


def cluster(rng: Random) -> Cluster:
    """A cluster whose nodes report what their instances take, more or less."""
    policy = replace(DEFAULT_IPOLICY, minmax=rng.choice(((), (), (), DEFAULT_IPOLICY.minmax)))
    groups = [Group(f"group{i}", f"uuid{i}", ipolicy=policy) for i in range(rng.choice((1, 1, 2)))]
    names = tuple(f"node{i}" for i in range(rng.randint(2, 6)))
    instances = tuple(instance(rng, f"inst{i}", names) for i in range(rng.randint(0, 12)))
    storage = rng.choice((*[0.0] * 6, 0.5, 1.0))
    migration, room = rng.choice((False, False, False, True)), rng.choice((1, 2, 4))
    disks = (15000,) * 8 + rng.choice(((), (5,), (1500, 5000), (5000, 5000, 5000)))

    def node(row: int, name: str) -> Node:
        free = room * rng.choice((300, 600, 900, 1100, 1500))
        used = sum(each.mem for each in instances if each.pnode == name and each.uses_memory)
        exclusive = rng.random() < storage
        tags = [tag for tag in ("rack:1", "rack:2") if rng.random() < 0.4]
        return Node(
            name,
            groups[row % len(groups)].uuid,
            t_mem=float(100 + used + free),
            n_mem=100,
            f_mem=free - rng.choice((-50, 0, 0, 150)),
            t_dsk=20000.0,
            f_dsk=rng.choice(disks),
            t_cpu=float(rng.choice((2, 8, 8))),
            t_spindles=rng.choice((1, 8)),
            f_spindles=rng.choice((3, 10, 10)) if exclusive else 0,
            cpu_speed=rng.choice((1.0, 1.0, 0.5)),
            offline=rng.random() < 0.1,
            excl_stor=exclusive,
            tags=(*tags, rng.choice(("cpu:old", "cpu:new"))) if migration else tuple(tags),
        )

    tags = tuple(tag for tag in TAGS if rng.random() < 0.7)
    return Cluster(tuple(groups), tuple(map(node, range(len(names)), names)), instances, tags)


DEFAULT = DesiredUnit(StorageType.LVM_VG, "xenvg")
SSD = DesiredUnit(StorageType.LVM_VG, "ssdvg")
MIRRORED = DesiredUnit(StorageType.DRBD, "ssdvg")
DIRECTORY = DesiredUnit(StorageType.FILE, "/srv")
POOL = DesiredUnit(StorageType.EXT, "ceph")
UNITS = {
    DiskTemplate.DRBD: (DEFAULT, SSD),
    DiskTemplate.PLAIN: (DEFAULT, SSD),
    DiskTemplate.FILE: (DIRECTORY,),
    DiskTemplate.EXT: (POOL,),
}


def _with_disks(rng: Random, row: Instance) -> Instance:
    """The instance with disks on units, some of which they do not tell."""
    disks = []
    for _ in range(rng.choice((1, 1, 2))):
        unit = rng.choice((*UNITS.get(row.template, ()), None))
        drbd = row.template is DiskTemplate.DRBD
        metavg = rng.choice(("xenvg", "ssdvg")) if unit and drbd and rng.random() < 0.5 else None
        disks.append(Disk(rng.choice((10, 500, 2000)), row.spindles, unit, metavg))
    return replace(row, dsk=sum(disk.size for disk in disks), disks=tuple(disks))


def _with_units(rng: Random, node: Node, of_drbd: bool) -> Node:
    """The node with storage units, some of them full; sometimes it reports none."""
    if rng.random() < 0.15:
        return node
    ssd = Unit(MIRRORED if of_drbd else SSD, 8000, rng.choice((0, 129, 600, 2100, 7000)))
    others = (ssd, Unit(DIRECTORY, 6000, rng.choice((400, 3000))), Unit(POOL, 9000, 9000))
    found = [Unit(DEFAULT, int(node.t_dsk), node.f_dsk)] if rng.random() < 0.75 else []
    found += [unit for unit in others if rng.random() < 0.7]
    return replace(node, storage=tuple(found))


def with_units(rng: Random, described: Cluster) -> Cluster:
    """The cluster with storage units."""
    of_drbd = rng.random() < 0.2
    return replace(
        described,
        nodes=tuple(_with_units(rng, node, of_drbd) for node in described.nodes),
        instances=tuple(_with_disks(rng, row) for row in described.instances),
    )


def figures(column: Any) -> Any:
    """The figures of a column, by hour if it has hours."""
    return column.sums if isinstance(column, HourSums) else column


def with_profiles(rng: Random, described: Cluster) -> Cluster:
    """The cluster with the measured load of most instances."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    kinds = np.array([rng.choice((0, 0.5, 2)), rng.choice((0, 300)), rng.choice((0, 9)), rng.choice((0, 9))])
    profiles = {}
    for row in described.instances:
        if rng.random() < 0.8:
            peak = numbers.random((4, HOURS)) * kinds[:, np.newaxis]
            profiles[row.name] = LoadProfile(peak / 2, peak, peak[:, 0])
    return replace(described, load_profiles=profiles)


def _case(seed: int) -> tuple[State, Instance]:
    rng = Random(seed)
    described, new = cluster(rng), instance(rng, "new")
    if rng.random() < 0.5:
        described, new = with_units(rng, described), _with_disks(rng, new)
    if rng.random() < 0.4:
        described, new = with_classes(rng, described), demanding(rng, new)
    if rng.random() < 0.3:
        names = tuple(node.name for node in described.nodes)
        described, new = with_rules(rng, described), ruled(rng, new, names)
    if rng.random() < 0.3:
        described = with_profiles(rng, described)
    return derive(described, (new,)), new


def state_of(seed: int) -> State:
    """A state; the same for the same seed."""
    return _case(seed)[0]


# A state, and an instance to be placed on it.
cases = st.builds(_case, st.integers(0, 1 << 40))


def _several(seed: int) -> tuple[Cluster, tuple[Instance, ...]]:
    rng = Random(seed)
    described = cluster(rng)
    new = [instance(rng, f"new{number}") for number in range(rng.randint(1, 5))]
    new = [replace(row, template=rng.choice((row.template, *DiskTemplate))) for row in new]
    if rng.random() < 0.5:
        described, new = with_units(rng, described), [_with_disks(rng, row) for row in new]
    return described, tuple(new)


# A cluster, and instances to be placed on it one after the other.
several = st.builds(_several, st.integers(0, 1 << 40))
