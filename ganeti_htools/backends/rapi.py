"""A cluster as Ganeti's remote API tells of it (``ganeti-rapi(8)``), from the documents of four resources."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.backends.fields import MAX_COUNT, Fields, parse_json
from ganeti_htools.backends.iallocator import ipolicy
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node, check
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status

# Where a server has each document; a directory has it as NAME.json.
RESOURCES = {
    "groups": "/2/groups?bulk=1",
    "nodes": "/2/nodes?bulk=1",
    "instances": "/2/instances?bulk=1",
    "info": "/2/info",
}

_DEFAULT_GROUP = "00000000-0000-0000-0000-000000000000"


def parse(documents: Mapping[str, bytes]) -> Cluster:
    """The cluster in these documents, by the names of RESOURCES. Raises DataError."""
    info = Fields("Parsing cluster info", parse_json(documents["info"], "Parsing cluster info"))
    master, hypervisor = info.text("master"), info.text("default_hypervisor")
    groups = [_group(fields) for fields in _objects(documents["groups"], "group")]
    nodes = [_node(fields, master, hypervisor) for fields in _objects(documents["nodes"], "node")]
    instances = [_instance(fields) for fields in _objects(documents["instances"], "instance")]
    if not any(node.master for node in nodes):
        raise DataError(f"Master node {master} unknown")
    cluster = Cluster(
        tuple(groups), tuple(nodes), tuple(instances), info.texts("tags"), ipolicy(info.object("ipolicy"))
    )
    check(cluster)
    return cluster


def _objects(data: bytes, kind: str) -> list[Fields]:
    """The objects of a list, each called by its name."""
    task = f"Parsing {kind} data"
    objects = Fields(task, {"list": parse_json(data, task)}).objects("list")
    for fields in objects:
        fields.owner = f"{kind.title()} '{fields.text('name')}', error while parsing data"
    return objects


def _group(fields: Fields) -> Group:
    return Group(
        fields.text("name"),
        fields.text("uuid"),
        fields.choice("alloc_policy", AllocPolicy),
        ipolicy=ipolicy(fields.object("ipolicy")),
        tags=fields.texts("tags"),
    )


def _node(fields: Fields, master: str, hypervisor: str) -> Node:
    params = fields.object("ndparams")
    exclusive = params.boolean("exclusive_storage")
    name, drained = fields.text("name"), fields.boolean("drained")
    live = not fields.boolean("offline") and (not fields.has("vm_capable") or fields.boolean("vm_capable"))
    t_spindles = 0 if exclusive else params.count("spindle_count")
    node = Node(
        name,
        fields.text("group.uuid") if fields.has("group.uuid") else _DEFAULT_GROUP,
        n_cpu=0,
        t_spindles=t_spindles,
        offline=not live or drained,
        excl_stor=exclusive,
        master=name == master,
        hypervisor=hypervisor,
        tags=fields.texts("tags"),
    )
    return _with_live(node, fields) if live else node


def _with_live(node: Node, fields: Fields) -> Node:
    """The node with what it reports; without local storage it reports no disk."""
    return replace(
        node,
        t_mem=fields.number("mtotal"),
        n_mem=fields.integer("mnode"),
        f_mem=fields.free("mfree"),
        t_dsk=fields.number("dtotal") if fields.has("dtotal") else 0.0,
        f_dsk=fields.free("dfree") if fields.has("dfree") else 0,
        t_cpu=fields.number("ctotal"),
        n_cpu=fields.count("cnos"),
        t_spindles=fields.count("sptotal") if node.excl_stor else node.t_spindles,
        f_spindles=fields.free("spfree") if fields.has("spfree") else 0,
    )


def _instance(fields: Fields) -> Instance:
    params = fields.object("beparams")
    secondaries = fields.texts("snodes")
    # What it runs with, unless it does not run.
    running = isinstance(fields.value("oper_ram"), int | float)
    configured = "memory" if params.has("memory") else "maxmem"
    return Instance(
        fields.text("name"),
        fields.integer("oper_ram") if running else params.integer(configured),
        fields.integer("disk_usage"),
        _disks(fields),
        params.count("vcpus"),
        fields.choice("status", Status),
        fields.texts("tags"),
        params.boolean("auto_balance"),
        fields.text("pnode"),
        secondaries[0] if secondaries else None,
        fields.choice("disk_template", DiskTemplate),
        params.count("spindle_use"),
        forthcoming=fields.values.get("forthcoming") is True,
    )


def _disks(fields: Fields) -> tuple[Disk, ...]:
    sizes, spindles = fields.value("disk.sizes"), fields.value("disk.spindles")
    for key, values in (("disk.sizes", sizes), ("disk.spindles", spindles)):
        if not isinstance(values, list):
            raise fields.wrong(key, "[Int]", "a list of whole numbers")
    return tuple(_disk(fields.owner, pair) for pair in zip(sizes, spindles, strict=False))


def _disk(owner: str, values: tuple[Any, Any]) -> Disk:
    disk = Fields(owner, dict(zip(("disk.sizes", "disk.spindles"), values, strict=True)))
    spindles = disk.integer("disk.spindles", high=MAX_COUNT) if disk.has("disk.spindles") else None
    return Disk(disk.integer("disk.sizes"), spindles)
