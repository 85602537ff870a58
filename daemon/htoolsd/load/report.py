"""The load of nodes and instances, and the sizes that would fit, as JSON. Pure functions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Floats, of_load
from ganeti_htools.model.hour_sums import UNITS
from ganeti_htools.model.load import HOURS, LOAD_KINDS, LoadProfile
from ganeti_htools.planning.view import View, state_of
from htoolsd.load.figures import LoadSample
from htoolsd.load.profiles import KnownLoad

FULL = 0.9  # of its VCPUs in the worst hour: an instance at its limit
EMPTY = 0.5  # of what it has in the worst hour: an instance that never uses it
_AIM = 0.8  # of a size that fits, in the worst hour
_MEMORY_STEP = 256  # MiB of sizes that fit


def nodes_to_json(
    cluster: Cluster, profiles: Mapping[str, LoadProfile], sample: LoadSample
) -> list[dict[str, Any]]:
    """Return the load of each node with what it has and its instances are assigned, hottest first.

    CPU is in cores, memory in MiB, disk and network in MiB/s.
    """
    found = []
    for node, sums in zip(cluster.nodes, hours_of_nodes(cluster, profiles), strict=True):
        primary = [row for row in cluster.instances if row.pnode == node.name and row.uses_memory]
        cpus = node.t_cpu * node.cpu_speed
        worst, now = float(sums[0].max()), sample.nodes.get(node.name)
        found.append(
            {
                "name": node.name,
                "cpus": cpus,
                "vcpus": sum(row.vcpus for row in primary),
                "memory": node.t_mem,
                "assigned_memory": sum(row.mem for row in primary),
                **_load(sums, now),
                "pressure": sample.pressure.get(node.name),
                "share": worst / cpus if cpus and profiles else None,
                "share_now": None if now is None or not cpus or now[0] != now[0] else float(now[0]) / cpus,
            }
        )
    return sorted(found, key=lambda each: -(each["share"] or 0.0))


def hottest_hours(cluster: Cluster, most: int) -> dict[str, list[float]]:
    """Return the share of CPUs that the hottest nodes use in each hour of the week, hottest first."""
    if not cluster.load_profiles:
        return {}
    cores = hours_of_nodes(cluster, cluster.load_profiles)[:, 0]
    cpus = np.array([[node.t_cpu * node.cpu_speed] for node in cluster.nodes])
    shares = np.divide(cores, cpus, out=np.zeros_like(cores), where=cpus > 0)
    rows = np.argsort(-shares.max(axis=1), kind="stable")[:most].tolist()
    return {cluster.nodes[row].name: shares[row].round(3).tolist() for row in rows}


def loads_of_decisions(known: KnownLoad) -> dict[str, float]:
    """Return the loads of nodes in their worst hours by name, counted in instances of the usual load.

    They are relative to the CPUs that nodes have.
    """
    shares = {node["name"]: node["share"] for node in known.nodes if node["share"] is not None}
    total = sum(shares.values())
    each = len(known.profiles) / total if total else 0.0
    return {name: round(each * share, 3) for name, share in shares.items()} if each else {}


def instances_to_json(
    cluster: Cluster, profiles: Mapping[str, LoadProfile], sample: LoadSample
) -> list[dict[str, Any]]:
    """Return the load of each measured instance with what it is assigned, hottest first."""
    now = sample.instances or {}
    found = [
        {
            "name": row.name,
            "node": row.pnode,
            "vcpus": row.vcpus,
            "memory": row.mem,
            **_load(profiles[row.name].peak, now.get(row.name)),
            "share": float(profiles[row.name].peak[0].max()) / max(row.vcpus, 1),
        }
        for row in cluster.instances
        if row.name in profiles
    ]
    return sorted(found, key=lambda each: -each["share"])


def hours_of_nodes(cluster: Cluster, profiles: Mapping[str, LoadProfile]) -> Floats:
    """Return the sums of instances' 95th percentiles by node, kind of load and hour, as in balancing.

    They are NaN if no profile is known.
    """
    hours = np.full((len(cluster.nodes), len(LOAD_KINDS), HOURS), 0.0 if profiles else np.nan)
    if profiles:
        state = state_of(replace(cluster, load_profiles=profiles), View(load="real"))
        for kind in state.load.kinds if state.load else ():
            hours[:, LOAD_KINDS.index(kind)] = (
                getattr(state.columns, of_load("hours", kind)).sums / UNITS[kind]
            )
    return hours


def _load(hours: Floats, now: Floats | None) -> dict[str, Any]:
    """Return the present load, the 95th percentile and the maximum of hours, and the hours of the latter."""
    return {
        "now": None if now is None else _by_kind(now),
        "p95": _by_kind(np.percentile(hours, 95, axis=1)),
        "worst": _by_kind(hours.max(axis=1)),
        "worst_hour": dict(zip(LOAD_KINDS, hours.argmax(axis=1).tolist(), strict=True)),
    }


def _by_kind(figures: Floats) -> dict[str, float | None]:
    rounded = [None if each != each else round(each, 3) for each in figures.tolist()]
    return dict(zip(LOAD_KINDS, rounded, strict=True))


def sizes_to_json(cluster: Cluster, profiles: Mapping[str, LoadProfile]) -> Iterator[dict[str, Any]]:
    """Yield instances that never use what they are assigned, and those whose CPU is at its limit.

    ``fits`` are VCPUs and MiB of which the worst hour uses 80 %; None where the present size is right, or
    the need is unknown because the instance is at its limit.
    """
    for row in cluster.instances:
        if row.name not in profiles:
            continue
        hours = profiles[row.name].peak
        cpu, mem = (float(each) for each in hours.max(axis=1)[:2])
        vcpus = max(1, ceil(cpu / _AIM)) if cpu <= EMPTY * row.vcpus else row.vcpus
        memory = max(1, ceil(mem / _AIM / _MEMORY_STEP)) * _MEMORY_STEP
        memory = memory if 0 < mem <= EMPTY * row.mem else row.mem
        full = int(np.count_nonzero(hours[0] >= FULL * row.vcpus)) if row.vcpus else 0
        smaller = {
            "vcpus": vcpus if vcpus < row.vcpus else None,
            "memory": memory if memory < row.mem else None,
        }
        if full or any(smaller.values()):
            yield {
                "name": row.name,
                "node": row.pnode,
                "vcpus": row.vcpus,
                "memory": row.mem,
                "worst": {"cpu": round(cpu, 3), "mem": round(mem, 3)},
                "full_hours": full,
                "fits": smaller,
            }
