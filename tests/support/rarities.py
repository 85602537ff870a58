"""Clusters on which a rare figure decides: spindles that are not told, nodes that report nothing."""

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support.clusters import Json

# Disk templates with weights.
ANY = {"drbd": 4, "plain": 3, "ext": 3, "sharedfile": 2, "file": 1, "diskless": 1}


@dataclass(frozen=True)
class Rarely:
    """What such a cluster looks like.

    First parts of nodes or instances: nodes with exclusive storage, instances that do not tell their
    spindles, that are forthcoming, that are down, nodes that are offline, without CPUs, memory or spindles.
    Then sizes; ``room`` is how large an average node is, measured by its instances.
    """

    exclusive: float = 1.0
    vague: float = 0.5
    forthcoming: float = 0.0
    down: float = 0.1
    offline: float = 0.0
    no_cpus: float = 0.0
    no_memory: float = 0.0
    no_spindles: float = 0.0
    nodes: int = 5
    instances: int = 12
    groups: int = 1
    room: float = 3.0
    templates: Mapping[str, int] = field(default_factory=lambda: ANY)


def rare(seed: int, kind: Rarely) -> Cluster:
    """A cluster; the same for the same arguments."""
    rng = random.Random(seed)
    groups = tuple(
        Group(f"group{i}", f"uuid-{i}", ipolicy=replace(DEFAULT_IPOLICY, spindle_ratio=32.0))
        for i in range(kind.groups)
    )
    weights = kind.templates
    names = [f"node{i}" for i in range(kind.nodes)]
    exclusive = {name: rng.random() < kind.exclusive for name in names}
    used: dict[str, dict[str, int]] = {name: {"mem": 0, "dsk": 0, "spindles": 0} for name in names}
    instances = []
    for i in range(kind.instances):
        template = DiskTemplate(rng.choices(list(weights), list(weights.values()))[0])
        where = rng.sample([name for n, name in enumerate(names) if n % kind.groups == i % kind.groups], 2)
        asks = None if rng.random() < kind.vague else rng.choice((0, 1, 1, 2))
        size = 0 if template is DiskTemplate.DISKLESS else rng.choice((1024, 2048, 5120, 10240))
        instance = Instance(
            name=f"inst{i}",
            mem=rng.choice((256, 512, 1024, 2048)),
            dsk=size,
            disks=(Disk(size, asks),),
            vcpus=rng.choice((1, 1, 2)),
            status=Status.DOWN if rng.random() < kind.down else Status.RUNNING,
            pnode=where[0],
            snode=where[1] if template is DiskTemplate.DRBD else None,
            template=template,
            forthcoming=rng.random() < kind.forthcoming,
        )
        instances.append(instance)
        if instance.forthcoming:
            continue
        used[where[0]]["mem"] += instance.mem if instance.uses_memory else 0
        for name in where[: 2 if instance.snode else 1]:
            if template.local_storage:
                used[name]["dsk"] += size
                used[name]["spindles"] += asks or 0
    average = {key: sum(each[key] for each in used.values()) / kind.nodes for key in ("mem", "dsk")}
    nodes = []
    for i, name in enumerate(names):
        own, taken, stretch = 512, used[name], kind.room * rng.choice((0.7, 1.0, 1.0, 1.5))
        mem = int(max(average["mem"] * stretch, taken["mem"] + 200)) + own
        dsk = int(max(average["dsk"] * stretch, taken["dsk"] + 200)) + 1024
        spindles = taken["spindles"] + rng.choice((0, 1, 3, 6)) if exclusive[name] else rng.choice((2, 4))
        without = {key: rng.random() < getattr(kind, key) for key in ("no_cpus", "no_memory", "no_spindles")}
        nodes.append(
            Node(
                name=name,
                group=f"uuid-{i % kind.groups}",
                t_mem=0.0 if without["no_memory"] else float(mem),
                n_mem=0 if without["no_memory"] else own,
                f_mem=0 if without["no_memory"] else mem - own - taken["mem"],
                t_dsk=float(dsk),
                f_dsk=dsk - taken["dsk"],
                t_cpu=0.0 if without["no_cpus"] else float(rng.choice((8, 8, 16))),
                n_cpu=0 if without["no_cpus"] else 1,
                t_spindles=0 if without["no_spindles"] else spindles,
                f_spindles=spindles - taken["spindles"]
                if exclusive[name] and not without["no_spindles"]
                else 0,
                excl_stor=exclusive[name],
                offline=rng.random() < kind.offline,
            )
        )
    online = [row for row, node in enumerate(nodes) if not node.offline]
    if online:
        nodes[online[0]] = replace(nodes[online[0]], master=True)
    return Cluster(groups, tuple(nodes), tuple(instances))


def with_rarities(seed: int, data: Json, zero: bool, spindles: bool) -> Json:
    """A generated cluster where online nodes report nothing of something, or where only some nodes have
    exclusive storage and some instances do not tell their spindles.
    """
    rng = random.Random(seed)
    nodes, instances = copy.deepcopy(data["nodes"]), copy.deepcopy(data["instances"])
    live = {name for name, node in nodes.items() if "total_cpus" in node}
    if zero:
        for name in rng.sample(list(nodes), rng.choice((1, 1, 2))):
            figures = rng.choice(NOTHING)
            if name in live and figures:
                nodes[name] |= dict.fromkeys(figures, 0)
            elif name in live:
                nodes[name]["ndparams"]["spindle_count"] = 0
    if spindles:
        for instance in instances.values():
            vague = rng.random() < 0.4
            for disk in instance["disks"]:
                disk["spindles"] = None if vague else rng.choice((1, 1, 2))
        for name, node in nodes.items():
            node["ndparams"]["exclusive_storage"] = exclusive = rng.random() < 0.5
            if name in live:
                node["total_spindles"] = rng.choice((4, 12, 20)) if exclusive else 0
                node["free_spindles"] = rng.randrange(5) if exclusive else 0
    return {**data, "nodes": nodes, "instances": instances}


NOTHING = (
    ("total_cpus",),
    ("total_cpus", "reserved_cpus"),
    ("total_memory", "free_memory", "reserved_memory"),
    (),  # spindles
)
