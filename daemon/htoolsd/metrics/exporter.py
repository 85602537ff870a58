"""The metrics of prometheus-ganeti-exporter 1.0, by its names and labels, so that its dashboards work.

Sizes are MiB and names have no units, as there. Labels have the names of nodes, instances and jobs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus, each_job
from ganeti_htools.luxi.queries import QueryRow
from htoolsd.metrics.durations import Durations
from htoolsd.metrics.metric import Document, Metric, Row
from htoolsd.sync.model import Model

_JOB_FIELDS = ("id", "status", "summary", "received_ts", "start_ts", "end_ts")
_NODE_FIGURES = {
    "ctotal": "CPUs of the node.",
    "dfree": "Free disk space of the node, MiB.",
    "dtotal": "Disk space of the node, MiB.",
    "mfree": "Free memory of the node, MiB.",
    "mtotal": "Memory of the node, MiB.",
    "pinst_cnt": "Instances with this primary node.",
    "sinst_cnt": "Instances with this secondary node.",
    "p_oper_vcpus": "Virtual CPUs of running instances with this primary node.",
    "s_oper_vcpus": "Virtual CPUs of running instances with this secondary node.",
}
_RUNNING = ("running", "ERROR_up", "ERROR_wrongnode")  # states of instances that run
_USES = ("pinst_cnt", "sinst_cnt", "p_oper_vcpus", "s_oper_vcpus")

Values = Mapping[str, Any]


class JobTimes(NamedTuple):
    """A job in the queue, the type of its first opcode, and the seconds that it waited and took."""

    id: int
    status: str
    operation: str
    wait: float | None
    run: float | None


async def query_jobs(client: LuxiClient) -> list[JobTimes]:
    """Query all jobs in the queue, finished ones included. Raises LuxiError."""
    return await each_job(client, (), _JOB_FIELDS, _job)


def _job(number: int, status: str, summaries: Any, received: Any, start: Any, end: Any) -> JobTimes:
    """Read a job. The summary of an opcode is its type and, in brackets, its subject."""
    operation = f"OP_{summaries[0].partition('(')[0]}" if summaries else "unknown"
    return JobTimes(number, status, operation, _between(received, start), _between(start, end))


def _between(begin: Sequence[float] | None, end: Sequence[float] | None) -> float | None:
    """Return the seconds between two times, each as seconds and microseconds."""
    return end[0] - begin[0] + (end[1] - begin[1]) / 1e6 if begin and end else None


def document(model: Model, jobs: Sequence[JobTimes], status: Document, scrapes: Durations) -> Document:
    """Return what the metrics come from; nothing about a cluster that this node does not lead.

    ``scrapes`` are the durations of earlier calls.
    """
    always: Document = {"scrapes": scrapes.to_json()}
    if not status["cluster"]["master"] or model.answers is None:
        return {**always, "cluster": None, "nodes": [], "instances": [], "jobs": [], "groups": []}
    instances = list(map(_instance, model.tables["instances"].rows, _states(model)))
    reported = {row.values["name"]: row.values for row in model.tables["live_nodes"].rows}
    used = _used(instances)
    names = [(row.values["name"], row.values.get("offline")) for row in model.tables["nodes"].rows]
    nodes = [{**reported.get(name, {}), **used[name], "name": name, "offline": off} for name, off in names]
    capacity = {group["name"]: group for group in status["capacity"]["groups"]}
    groups = [{**capacity.get(group["name"], {}), **group} for group in status["groups"] or ()]
    return {
        **always,
        "cluster": model.name,
        "nodes": nodes,
        "instances": instances,
        "jobs": jobs,
        "groups": groups,
    }


def _states(model: Model) -> Iterator[object]:
    """Yield the state of each instance of the configuration; None for one without a report."""
    reported = {row.values["name"]: row.values.get("status") for row in model.tables["live_instances"].rows}
    for row in model.tables["instances"].rows:
        yield reported.get(row.values["name"])


def _instance(row: QueryRow, state: object) -> Values:
    values, runs = row.values, state in _RUNNING
    return {
        "name": values["name"],
        "pnode": values.get("pnode"),
        "snodes": values.get("snodes") or (),
        "oper_ram": values.get("be/memory") if runs else 0,
        "oper_vcpus": values.get("be/vcpus") if runs else 0,
    }


def _used(instances: Sequence[Values]) -> Mapping[str, Counter[str]]:
    """Return what instances use of each node."""
    used = defaultdict[str, Counter[str]](lambda: Counter(dict.fromkeys(_USES, 0)))
    for each in instances:
        for letter, names in (("p", [each["pnode"]]), ("s", each["snodes"])):
            for name in names:
                used[name][f"{letter}inst_cnt"] += 1
                used[name][f"{letter}_oper_vcpus"] += each["oper_vcpus"] or 0
    return used


def _each(kind: str, figure: str) -> Callable[[Document], list[Row]]:
    return lambda d: [[d["cluster"], each["name"], each.get(figure)] for each in d[kind]]


def _cluster(value: Callable[[Document], object]) -> Callable[[Document], list[Row]]:
    return lambda d: [[d["cluster"], value(d)]] if d["cluster"] is not None else []


def _free_instances(d: Document) -> int | None:
    counts = [group["free_instances"] for group in d["groups"] if group.get("free_instances") is not None]
    return sum(counts) if counts else None


def _jobs(d: Document) -> Iterable[Row]:
    counts = Counter(job.status for job in d["jobs"])
    return [[d["cluster"], each.value, counts[each.value]] for each in JobStatus] if d["cluster"] else []


def _times(time: str) -> Callable[[Document], list[Row]]:
    return lambda d: [[d["cluster"], job.id, job.operation, getattr(job, time)] for job in d["jobs"]]


def _gauge(name: str, doc: str, labels: Sequence[str], rows: Callable[[Document], Iterable[Row]]) -> Metric:
    return Metric(f"ganeti_{name}", "gauge", doc, ("cluster", *labels), rows)


EXPORTER_METRICS = (
    *(_gauge(f"node_{name}", doc, ["node"], _each("nodes", name)) for name, doc in _NODE_FIGURES.items()),
    _gauge(
        "instance_oper_ram",
        "Memory of the running instance, MiB; 0 if it does not run.",
        ["instance"],
        _each("instances", "oper_ram"),
    ),
    _gauge(
        "instance_oper_vcpus",
        "Virtual CPUs of the running instance; 0 if it does not run.",
        ["instance"],
        _each("instances", "oper_vcpus"),
    ),
    _gauge("cluster_instance_count", "Instances.", [], _cluster(lambda d: len(d["instances"]))),
    _gauge("cluster_node_count", "Nodes.", [], _cluster(lambda d: len(d["nodes"]))),
    _gauge(
        "cluster_offline_nodes",
        "Nodes that are marked offline.",
        [],
        _cluster(lambda d: sum(bool(node["offline"]) for node in d["nodes"])),
    ),
    _gauge("cluster_jobs", "Jobs in the queue by status.", ["job_status"], _jobs),
    _gauge("job_wait_time", "Seconds that the job waited.", ["job_id", "job_operation"], _times("wait")),
    _gauge("job_run_time", "Seconds that the job took.", ["job_id", "job_operation"], _times("run")),
    _gauge(
        "hspace_allocatable_instances",
        "Instances of standard size that still fit, each group counted alone.",
        [],
        _cluster(_free_instances),
    ),
    _gauge("hbal_initial_score", "Score of the group.", ["node_group"], _each("groups", "score")),
    _gauge(
        "hbal_target_score", "Score that hbal would reach.", ["node_group"], _each("groups", "balanced_score")
    ),
    Metric(
        "ganeti_scrape_duration_seconds",
        "summary",
        "Duration of earlier calls for these metrics.",
        (),
        lambda d: [[d["scrapes"]]],
    ),
)
