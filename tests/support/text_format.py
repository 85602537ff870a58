"""Generated clusters in the htools' text format (``htools(1)``)."""

from collections.abc import Sequence

from tests.support.clusters import Json


def text(data: Json) -> str:
    """A cluster in the htools' text format (``htools(1)``)."""
    groups = data["nodegroups"]
    policies = [("", data["ipolicy"]), *((group["name"], group["ipolicy"]) for group in groups.values())]
    units = any("storage" in node for node in data["nodes"].values())
    sections = [
        [_group_row(uuid, group) for uuid, group in groups.items()],
        [_node_row(name, node) for name, node in data["nodes"].items()],
        [_instance_row(name, instance, units) for name, instance in data["instances"].items()],
        data["cluster_tags"],
        [_policy_row(owner, policy) for owner, policy in policies],
    ]
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _row(*fields: object) -> str:
    return "|".join(map(str, fields))


def _group_row(uuid: str, group: Json) -> str:
    return _row(
        group["name"], uuid, group["alloc_policy"], ",".join(group["tags"]), ",".join(group["networks"])
    )


def _node_row(name: str, node: Json) -> str:
    params = node["ndparams"]
    figures = ("total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk", "total_cpus")
    return _row(
        name,
        *(node.get(key, 0) for key in figures),  # an offline node reports nothing
        "Y" if node["offline"] or node["drained"] or not node["vm_capable"] else "N",
        node["group"],
        node.get("total_spindles", 0) if params["exclusive_storage"] else params["spindle_count"],
        ",".join(node["tags"]),
        "Y" if params["exclusive_storage"] else "N",
        node.get("free_spindles", 0),
        node.get("reserved_cpus", 0),
        float(params["cpu_speed"]),
        *([_units(node["storage"])] if "storage" in node else []),
    )


def _instance_row(name: str, instance: Json, units: bool) -> str:
    status = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}
    spindles = [disk["spindles"] for disk in instance["disks"]]
    primary, secondary = [*instance["nodes"], ""][:2]
    return _row(
        name,
        instance["memory"],
        instance["disk_space_total"],
        instance["vcpus"],
        status[instance["admin_state"]],
        "Y",
        primary,
        secondary,
        instance["disk_template"],
        ",".join(instance["tags"]),
        instance["spindle_use"],
        "-" if None in spindles else sum(spindles),
        "Y" if instance.get("forthcoming", False) else "N",
        *([";".join(_disk(instance, disk) for disk in instance["disks"])] if units else []),
    )


def _units(storage: Sequence[Json]) -> str:
    return ";".join(
        ",".join(
            (
                str(unit["free"]),
                str(unit["total"]),
                unit["sunit"][0],
                _key(unit["sunit"][1]),
                *("Y" if param else "N" for param in unit["sunit"][2]),
            )
        )
        for unit in storage
    )


def _disk(instance: Json, disk: Json) -> str:
    unit = ["-", "-"]
    if "vg" in disk and instance["disk_template"] in ("plain", "drbd"):
        unit = ["lvm-vg", disk["vg"]]
    if "provider" in disk:
        unit = ["ext", disk["provider"]]
    kind, key = disk.get("sunit", unit)[:2]
    spindles = disk["spindles"]
    fields = (disk["size"], kind, _key(key), "-" if spindles is None else spindles, disk.get("metavg", "-"))
    return ",".join(map(str, fields))


def _key(key: str) -> str:
    return key.translate({ord(letter): f"%{ord(letter):02X}" for letter in "%,;|"})


def _policy_row(owner: str, policy: Json) -> str:
    keys = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")

    def spec(values: Json) -> str:
        return ",".join(str(values[key]) for key in keys)

    return _row(
        owner,
        spec(policy["std"]),
        ";".join(spec(pair[bound]) for pair in policy["minmax"] for bound in ("min", "max")),
        ",".join(policy["disk-templates"]),
        float(policy["vcpu-ratio"]),
        float(policy["spindle-ratio"]),
    )
