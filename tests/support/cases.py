"""Requests of every type about clusters of every shape, from a seed."""

import random
from dataclasses import dataclass

from tests.support import messages
from tests.support.clusters import MIXED, MOVABLE, TAGS, Json, Shape, cluster, uuid_of

TYPES = ("allocate", "multi-allocate", "allocate-secondary", "relocate", "node-evacuate", "change-group")
TEMPLATES = ({"drbd": 1}, MIXED, MIXED, MOVABLE, {"plain": 2, "drbd": 2, "ext": 2}, {"ext": 1}, {"plain": 1})


@dataclass(frozen=True)
class Case:
    """A cluster, what is asked of it, and options for hail."""

    data: Json
    request: Json
    options: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message as Ganeti writes it."""
        return messages.encode(messages.message(self.data, self.request))


def case(seed: int, kind: str | None = None) -> Case:
    """Any case, of one request type if ``kind`` is given; the same for the same arguments."""
    rng = random.Random(seed)
    shape = _shape(rng)
    data = cluster(seed, shape)
    if rng.random() < 0.4:
        data = _uneven(rng, data)
    request = _request(rng, data, shape, kind or rng.choice(TYPES))
    options = _options(rng, data)
    if request["type"] == "change-group" and "migration" in shape.tags:
        # The original looks whether the instance could migrate between the nodes it leaves.
        options = tuple({*options, "--no-capacity-checks"})
    return Case(data, request, options)


def _shape(rng: random.Random) -> Shape:
    exclusive = rng.random() < 0.12
    groups = rng.choice((1, 1, 2, 3))
    tags = tuple(kind for kind in TAGS if rng.random() < 0.4)
    size = rng.randint(4 if "migration" in tags else 2, 5)
    return Shape(
        nodes=groups * size + rng.randint(0, 2),
        instances=rng.randint(0, 40),
        groups=groups,
        templates={"plain": 1, "drbd": 1} if exclusive else rng.choice(TEMPLATES),
        fill=rng.choice((0.2, 0.4, 0.6, 0.85, 0.95)),
        offline=rng.choice((0, 0, 0, 1)),
        drained=rng.choice((0, 0, 1)) if size > 2 else 0,
        down=rng.choice((0, 0.05, 0.3)),
        forthcoming=rng.choice((0, 0, 0, 0.2)),
        tags=tags,
        policies=rng.random() < 0.3,
        networks=rng.random() < 0.3,
        exclusive_storage=exclusive,
        hypervisor=rng.choice(("xen-pvm", "kvm")),
    )


def _uneven(rng: random.Random, data: Json) -> Json:
    """The cluster with some nodes that are slower, smaller or fuller than their instances tell."""
    nodes = dict(data["nodes"])
    for name in rng.sample(list(nodes), 2):
        node = nodes[name] = nodes[name] | {"ndparams": dict(nodes[name]["ndparams"])}
        node["ndparams"]["cpu_speed"] = rng.choice((0.5, 1, 2))
        node["ndparams"]["spindle_count"] = rng.choice((1, 4))
        if not node["offline"]:
            node["free_memory"] -= rng.choice((-500, 0, 1000))
            node["free_disk"] = rng.choice((0, node["free_disk"] // 2, node["free_disk"]))
            node["total_cpus"] = rng.choice((2, node["total_cpus"]))
    return data | {"nodes": nodes}


def _allocate(rng: random.Random, data: Json, shape: Shape, name: str) -> Json:
    templates: tuple[str, ...] = ("plain", "drbd")
    if not shape.exclusive_storage:
        templates = ("drbd", "drbd", "plain", "ext", "sharedfile", "diskless", "file", "rbd")
    tags = []
    if rng.random() < 0.6:
        tags.append(f"service:s{rng.randrange(10)}")
    if rng.random() < 0.6:
        tags.append(f"rack:r{rng.randrange(4)}")
    networks = [uuid_of(rng.choice(("net0", "net1", "net2")))] if shape.networks else []
    request = messages.allocate(
        name,
        rng.choice(templates),
        memory=rng.choice((128, 512, 1024, 4096, 20000)),
        vcpus=rng.choice((1, 2, 4)),
        disks=[rng.choice((1024, 10240, 50000)) for _ in range(rng.choice((1, 1, 2)))],
        spindles=rng.choice((1, 2, None)) if shape.exclusive_storage else None,
        tags=tags,
        networks=networks,
    )
    if rng.random() < 0.1:
        request["forthcoming"] = True
    return request


def _request(rng: random.Random, data: Json, shape: Shape, kind: str) -> Json:
    names, nodes, groups = list(data["instances"]), list(data["nodes"]), data["nodegroups"]
    group_name = None
    if len(groups) == 1:  # with more, the original's check of redundancy looks at a wrong instance
        group_name = rng.choice((None, None, *(group["name"] for group in groups.values())))
    if shape.exclusive_storage and len(groups) > 1 and kind == "multi-allocate":
        kind = "allocate"  # after the first, the original only knows the group it chose
    if kind == "allocate" or not names:
        request = _allocate(rng, data, shape, "new.example.org") | {"group_name": group_name}
        return request | rng.choice(({}, {}, {}, {"restrict-to-nodes": rng.sample(nodes, 2)}))
    chosen = rng.choice(names)
    match kind:
        case "multi-allocate":
            if shape.exclusive_storage:
                group_name = None  # the original's answer says it in other words
            count = rng.randint(1, 4)
            requests = [_allocate(rng, data, shape, f"new{i}.example.org") for i in range(count)]
            group = {"group_name": group_name}  # the original only looks for it beside the instances
            return messages.multi_allocate(request | group for request in requests) | group
        case "allocate-secondary":
            plain = [name for name in names if data["instances"][name]["disk_template"] == "plain"]
            return messages.allocate_secondary(rng.choice(plain or names))
        case "relocate":
            return messages.relocate(data, chosen)
        case "node-evacuate":
            mode = rng.choice(("primary-only", "secondary-only", "all"))
            return messages.node_evacuate(data, rng.choice(nodes), mode)
        case _:
            some = rng.sample(names, min(len(names), rng.randint(1, 4)))
            return messages.change_group(some, rng.sample(list(groups), rng.randint(0, min(2, len(groups)))))


def _options(rng: random.Random, data: Json) -> tuple[str, ...]:
    nodes = list(data["nodes"])
    chances = {
        "--no-capacity-checks": 0.3,
        "--ignore-soft-errors": 0.15,
        "--ignore-dynu": 0.05,
        f"--restrict-allocation-to={','.join(rng.sample(nodes, len(nodes) // 2 + 1))}": 0.15,
        f"--static-kvm-node-memory={rng.choice((0, 1024))}": 0.2,
    }
    return tuple(option for option, chance in chances.items() if rng.random() < chance)
