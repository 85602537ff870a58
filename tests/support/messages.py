"""Iallocator messages about generated clusters, one by one or as the stream that Ganeti sends."""

import itertools
import json
import random
from collections.abc import Generator, Iterable, Sequence

from tests.support.clusters import Json, Shape, cluster, disk_space, live_changes, nic, place, uuid_of


def allocate(
    name: str,
    template: str = "drbd",
    *,
    memory: int = 1024,
    vcpus: int = 1,
    disks: Sequence[int] = (10240,),
    spindles: int | None = None,
    tags: Sequence[str] = (),
    group_name: str | None = None,
    networks: Sequence[str] = (),
    restrict_to: Sequence[str] | None = None,
) -> Json:
    """A request to place a new instance; ``spindles`` are those of each disk, ``networks`` UUIDs."""
    disks = () if template == "diskless" else disks
    disk_spindles = {} if spindles is None else {"spindles": spindles}
    nics: list[Json] = [{"mac": nic(name)["mac"], "nicparams": {}, "uuid": uuid_of(name)}]
    if networks:
        nics = [nics[0] | {"network": network} for network in networks]
    request: Json = {
        "name": name,
        "disk_template": template,
        "group_name": group_name,
        "tags": list(tags),
        "os": "debootstrap+default",
        "vcpus": vcpus,
        "memory": memory,
        "spindle_use": 1,
        "disks": [
            {"size": size, "mode": "rw", "vg": "xenvg", "name": None, **disk_spindles, "dev_type": template}
            for size in disks
        ],
        "disk_space_total": disk_space(template, disks),
        "nics": nics,
        "required_nodes": 2 if template == "drbd" else 1,
        "hypervisor": "xen-pvm",
        "type": "allocate",
    }
    if restrict_to is not None:
        request["restrict-to-nodes"] = list(restrict_to)
    return request


def random_allocate(rng: random.Random, name: str, template: str = "drbd") -> Json:
    """A request to place a new instance of a common size."""
    return allocate(
        name,
        template,
        memory=rng.choice((512, 1024, 2048, 3072)),
        vcpus=rng.choice((1, 2)),
        disks=[rng.choice((5120, 10240, 20480))],
    )


def multi_allocate(requests: Iterable[Json]) -> Json:
    """A request to place several new instances."""
    instances = [{key: value for key, value in request.items() if key != "type"} for request in requests]
    return {"instances": instances, "type": "multi-allocate"}


def allocate_secondary(name: str) -> Json:
    """A request for a secondary node of an instance whose disks are to become DRBD."""
    return {"name": name, "type": "allocate-secondary"}


def relocate(data: Json, name: str) -> Json:
    """A request to move a DRBD instance's secondary, or an instance on storage that all nodes see."""
    instance = data["instances"][name]
    return {
        "name": name,
        "disk_space_total": instance["disk_space_total"],
        "required_nodes": 1,
        "relocate_from": instance["nodes"][-1:],
        "type": "relocate",
    }


def node_evacuate(data: Json, node: str, mode: str) -> Json:
    """A request to empty a node; ``mode`` is ``primary-only``, ``secondary-only`` or ``all``."""
    places = {"primary-only": slice(0, 1), "secondary-only": slice(1, 2), "all": slice(0, 2)}[mode]
    names = [name for name, instance in data["instances"].items() if node in instance["nodes"][places]]
    return {"instances": names, "evac_mode": mode, "type": "node-evacuate"}


def change_group(names: Sequence[str], targets: Sequence[str] = ()) -> Json:
    """A request to move instances to other groups, of ``targets`` (UUIDs) if there are any."""
    return {"instances": list(names), "target_groups": list(targets), "type": "change-group"}


def message(data: Json, request: Json) -> Json:
    """What Ganeti sends."""
    return {**data, "request": request}


def encode(content: Json) -> str:
    """A message as the text that Ganeti writes."""
    return json.dumps(content) + "\n"


def stream(seed: int, shape: Shape, template: str = "drbd") -> Generator[Json, Sequence[str], None]:
    """Messages as Ganeti sends them one after another, each asking for a new instance.

    ``send`` the nodes of the answer (none if it failed): the next message contains that instance, and
    live figures of some nodes have changed.
    """
    rng = random.Random(seed)
    data = cluster(seed, shape)
    for i in itertools.count(1):
        request = random_allocate(rng, f"new{i}.example.org", template)
        nodes = yield message(data, request)
        if nodes:
            data = place(data, request, nodes)
        data = live_changes(data, rng)
