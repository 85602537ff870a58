"""Generated clusters as Ganeti's remote API tells of them (``ganeti-rapi(8)``)."""

import json
from pathlib import Path

from tests.support.clusters import Json, disk_space

LIVE = {
    "mtotal": "total_memory",
    "mnode": "reserved_memory",
    "mfree": "free_memory",
    "dtotal": "total_disk",
    "dfree": "free_disk",
    "ctotal": "total_cpus",
    "cnos": "reserved_cpus",
    "sptotal": "total_spindles",
    "spfree": "free_spindles",
}
STATUS = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}


def documents(data: Json) -> dict[str, Json | list[Json]]:
    """The documents of the resources; the first node in use is the master."""
    used = [name for name, node in data["nodes"].items() if not (node["offline"] or node["drained"])]
    groups = [{"uuid": uuid, **group} for uuid, group in data["nodegroups"].items()]
    return {
        "groups": groups,
        "networks": networks(groups),
        "nodes": [_node(name, node) for name, node in data["nodes"].items()],
        "instances": [_instance(name, instance) for name, instance in data["instances"].items()],
        "info": {
            "name": data["cluster_name"],
            "master": used[0],
            "tags": data["cluster_tags"],
            "ipolicy": data["ipolicy"],
            "default_hypervisor": data["enabled_hypervisors"][0],
        },
    }


def networks(groups: list[Json]) -> list[Json]:
    """The networks that groups are connected to, of which queries for groups do not tell."""

    def connections(uuid: str) -> list[list[str]]:
        return [[group["name"], "bridged", "br0", ""] for group in groups if uuid in group["networks"]]

    uuids = dict.fromkeys(uuid for group in groups for uuid in group["networks"])
    return [{"name": f"name of {uuid}", "uuid": uuid, "group_list": connections(uuid)} for uuid in uuids]


def write(directory: Path, data: Json) -> str:
    """The documents as files; their ``file://`` URL."""
    directory.mkdir(exist_ok=True)
    for name, document in documents(data).items():
        (directory / f"{name}.json").write_text(json.dumps(document), "utf-8")
    return f"file://{directory}"


def _node(name: str, node: Json) -> Json:
    static = {key: node[key] for key in ("offline", "drained", "vm_capable", "tags", "ndparams")}
    live = {key: node.get(figure) for key, figure in LIVE.items()}  # an offline node reports nothing
    return {"name": name, "group.uuid": node["group"], **static, **live}


def _instance(name: str, instance: Json) -> Json:
    sizes = [disk["size"] for disk in instance["disks"]]
    return {
        "name": name,
        "status": STATUS[instance["admin_state"]],
        "oper_ram": instance["memory"] if instance["admin_state"] == "up" else None,
        "disk_template": instance["disk_template"],
        "disk_usage": disk_space(instance["disk_template"], sizes),
        "disk.sizes": sizes,
        "disk.spindles": [disk["spindles"] for disk in instance["disks"]],
        "nic.networks": [nic.get("network") for nic in instance["nics"]],
        "pnode": instance["nodes"][0],
        "snodes": instance["nodes"][1:],
        "tags": instance["tags"],
        "beparams": {
            "vcpus": instance["vcpus"],
            "minmem": instance["memory"],
            "maxmem": instance["memory"],
            "auto_balance": True,
            "spindle_use": instance["spindle_use"],
        },
    }
