"""Clusters made from a seed, as Ganeti describes them in an iallocator request.

A cluster here is a request without its ``request`` part: JSON objects as dicts, in Ganeti's layout and
order (the objects of a kind stand in the order of their UUIDs, so in no visible order). What nodes report
follows from the instances placed on them, plus some noise. Sizes are MiB.
"""

import functools
import itertools
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

ALL_TEMPLATES = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster")
LOCAL_TEMPLATES = ("drbd", "plain")  # take space of the node's volume group
NO_SPACE_REPORTED = ("diskless", "sharedfile", "blockdev", "rbd", "ext", "gluster")
MIXED = {"drbd": 70, "plain": 12, "ext": 8, "sharedfile": 5, "file": 3, "diskless": 2}
MOVABLE = {"drbd": 75, "ext": 15, "sharedfile": 10}
FEW_MIRRORS = (
    {"plain": 1},
    {"ext": 1},
    {"plain": 2, "sharedfile": 1},
    {"plain": 1, "ext": 1},
    {"drbd": 1, "plain": 1},
)

TAGS: Mapping[str, Sequence[str]] = {
    "exclusion": ["htools:iextags:service"],
    "location": ["htools:nlocation:rack"],
    "migration": ["htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"],
    "desired": ["htools:nlocation:rack", "htools:desiredlocation:rack"],
}


@dataclass(frozen=True)
class Shape:
    """What a cluster looks like. ``fill`` is the used part of memory and disk of an average node."""

    nodes: int = 5
    instances: int = 50
    groups: int = 1
    templates: Mapping[str, int] = field(default_factory=lambda: MIXED)  # name to weight
    fill: float = 0.4
    offline: int = 0  # nodes that failed, with instances on them
    drained: int = 0  # nodes that were emptied
    down: float = 0.05  # part of the instances; every third of them is offline
    forthcoming: float = 0.0  # part of the instances
    tags: Sequence[str] = ()  # keys of TAGS
    policies: bool = False  # every group but the first has its own
    networks: bool = False
    exclusive_storage: bool = False
    hypervisor: str = "xen-pvm"


TIGHT = 0.85


@functools.cache
def uuid_of(name: str) -> str:
    """The UUID of the object with this name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def in_order(objects: Iterable[tuple[str, Json]]) -> Json:
    """Named objects in the order in which Ganeti lists them."""
    return dict(sorted(objects, key=lambda item: uuid_of(item[0])))


def cluster(seed: int, shape: Shape = Shape()) -> Json:
    """A cluster; the same for the same arguments.

    With DRBD at least one group needs two nodes in use, three if there are migration tags.
    """
    rng = random.Random(seed)
    groups = {uuid_of(f"group{i}"): _group(i, shape) for i in range(1, shape.groups + 1)}
    names = [f"node{i}.example.org" for i in range(1, shape.nodes + 1)]
    nodes = {name: _static(shape, i, list(groups)) for i, name in enumerate(names)}
    away = rng.sample(names, min(len(names), shape.offline + shape.drained))
    for name in away:
        nodes[name]["offline" if away.index(name) < shape.offline else "drained"] = True

    factor = {name: rng.choice((1.0, 1.0, 1.0, 1.5)) for name in names}
    load = dict.fromkeys(names, 0.0)
    pools = _pools(nodes)
    instances: Json = {}
    for i in range(1, shape.instances + 1):
        name = f"inst{i}.example.org"
        instances[name] = instance = _instance(rng, shape, name)
        accepting = [pool for pool in pools if _accepts(groups[nodes[pool[0]]["group"]], instance)]
        instance["nodes"] = _choose(rng, instance, accepting, load)
        for node, part in zip(instance["nodes"], (1.0, 0.5), strict=False):
            load[node] += part * instance["memory"] / factor[node]

    used = _used(names, instances)
    spare = {"memory": 4096, "disk": 65536, "spindles": 4}
    size = {kind: _size(shape, used[kind], factor) + spare[kind] for kind in spare}
    for name, node in nodes.items():
        if not node["offline"]:
            taken = {kind: used[kind][name] for kind in used}
            total = {kind: int(size[kind] * factor[name]) for kind in size}
            nodes[name] = _live(rng, shape, taken, total, int(32 * factor[name])) | node
    return {
        "version": 2,
        "cluster_name": "cluster.example.org",
        "cluster_tags": list(dict.fromkeys(itertools.chain(*(TAGS[kind] for kind in shape.tags)))),
        "enabled_hypervisors": [shape.hypervisor],
        "ipolicy": ipolicy(),
        "nodegroups": dict(sorted(groups.items())),
        "nodes": in_order(nodes.items()),
        "instances": in_order(instances.items()),
    }


def _live(
    rng: random.Random, shape: Shape, used: Mapping[str, int], total: Mapping[str, int], cpus: int
) -> Json:
    """What a node reports. ``total`` does not include what its own system takes."""
    own = 1024 * rng.randrange(1, 4)
    # Under KVM Ganeti cannot tell the node's system from its instances.
    kvm = shape.hypervisor == "kvm"
    return {
        "total_memory": total["memory"] + own,
        "reserved_memory": own + (used["memory"] if kvm else 0),
        "free_memory": total["memory"] - used["memory"] - rng.randrange(256),
        "total_disk": total["disk"],
        "free_disk": total["disk"] - used["disk"] - rng.randrange(512),
        "total_spindles": total["spindles"] if shape.exclusive_storage else 0,
        "free_spindles": total["spindles"] - used["spindles"] if shape.exclusive_storage else 0,
        "total_cpus": cpus,
        "reserved_cpus": cpus if kvm else 1,
        "i_pri_memory": used["primary"],
        "i_pri_up_memory": used["memory"],
    }


def _static(shape: Shape, i: int, groups: Sequence[str]) -> Json:
    """What Ganeti's configuration says of a node."""
    tags = []
    if {"location", "desired"} & set(shape.tags):
        tags.append(f"rack:r{i % 3}")
    if "migration" in shape.tags:
        tags.append(("cpu:old", "cpu:new")[i // len(groups) % 2])
    return {
        "tags": tags,
        "primary_ip": f"192.0.{2 + i // 250}.{1 + i % 250}",
        "secondary_ip": f"198.51.{100 + i // 250}.{1 + i % 250}",
        "offline": False,
        "drained": False,
        "master_candidate": i < 10,
        "group": groups[i % len(groups)],
        "master_capable": True,
        "vm_capable": True,
        "ndparams": {
            "cpu_speed": 1,
            "exclusive_storage": shape.exclusive_storage,
            "oob_program": "",
            "ovs": False,
            "ovs_link": "",
            "ovs_name": "switch1",
            "spindle_count": 4,
            "ssh_port": 22,
        },
    }


def ipolicy(
    *,
    max_memory: int = 32768,
    max_cpus: int = 8,
    vcpu_ratio: float = 4,
    templates: Sequence[str] = ALL_TEMPLATES,
) -> Json:
    """An instance policy; with these defaults, Ganeti's own."""

    def spec(memory: int, disk: int, disks: int, cpus: int, nics: int, spindles: int) -> Json:
        return {
            "memory-size": memory,
            "disk-size": disk,
            "disk-count": disks,
            "cpu-count": cpus,
            "nic-count": nics,
            "spindle-use": spindles,
        }

    return {
        "minmax": [
            {"min": spec(128, 1024, 1, 1, 1, 1), "max": spec(max_memory, 1048576, 16, max_cpus, 8, 12)}
        ],
        "std": spec(128, 1024, 1, 1, 1, 1),
        "spindle-ratio": 32,
        "vcpu-ratio": vcpu_ratio,
        "disk-templates": list(templates),
    }


def _group(i: int, shape: Shape) -> Json:
    policy, alloc_policy = ipolicy(), "preferred"
    if shape.policies and i > 1:
        alloc_policy = ("last_resort", "preferred", "unallocable")[i % 3]
        policy = ipolicy(max_memory=4096, vcpu_ratio=2, templates=("drbd", "ext", "diskless"))
        small, large = policy["minmax"][0], ipolicy(max_cpus=4)["minmax"][0]
        large["min"]["memory-size"] = 8192
        policy["minmax"] = [small, large]
    return {
        "name": f"group{i}",
        "alloc_policy": alloc_policy,
        "networks": [uuid_of("net0"), uuid_of(f"net{i}")] if shape.networks else [],
        "ipolicy": policy,
        "tags": [],
    }


def _instance(rng: random.Random, shape: Shape, name: str) -> Json:
    """An instance of the cluster, not placed yet."""
    template = rng.choices(list(shape.templates), list(shape.templates.values()))[0]
    disks = [rng.choice((5, 10, 20, 40)) * 1024 for _ in range(rng.choice((1, 1, 1, 2)))]
    if template == "diskless":
        disks = []
    state = "up"
    if rng.random() < shape.down:
        state = rng.choice(("down", "down", "offline"))
    tags = []
    if "exclusion" in shape.tags and rng.random() < 0.4:
        tags.append(f"service:s{rng.randrange(max(1, shape.instances // 4))}")
    if "desired" in shape.tags and rng.random() < 0.3:
        tags.append(f"rack:r{rng.randrange(3)}")
    instance = {
        "tags": tags,
        "admin_state": state,
        "vcpus": rng.choice((1, 1, 2, 4)),
        "memory": rng.choice((512, 1024, 1024, 2048, 4096)),
        "spindle_use": 1,
        "os": "debootstrap+default",
        "nodes": [],
        "nics": [nic(name)],
        "disks": [
            {
                "dev_type": template,
                "size": size,
                "mode": "rw",
                "spindles": 1 if shape.exclusive_storage else None,
            }
            for size in disks
        ],
        "disk_template": template,
        "disks_active": state == "up",
        "hypervisor": shape.hypervisor,
        "disk_space_total": disk_space(template, disks),
    }
    if rng.random() < shape.forthcoming:
        instance["forthcoming"] = True
    return instance


def nic(name: str) -> Json:
    digits = uuid_of(name)
    mac = ":".join(["aa", "00", "00", digits[0:2], digits[2:4], digits[4:6]])
    return {"mac": mac, "ip": None, "mode": "bridged", "link": "xen-br0", "bridge": "xen-br0"}


def disk_space(template: str, disks: Sequence[int]) -> int:
    """What disks take on a node: DRBD adds its metadata."""
    return sum(disks) + (128 * len(disks) if template == "drbd" else 0)


def _accepts(group: Json, instance: Json) -> bool:
    policy = group["ipolicy"]
    largest = policy["minmax"][0]["max"]["memory-size"]
    return instance["memory"] <= largest and instance["disk_template"] in policy["disk-templates"]


def _pools(nodes: Json) -> list[list[str]]:
    """The nodes in use, those together that are of one group and can migrate to each other."""
    pools: dict[tuple[str, ...], list[str]] = {}
    for name, node in nodes.items():
        if not node["drained"]:
            cpus = [tag for tag in node["tags"] if tag.startswith("cpu:")]
            pools.setdefault((node["group"], *cpus), []).append(name)
    return list(pools.values())


def _choose(
    rng: random.Random, instance: Json, pools: Sequence[Sequence[str]], load: Mapping[str, float]
) -> list[str]:
    """Nodes for an instance: the least loaded of a few taken at random, so balanced, but not perfectly."""
    wanted = 2 if instance["disk_template"] == "drbd" else 1
    large_enough = [pool for pool in pools if len(pool) >= wanted]
    pool = rng.choices(large_enough, [len(pool) for pool in large_enough])[0]
    return sorted(rng.sample(pool, min(len(pool), wanted + 2)), key=load.__getitem__)[:wanted]


def _uses_memory(instance: Json) -> bool:
    return instance["admin_state"] == "up" and not instance.get("forthcoming", False)


def _used(nodes: Sequence[str], instances: Json) -> dict[str, dict[str, int]]:
    """What instances take, per node: memory of those that run and of all, disk, spindles."""
    used = {key: dict.fromkeys(nodes, 0) for key in ("memory", "primary", "disk", "spindles")}
    for instance in instances.values():
        primary = instance["nodes"][0]
        used["primary"][primary] += instance["memory"]
        if _uses_memory(instance):
            used["memory"][primary] += instance["memory"]
        if instance["disk_template"] in LOCAL_TEMPLATES and not instance.get("forthcoming", False):
            for node in instance["nodes"]:
                used["disk"][node] += instance["disk_space_total"]
                used["spindles"][node] += sum(disk["spindles"] or 0 for disk in instance["disks"])
    return used


def _size(shape: Shape, used: Mapping[str, int], factor: Mapping[str, float]) -> float:
    """How large a node of factor 1 is, so that ``fill`` is reached and no node is overcommitted."""
    average = sum(used.values()) / sum(factor.values())
    return max(average / shape.fill, *(used[node] / factor[node] for node in used))


def place(data: Json, request: Json, nodes: Sequence[str]) -> Json:
    """The cluster after an ``allocate`` request was answered with these nodes and carried out."""
    name, template = request["name"], request["disk_template"]
    instance = {
        "tags": request["tags"],
        "admin_state": "up",
        "vcpus": request["vcpus"],
        "memory": request["memory"],
        "spindle_use": request["spindle_use"],
        "os": request["os"],
        "nodes": list(nodes),
        "nics": [nic(name)],
        "disks": [
            {"dev_type": template, "size": disk["size"], "mode": "rw", "spindles": disk.get("spindles")}
            for disk in request["disks"]
        ],
        "disk_template": template,
        "disks_active": True,
        "hypervisor": request["hypervisor"],
        "disk_space_total": request["disk_space_total"],
    }
    changed = {node: dict(data["nodes"][node]) for node in nodes}
    primary = changed[nodes[0]]
    primary["free_memory"] -= request["memory"]
    primary["i_pri_memory"] += request["memory"]
    primary["i_pri_up_memory"] += request["memory"]
    if template in LOCAL_TEMPLATES:
        for node in changed.values():
            node["free_disk"] -= request["disk_space_total"]
            node["free_spindles"] -= sum(disk["spindles"] or 0 for disk in instance["disks"])
    return {
        **data,
        "nodes": data["nodes"] | changed,
        "instances": in_order([*data["instances"].items(), (name, instance)]),
    }


def live_changes(data: Json, rng: random.Random, count: int = 3) -> Json:
    """The cluster with the free memory and disk of a few nodes a little different."""
    online = [name for name, node in data["nodes"].items() if not node["offline"]]
    changed = {}
    for name in rng.sample(online, min(count, len(online))):
        node = data["nodes"][name]
        changed[name] = node | {
            "free_memory": max(0, node["free_memory"] - rng.randrange(-64, 65)),
            "free_disk": max(0, min(node["total_disk"], node["free_disk"] - rng.randrange(-128, 129))),
        }
    return {**data, "nodes": data["nodes"] | changed}
