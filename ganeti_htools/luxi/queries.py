"""Requests to luxid with typed answers; the methods are those of Ganeti's ``lib/luxi.py``.

All raise what :meth:`.LuxiClient.call` raises, also AnswerError for an answer of an unexpected shape.
"""

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ganeti_htools.luxi.checked import call, exactly, list_of, shape_errors
from ganeti_htools.luxi.client import LuxiClient

NODE_FIELDS = (
    *("name", "mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "offline", "drained"),
    *("vm_capable", "ndp/spindle_count", "group.uuid", "tags", "ndp/exclusive_storage"),
    *("sptotal", "spfree", "ndp/cpu_speed", "powered", "master_capable", "uuid", "master_candidate"),
)
INSTANCE_FIELDS = (
    *("name", "disk_usage", "be/memory", "be/vcpus", "status", "pnode", "snodes", "tags"),
    *("be/auto_balance", "disk_template", "be/spindle_use", "disk.sizes", "disk.spindles", "forthcoming"),
    *("nic.networks", "uuid"),
)
GROUP_FIELDS = ("uuid", "name", "alloc_policy", "ipolicy", "tags", "diskparams")
NETWORK_FIELDS = ("name", "uuid", "group_list")

# The fields above, divided by how often they are read. For live fields luxid asks all nodes, even for a
# single field; configuration fields are in its memory (``Ganeti.Query.Node`` and ``Instance``). The status of
# an instance is read together with what the instance takes of its nodes at that moment.
NODE_LIVE_FIELDS = (
    "name",
    *("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "sptotal", "spfree"),
)
NODE_CONFIG_FIELDS = ("name", *(field for field in NODE_FIELDS if field not in NODE_LIVE_FIELDS))
PLACEMENT_FIELDS = (
    *("pnode", "snodes", "be/memory", "disk_usage", "disk_template", "disk.sizes", "disk.spindles"),
    "forthcoming",
)
INSTANCE_LIVE_FIELDS = ("name", "status", "admin_state", *PLACEMENT_FIELDS)
INSTANCE_CONFIG_FIELDS = (*(field for field in INSTANCE_FIELDS if field != "status"), "admin_state")
STORAGE_KEYS = (
    *("enabled_disk_templates", "volume_group_name", "file_storage_dir", "shared_file_storage_dir"),
    *("gluster_storage_dir", "diskparams"),
)
INFO_KEYS = (
    *("name", "master", "tags", "ipolicy", "default_hypervisor", "candidate_pool_size"),
    *("software_version", "default_iallocator", "default_iallocator_params"),
    *STORAGE_KEYS,
)


def default_socket() -> str:
    """Return luxid's socket on a master node, below ``GANETI_ROOTDIR`` as in Ganeti's own programs."""
    return os.environ.get("GANETI_ROOTDIR", "") + "/var/run/ganeti/socket/ganeti-query"


class MissingReason(Enum):
    """Reason why a field has no value: Ganeti's result states except 0."""

    UNKNOWN = 1  # no such field in this version
    NO_DATA = 2
    UNAVAILABLE = 3  # not for this object
    OFFLINE = 4


class QueryRow(NamedTuple):
    """An object: its fields with a value, and the reasons of its fields without."""

    values: Mapping[str, Any]
    missing: Mapping[str, MissingReason]


async def query(
    client: LuxiClient, what: str, fields: Sequence[str], qfilter: Sequence[object] | None = None
) -> list[QueryRow]:
    """Query ``fields`` of all objects of a kind (``node``, ...), or of those that a filter matches."""
    return await call(client, "Query", [what, fields, qfilter], lambda answer: rows(what, fields, answer))


def rows(what: str, fields: Sequence[str], answer: Any) -> list[QueryRow]:
    """Parse the rows in an answer to Query."""
    with shape_errors(f"Query of {what}s"):
        return [_row(fields, cells) for cells in answer["data"]]


def _row(fields: Sequence[str], cells: Sequence[Sequence[Any]]) -> QueryRow:
    values, missing = {}, {}
    for field, (status, value) in zip(fields, cells, strict=True):
        if status == 0:
            values[field] = value
        else:
            missing[field] = MissingReason(status)
    return QueryRow(values, missing)


async def cluster_info(client: LuxiClient) -> dict[str, Any]:
    """Query the configuration of the cluster."""
    return await call(client, "QueryClusterInfo", (), info)


def info(answer: Any) -> dict[str, Any]:
    """Parse the configuration of the cluster in an answer to QueryClusterInfo."""
    with shape_errors("QueryClusterInfo"):
        return exactly(dict, answer)


class ClusterAnswers(NamedTuple):
    """Answers to the requests that describe a cluster."""

    nodes: list[QueryRow]
    instances: list[QueryRow]
    info: dict[str, Any]
    groups: list[QueryRow]
    networks: list[QueryRow]


async def whole_cluster(client: LuxiClient) -> ClusterAnswers:
    """Query all that decisions need, as Ganeti's tools do, and the networks.

    For the first two requests luxid asks every node.
    """
    return ClusterAnswers(
        nodes=await query(client, "node", NODE_FIELDS),
        instances=await query(client, "instance", INSTANCE_FIELDS),
        info=await cluster_info(client),
        groups=await query(client, "group", GROUP_FIELDS),
        networks=await query(client, "network", NETWORK_FIELDS),
    )


async def watcher_pause(client: LuxiClient) -> float | None:
    """Return the end of ganeti-watcher's pause, in seconds of the epoch; None if it is not paused."""

    def read(answer: Any) -> float | None:
        [until] = list_of(answer, 1)
        return None if until is None else float(until)

    return await call(client, "QueryConfigValues", [["watcher_pause"]], read)
