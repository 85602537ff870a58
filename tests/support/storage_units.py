"""Storage units for generated clusters: what nodes have of them, which disks are where. Sizes are MiB.

What a node has free of a unit is its total less what disks there take. Now and then disks are on units that
their node does not report.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.units_in_use import units_in_use
from tests.support.cases import Case, case
from tests.support.clusters import MIXED, TIGHT, Json, Shape, cluster, disk_space, uuid_of
from tests.support.text_format import text as text_of

Unit = tuple[str, str]  # type and key

VOLUME_GROUP: Unit = ("lvm-vg", "xenvg")  # the default: most nodes have it, and list it first
DIRECTORY: Unit = ("file", "/srv/ganeti/file-storage")
VOLUME_GROUPS: Sequence[Unit] = (VOLUME_GROUP, ("lvm-vg", "ssdvg"), ("lvm-vg", "hddvg"))
DIRECTORIES: Sequence[Unit] = (DIRECTORY, ("file", "/srv/50%;a,b|c"))
POOLS: dict[str, Sequence[Unit]] = {
    "rbd": (("rados", "rbd"), ("rados", "fast")),
    "ext": (("ext", "san"), ("ext", "nas")),
    "sharedfile": (("sharedfile", "/srv/ganeti/shared-file-storage"),),
    "gluster": (("gluster", "gv0"),),
}
LOCAL = ("plain", "drbd", "file")
META = 128  # of each DRBD disk


def with_units(data: Json, rng: random.Random) -> Json:
    """The cluster with 1 to 4 local units on nodes and with pools, some of which only some nodes see."""
    told = _telling(data, rng)
    some = rng.sample([*VOLUME_GROUPS[1:], *DIRECTORIES], rng.randint(0, 3))
    # File disks without a unit are in the directory that most nodes list first of theirs.
    locals_ = [VOLUME_GROUP, *([DIRECTORY] if set(some) & set(DIRECTORIES) else []), *some]
    locals_ = list(dict.fromkeys(locals_))
    groups = [key for kind, key in locals_ if kind == "lvm-vg"]
    # A node that does not tell its units has the volume group, but none for mirrored disks only.
    mirrored = set(rng.sample(groups, 1)) - ({"xenvg"} if None in told.values() else set())
    mirrored = mirrored if rng.random() < 0.25 else set()
    locals_ += [("drbd8", key) for key in sorted(mirrored)]
    have = {name: _some(rng, locals_) if tells else {VOLUME_GROUP} for name, tells in told.items()}
    for unit in (VOLUME_GROUP, DIRECTORY):
        if unit in locals_:
            names = [name for name, tells in told.items() if tells]
            for name in rng.sample(names, len(names) // 2 + 1):
                have[name].add(unit)

    stray = rng.random() < 0.1
    instances = {}
    for name, instance in data["instances"].items():
        nodes = [node for node in instance["nodes"] if node in have]
        near = locals_ if stray else [unit for unit in locals_ if all(unit in have[node] for node in nodes)]
        instances[name] = instance = _with_disks(rng, instance, near, mirrored, split=True)
        for node in nodes:
            have[node] |= set() if stray or not told[node] else set(needs(instance, mirrored))
    data = _with_pools(rng, data | {"instances": instances}, told)
    return _with_figures(rng, data, have, told, mirrored)


def on_units(rng: random.Random, data: Json, request: Json) -> Json:
    """An ``allocate`` request whose disks are on units that the cluster has, if it has any for them."""
    there = {unit for unit, _ in _listed(data)}
    mirrored = {key for kind, key in there if kind == "drbd8"}
    return _with_disks(rng, request, sorted(there), mirrored, split=False)


def case_with_units(seed: int, kind: str | None = None) -> Case:
    """Any case (:func:`.cases.case`), with units."""
    rng, plain = random.Random(seed), case(seed, kind)
    data, request = with_units(plain.data, rng), plain.request
    if request["type"] == "allocate":
        request = on_units(rng, data, request)
    if request["type"] == "multi-allocate":
        request = request | {"instances": [on_units(rng, data, each) for each in request["instances"]]}
    return Case(data, request, plain.options)


def needs(instance: Json, mirrored: Iterable[str]) -> Counter[Unit]:
    """What an instance needs of each local unit, on each of its nodes."""
    found: Counter[Unit] = Counter()
    drbd = instance["disk_template"] == "drbd"
    for disk in instance["disks"]:
        unit = unit_of(instance, disk, mirrored)
        if unit:
            found[unit] += disk["size"]
        if unit and drbd:
            apart = disk.get("metavg") not in (None, unit[1])
            found[("lvm-vg", disk["metavg"]) if apart else unit] += META
    return found


def unit_of(instance: Json, disk: Json, mirrored: Iterable[str]) -> Unit | None:
    """The local unit that a disk wants: of volume groups that are ``mirrored`` DRBD has one of its own."""
    unit = _named(instance, disk)
    drbd = instance["disk_template"] == "drbd"
    return ("drbd8", unit[1]) if unit and drbd and unit[1] in mirrored else unit


def _named(instance: Json, disk: Json) -> Unit | None:
    """The local unit that a disk names, the default one of its type if it names none."""
    if "sunit" in disk:
        kind, key = disk["sunit"][:2]
        return (kind, key) if kind in ("lvm-vg", "file") else None
    if instance["disk_template"] in ("plain", "drbd"):
        return ("lvm-vg", disk.get("vg", VOLUME_GROUP[1]))
    return DIRECTORY if instance["disk_template"] == "file" else None


def _telling(data: Json, rng: random.Random) -> dict[str, bool]:
    """Which nodes tell their units; at least one does. Offline ones report nothing and are left out."""
    chance = rng.choice((1.0, 1.0, 0.8))
    online = [name for name, node in data["nodes"].items() if not node["offline"]]
    told = {name: rng.random() < chance for name in online}
    for name in online[:1]:
        told[name] = told[name] or not any(told.values())
    return told


def _some(rng: random.Random, units: Sequence[Unit]) -> set[Unit]:
    return set(rng.sample(units, rng.randint(1, min(4, len(units)))))


def _with_disks(
    rng: random.Random, instance: Json, units: Sequence[Unit], mirrored: Iterable[str], *, split: bool
) -> Json:
    """The instance with its disks on some of these units, on the default one where none is fit for them."""
    template, disks = instance["disk_template"], instance["disks"]
    if split and disks and rng.random() < 0.5:
        first = disks[0]
        size = rng.randrange(1024, first["size"] - 1023)
        disks = [first | {"size": size}, *disks[1:], first | {"size": first["size"] - size}]
    disks = [_on_some(rng, template, disk, units, mirrored) for disk in disks]
    space = disk_space(template, [disk["size"] for disk in disks])
    return instance | {"disks": disks, "disk_space_total": space}


def _on_some(
    rng: random.Random, template: str, disk: Json, units: Sequence[Unit], mirrored: Iterable[str]
) -> Json:
    disk = {key: value for key, value in disk.items() if key != "vg"}
    if template in POOLS:
        pool, key = rng.choice(POOLS[template])
        named: Json = {"sunit": [pool, key, []]}
        if pool == "ext" and rng.random() < 0.5:
            named = {"provider": key}
        return disk | rng.choice((named, named, {}))
    kind = "file" if template == "file" else "lvm-vg"
    keys = [key for of, key in units if of == kind and template in LOCAL]
    data = [key for of, key in units if of == "drbd8"] + [key for key in keys if key not in mirrored]
    choice = data if template == "drbd" else keys
    if not choice or (not {"xenvg", DIRECTORY[1]}.isdisjoint(choice) and rng.random() < 0.2):
        return disk
    key = rng.choice(choice)
    named = {"sunit": [kind, key, []]}
    if template != "file":
        named = rng.choice(({"vg": key}, {"vg": key}, named))
    if template == "drbd" and keys and rng.random() < 0.3:
        named = named | {"metavg": rng.choice(keys)}
    return disk | named


def _with_pools(rng: random.Random, data: Json, told: dict[str, bool]) -> Json:
    """The cluster with what tells who sees a pool: storage of nodes, tags of nodes or groups, or nothing."""
    nodes = {name: node | {"tags": list(node["tags"])} for name, node in data["nodes"].items()}
    groups = {uuid: group | {"tags": list(group["tags"])} for uuid, group in data["nodegroups"].items()}
    for pool in (pool for pools in POOLS.values() for pool in pools):
        users = {
            node
            for instance in data["instances"].values()
            if any(_pool_of(instance, disk) == pool for disk in instance["disks"])
            for node in instance["nodes"]
        }
        seeing = users | {name for name in nodes if rng.random() < 0.6}
        tag = f"htools:storage:{'/'.join(pool)}"
        match rng.choice(("storage", "node", "group", "all", "all")):
            case "storage":
                for name in seeing & told.keys():
                    if told[name]:
                        unit = {"sunit": [*pool, []], "free": 1 << 20, "total": 1 << 21}
                        nodes[name] = nodes[name] | {"storage": [*nodes[name].get("storage", []), unit]}
            case "node":
                for name in seeing:
                    nodes[name]["tags"].append(tag)
            case "group":
                for uuid in groups:
                    if any(nodes[name]["group"] == uuid for name in users) or rng.random() < 0.3:
                        groups[uuid]["tags"].append(tag)
    return data | {"nodes": nodes, "nodegroups": groups}


def _pool_of(instance: Json, disk: Json) -> Unit | None:
    if "sunit" in disk:
        return disk["sunit"][0], disk["sunit"][1]
    return ("ext", disk["provider"]) if "provider" in disk else None


def _with_figures(
    rng: random.Random,
    data: Json,
    have: dict[str, set[Unit]],
    told: dict[str, bool],
    mirrored: Iterable[str],
) -> Json:
    """The cluster whose nodes have room for their disks and more; of one unit often hardly any."""
    taken: dict[str, Counter[Unit]] = {name: Counter() for name in data["nodes"]}
    spindles: Counter[str] = Counter()
    for instance in data["instances"].values():
        if not instance.get("forthcoming", False):
            for node in instance["nodes"]:
                taken[node].update(needs(instance, mirrored))
                on_default = [d for d in instance["disks"] if unit_of(instance, d, mirrored) == VOLUME_GROUP]
                spindles[node] += sum(disk["spindles"] or 0 for disk in on_default)
    full = rng.choice([None, *sorted({unit for units in have.values() for unit in units})])
    fill = rng.choice((0.2, 0.5, 0.8))
    nodes = dict(data["nodes"])
    for name, units in have.items():
        node = nodes[name]
        own: list[Json] = []
        for kind, key in sorted(units, key=lambda unit: (unit not in (VOLUME_GROUP, DIRECTORY), unit)):
            used = taken[name][kind, key]
            room = rng.choice((20480, 65536, int(used / fill) - used))
            free = rng.choice((0, 1, 1024, 5500, 10369)) if (kind, key) == full else room
            params = rng.choice(([], [node["ndparams"]["exclusive_storage"]])) if kind == "lvm-vg" else []
            own.append({"sunit": [kind, key, params], "free": free, "total": used + free})
        default = next((unit for unit in own if unit["sunit"][:2] == [*VOLUME_GROUP]), None)
        figures = {
            "total_disk": default["total"] if default else 0,
            "free_disk": default["free"] if default else 0,
            "total_spindles": spindles[name] + node["free_spindles"],
        }
        nodes[name] = node | figures
        if told[name]:
            nodes[name] = _with_storage(nodes[name], own + node.get("storage", []))
    return data | {"nodes": nodes}


def _with_storage(node: Json, units: Sequence[Json]) -> Json:
    """The node with these units, in front, where Ganeti tells what it asked the node for."""
    return {"storage": units} | node | {"storage": units}


def _listed(data: Json) -> list[tuple[Unit, Json]]:
    """The units that nodes list, with their figures."""
    units = (unit for node in data["nodes"].values() for unit in node.get("storage", ()))
    return [((unit["sunit"][0], unit["sunit"][1]), unit) for unit in units]


def taken(described: Cluster) -> dict[tuple[str, DesiredUnit], tuple[int, int]]:
    """What nodes and disks say is taken of each unit on each node that has it."""
    units, disks = units_in_use(described), Counter[tuple[str, DesiredUnit]]()
    for row in described.instances:
        for node in filter(None, (row.pnode, row.snode)):
            for unit, size in units.needs(row).items():
                disks[node, unit] += size
    return {
        (node.name, unit.desired): (unit.total - unit.free, disks[node.name, unit.desired])
        for node in described.nodes
        for unit in node.storage or ()
        if not unit.desired.type.pool
    }


FOUR = ("xenvg", "ssdvg", "hddvg", "nvmevg")


def with_four_units(data: Json, request: Json | None = None) -> tuple[Json, Json]:
    """The cluster, and a request to place an instance, with four volume groups and two disks per instance.

    Each group is as full as the only one was, as far as it can be. Nothing here is random: what is added to
    a cluster leaves the rest as it is.
    """
    instances = {name: _on_two(name, each) for name, each in data["instances"].items()}
    taken: dict[str, Counter[Unit]] = {name: Counter() for name in data["nodes"]}
    for instance in instances.values():
        for node in instance["nodes"]:
            taken[node].update(needs(instance, ()))
    nodes = {}
    for name, node in data["nodes"].items():
        units = []
        for key in FOUR if not node["offline"] else ():
            used = taken[name]["lvm-vg", key]
            total = max(node["total_disk"] // 4, used + 8192)
            units.append({"sunit": ["lvm-vg", key, []], "free": total - used, "total": total})
        nodes[name] = _with_storage(node, units)
    request = _on_two(request["name"], request) if request else {}
    return data | {"nodes": nodes, "instances": instances}, request


def _on_two(name: str, instance: Json) -> Json:
    """The instance with its first disk, in halves, on two of the four groups."""
    if instance["disk_template"] not in ("plain", "drbd"):
        return instance
    first, number = instance["disks"][0], int(uuid_of(name)[:8], 16)
    groups = (FOUR[number % 4], FOUR[(number + 1) % 4])
    disks = [first | {"size": first["size"] // 2, "vg": group} for group in groups]
    space = disk_space(instance["disk_template"], [disk["size"] for disk in disks])
    return instance | {"disks": disks, "disk_space_total": space}


def any_state(seed: int, groups: int = 1) -> State:
    """A cluster with instances of all kinds on units, from a seed."""
    return _any_state(seed, groups).copy()


@cache
def _any_state(seed: int, groups: int) -> State:
    rng = random.Random(seed)
    shape = Shape(
        nodes=groups * rng.randint(3, 6),
        groups=groups,
        instances=rng.randint(5, 30),
        templates=rng.choice((MIXED, {"drbd": 1}, {"ext": 3, "sharedfile": 1, "rbd": 1})),
        fill=rng.choice((0.3, 0.6, TIGHT)),
        offline=rng.choice((0, 1)),
        forthcoming=rng.choice((0, 0, 0.2)),
    )
    return derive(text.parse(text_of(with_units(cluster(seed, shape), rng)), "generated"))
