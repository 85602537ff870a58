"""Generated clusters as answers of luxid, and a server that sends them."""

import json
import socketserver
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ganeti_htools.luxi.queries import GROUP_FIELDS, INSTANCE_FIELDS, NETWORK_FIELDS, NODE_FIELDS
from tests.support.clusters import Json, disk_space
from tests.support.rapi_documents import LIVE, STATUS, networks

Cell = list[Any]


def answers(data: Json) -> dict[str, Any]:
    """Return the results of requests by kind; the first node in use is the master."""
    used = [name for name, node in data["nodes"].items() if not (node["offline"] or node["drained"])]
    groups = [{"uuid": uuid, "diskparams": {}, **group} for uuid, group in data["nodegroups"].items()]
    return {
        "node": table(NODE_FIELDS, [_node(name, node) for name, node in data["nodes"].items()]),
        "instance": table(INSTANCE_FIELDS, [_instance(name, one) for name, one in data["instances"].items()]),
        "group": table(GROUP_FIELDS, [_plain(group, GROUP_FIELDS) for group in groups]),
        "network": table(NETWORK_FIELDS, [_plain(one, NETWORK_FIELDS) for one in networks(groups)]),
        "QueryClusterInfo": {
            "name": data["cluster_name"],
            "master": used[0],
            "tags": data["cluster_tags"],
            "ipolicy": data["ipolicy"],
            "default_hypervisor": data["enabled_hypervisors"][0],
        },
    }


def table(fields: tuple[str, ...], rows: list[dict[str, Cell]]) -> Json:
    """Return a result of a query; each cell is a state and a value."""
    kinds = [{"name": field, "title": field, "kind": "other", "doc": field} for field in fields]
    return {"fields": kinds, "data": [[row[field] for field in fields] for row in rows]}


def _plain(values: Json, fields: Sequence[str]) -> dict[str, Cell]:
    return {field: [0, values[field]] for field in fields}


def _node(name: str, node: Json) -> dict[str, Cell]:
    params = node["ndparams"]
    silent = 4 if node["offline"] else 2
    live = {key: [0, node[figure]] if figure in node else [silent, None] for key, figure in LIVE.items()}
    static = {key: [0, node[key]] for key in ("offline", "drained", "vm_capable", "master_capable", "tags")}
    wanted = ("spindle_count", "exclusive_storage", "cpu_speed")
    return {
        "name": [0, name],
        "group.uuid": [0, node["group"]],
        **{f"ndp/{key}": [0, params[key]] for key in wanted},
        "powered": [3, None],
        "uuid": [3, None],
        "master_candidate": [3, None],
        **static,
        **live,
    }


def _instance(name: str, instance: Json) -> dict[str, Cell]:
    sizes = [disk["size"] for disk in instance["disks"]]
    values = {
        "name": name,
        "disk_usage": disk_space(instance["disk_template"], sizes),
        "be/memory": instance["memory"],
        "be/vcpus": instance["vcpus"],
        "status": STATUS[instance["admin_state"]],
        "pnode": instance["nodes"][0],
        "snodes": instance["nodes"][1:],
        "tags": instance["tags"],
        "be/auto_balance": True,
        "disk_template": instance["disk_template"],
        "be/spindle_use": instance["spindle_use"],
        "disk.sizes": sizes,
        "disk.spindles": [disk["spindles"] for disk in instance["disks"]],
        "forthcoming": instance.get("forthcoming", False),
        "nic.networks": [nic.get("network") for nic in instance["nics"]],
    }
    return {**{key: [0, value] for key, value in values.items()}, "uuid": [3, None]}


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        message = bytearray()
        while byte := self.rfile.read(1):
            if byte != b"\x03":
                message += byte
                continue
            request = json.loads(message)
            message.clear()
            self.server.asked.append(request)  # type: ignore[attr-defined]
            result = _result(self.server.results, request)  # type: ignore[attr-defined]
            self.wfile.write(json.dumps({"success": True, "result": result}).encode() + b"\n\x03")


def _result(results: dict[str, Any], request: Json) -> Any:
    """Return the result of a request; for a query, with the requested fields."""
    if request["method"] != "Query":
        return results[request["method"]]
    what, names, _ = request["args"]
    known = results[what]
    places = [[field["name"] for field in known["fields"]].index(name) for name in names]
    return {
        "fields": [known["fields"][place] for place in places],
        "data": [[row[place] for place in places] for row in known["data"]],
    }


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, results: dict[str, Any]) -> None:
        super().__init__(path, _Handler)
        self.results = results
        self.asked: list[Json] = []


@contextmanager
def luxid(path: Path, results: dict[str, Any]) -> Generator[list[Json], None, None]:
    """Answer requests at a socket with these results; yield the list of the requests."""
    with _Server(str(path), results) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.asked
        finally:
            server.shutdown()
            thread.join()
