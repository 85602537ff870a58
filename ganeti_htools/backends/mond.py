"""Dynamic CPU load from Ganeti's monitoring daemons (``hail(1)``, options ``--mond`` and ``--mond-data``).

One collector is used. On Xen it reports the load of each instance. Elsewhere it reports the load of the
whole node, which is divided among the primary instances in proportion to their virtual CPUs. A collector's
data is used only if every node has reported; otherwise instances would move from nodes that answered to
nodes that did not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import orjson

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Instance
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import Status

T = TypeVar("T")

# Node name -> collector name -> what the collector reported (its "data", JSON).
MondReports = Mapping[str, Mapping[str, Any]]

NODE_COLLECTOR = "cpu-avg-load"
XEN_COLLECTOR = "xen-cpu-avg-load"

_KINDS = {"list": "an array", "dict": "an object", "str": "a string"}


def collector(xen: bool) -> str:
    """The name of the collector whose data is used."""
    return XEN_COLLECTOR if xen else NODE_COLLECTOR


def parse(data: bytes, source: str) -> MondReports:
    """Reports from a file: an array of ``{"node": NAME, "reports": [REPORT...]}``. Raises DataError."""
    try:
        entries = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{source}: Invalid JSON: {error}") from error
    reports = {}
    for index, entry in enumerate(_checked(list, entries, f"{source}: the top level")):
        place = f"{source}: entry {index}"
        node = _member(str, entry, "node", place)
        place = f"{place}: node {values.quote(node)}"
        reports[node] = by_collector(_member(list, entry, "reports", place), place)
    return reports


def by_collector(reports: Iterable[object], place: str) -> dict[str, Any]:
    """Return the data of reports by collector; the first report of a collector counts. Raises DataError."""
    found: dict[str, Any] = {}
    for report in reports:
        name = _member(str, report, "name", f"{place}: report")
        found.setdefault(name, _member(object, report, "data", f"{place}: report {values.quote(name)}"))
    return found


def _member(kind: type[T], record: object, key: str, place: str) -> T:
    known = _checked(dict, record, place)
    if key not in known:
        raise DataError(f"{place}: key '{key}' not found")
    return _checked(kind, known[key], f"{place}: key '{key}'")


def _checked(kind: type[T], value: object, place: str) -> T:
    if not isinstance(value, kind):
        raise DataError(f"{place}: expected {_KINDS[kind.__name__]}")
    return value


def apply(cluster: Cluster, reports: MondReports, xen: bool) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with the reported loads; if they are unusable, the same cluster and warnings."""
    data = [reports.get(node.name, {}).get(collector(xen)) for node in cluster.nodes]
    try:
        return _with_instance_loads(cluster, data) if xen else _with_node_loads(cluster, data), ()
    except DataError as error:
        return cluster, (str(error),)


def _all(loads: Iterable[T | None], name: str) -> list[T]:
    known = list(loads)
    if None in known:
        raise DataError(f"Didn't receive an answer by all MonDs, {name}'s data will be ignored.")
    return cast(list[T], known)


def _load(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_MIB else None


def _with_node_loads(cluster: Cluster, data: Iterable[object]) -> Cluster:
    totals = (_load(report.get("cpu_total")) if isinstance(report, dict) else None for report in data)
    loads = _all(totals, NODE_COLLECTOR)
    used = {node.name: node.n_cpu for node in cluster.nodes}
    for instance in cluster.instances:
        if not instance.forthcoming and instance.status is not Status.OFFLINE:
            used[instance.pnode] += instance.vcpus
    per_cpu = {
        node.name: load / used[node.name] if used[node.name] else 0.0
        for node, load in zip(cluster.nodes, loads, strict=True)
    }
    return replace(
        cluster,
        nodes=tuple(replace(node, cpu_load=load) for node, load in zip(cluster.nodes, loads, strict=True)),
        instances=tuple(
            _with_cpu(instance, per_cpu[instance.pnode] * instance.vcpus) for instance in cluster.instances
        ),
    )


def _with_instance_loads(cluster: Cluster, data: Iterable[object]) -> Cluster:
    loads: dict[str, float] = {}
    for report in _all(map(_instance_loads, data), XEN_COLLECTOR):
        for name, load in report.items():
            loads.setdefault(name, load)
    missing = sorted({instance.name for instance in cluster.instances} - loads.keys())
    if missing:
        raise DataError(f"No CPU information available for {orjson.dumps(missing).decode()}")
    return replace(
        cluster, instances=tuple(_with_cpu(instance, loads[instance.name]) for instance in cluster.instances)
    )


def _instance_loads(report: object) -> dict[str, float] | None:
    if not isinstance(report, dict):
        return None
    loads = {name: _load(value) for name, value in report.items()}
    return None if None in loads.values() else cast(dict[str, float], loads)


def _with_cpu(instance: Instance, load: float) -> Instance:
    return replace(instance, load=replace(instance.load, cpu=load))
