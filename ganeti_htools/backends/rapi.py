"""A cluster from the documents of resources of Ganeti's remote API (``ganeti-rapi(8)``)."""

from collections.abc import Mapping

from ganeti_htools.backends import query_rows
from ganeti_htools.backends.fields import Fields, parse_json
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.types import DiskTemplate, Status

# Where a server has each document; a directory has it as NAME.json.
RESOURCES = {
    "groups": "/2/groups?bulk=1",
    "nodes": "/2/nodes?bulk=1",
    "instances": "/2/instances?bulk=1",
    "info": "/2/info",
    "networks": "/2/networks?bulk=1",
}
OPTIONAL = ("networks",)  # where there is no such document, groups are connected to none

_DEFAULT_GROUP = "00000000-0000-0000-0000-000000000000"


def parse(documents: Mapping[str, bytes], state_of_record: bool = False) -> Cluster:
    """Return the cluster in these documents, by the names of RESOURCES; OPTIONAL ones may be missing.

    The memory of an instance is its current one; with ``state_of_record``, the configured one. Raises
    DataError.
    """
    info = Fields("Parsing cluster info", parse_json(documents["info"], "Parsing cluster info"))
    networks = query_rows.networks(_objects(documents.get("networks", b"[]"), "network"))
    found = _objects(documents["groups"], "group")
    groups = [query_rows.with_networks(query_rows.group(fields), networks) for fields in found]
    nodes = [_node(fields) for fields in _objects(documents["nodes"], "node")]
    found = _objects(documents["instances"], "instance")
    instances = [_instance(fields, state_of_record) for fields in found]
    return query_rows.cluster(info, groups, nodes, instances)


def _objects(data: bytes, kind: str) -> list[Fields]:
    """Return the objects of a list; errors name each object."""
    task = f"Parsing {kind} data"
    objects = Fields(task, {"list": parse_json(data, task)}).objects("list")
    for fields in objects:
        name = fields.text("name")
        if not name or not name.isprintable() or "|" in name:
            raise fields.wrong("name", "String", "a name")
        fields.owner = f"{kind.title()} '{name}', error while parsing data"
    return objects


def _node(fields: Fields) -> Node:
    params = fields.object("ndparams")
    exclusive = params.boolean("exclusive_storage")
    group = fields.text("group.uuid") if fields.has("group.uuid") else _DEFAULT_GROUP
    return query_rows.node(fields, group, exclusive, 0 if exclusive else params.count("spindle_count"))


def _instance(fields: Fields, state_of_record: bool) -> Instance:
    params = fields.object("beparams")
    secondaries = fields.texts("snodes")
    current = fields.value("oper_ram")
    running = not state_of_record and isinstance(current, int | float) and not isinstance(current, bool)
    configured = "memory" if params.has("memory") else "maxmem"
    return Instance(
        fields.text("name"),
        fields.integer("oper_ram") if running else params.integer(configured),
        fields.integer("disk_usage"),
        query_rows.disks(fields),
        params.count("vcpus"),
        fields.choice("status", Status),
        fields.texts("tags"),
        params.boolean("auto_balance"),
        fields.text("pnode"),
        secondaries[0] if secondaries else None,
        fields.choice("disk_template", DiskTemplate),
        params.count("spindle_use"),
        query_rows.nics(fields) if fields.has("nic.networks") else (),
        forthcoming=fields.values.get("forthcoming") is True,
        uuid=fields.text("uuid") if fields.has("uuid") else "",
    )
