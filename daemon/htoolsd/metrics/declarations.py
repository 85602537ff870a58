"""The metrics of the daemon. Their values come from its status (the JSON of the method ``status``).

Names have base units; counters begin at the start of the daemon. Labels name node groups; those of load
name nodes, none an instance. On other nodes than the master there are no figures about the cluster, so sums
over all master candidates are right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ganeti_htools.engine.capacity.forecast import ForecastOutcome
from htoolsd.metrics.metric import Document, Metric, Row
from htoolsd.plans.plan import PlanState

_WITHOUT_TYPE = ("failed", "refused", "abandoned", "given_up", "broken")


def _one(*path: str) -> Callable[[Document], list[Row]]:
    """Return the rows of a metric without labels; ``path`` has the keys that lead to its value."""

    def rows(status: Document) -> list[Row]:
        value: Any = status
        for key in path:
            value = value[key]
        return [[value]]

    return rows


def _groups(status: Document) -> Iterable[Document]:
    return (status["groups"] or ()) if status["cluster"]["master"] else ()


def _components(status: Document) -> Iterator[Row]:
    for group in _groups(status):
        for name, value in group["components"].items():
            yield group["name"], name, value


def _capacity(key: str) -> Callable[[Document], list[Row]]:
    def rows(status: Document) -> list[Row]:
        present = {group["name"] for group in _groups(status)}
        groups = status["capacity"]["groups"]
        return [[group["name"], group[key]] for group in groups if group["name"] in present]

    return rows


def _until_full(status: Document) -> Iterator[Row]:
    now = status["started"] + status["uptime_s"]
    for each in status["forecast"]:
        if each["outcome"] == ForecastOutcome.FULL:
            yield each["group"], each["resource"], 0
        elif each["earliest"] is not None:
            yield each["group"], each["resource"], max(0, each["earliest"] - now)


def _load(status: Document) -> Iterator[Row]:
    for node in status.get("load", {}).get("nodes", ()):
        for figure in ("now", "worst", "pressure"):
            yield node["name"], figure, node[figure]


def _ages(status: Document) -> Iterator[Row]:
    if status["cluster"]["master"]:
        yield from status["cluster"]["ages"].items()
        yield "capacity", status["capacity"]["age_s"]


def _polls(status: Document) -> Iterator[Row]:
    for kind, polls in status["cluster"]["polls"].items():
        yield kind, "done", polls["done"]
        yield kind, "failed", polls["failed"]


def _on_master(key: str, convert: Callable[[Any], object]) -> Callable[[Document], list[Row]]:
    def rows(status: Document) -> list[Row]:
        return [[convert(status["cluster"][key])]] if status["cluster"]["master"] else []

    return rows


def _attention(status: Document) -> Iterable[Row]:
    counts = Counter((each["kind"], each["severity"]) for each in status["attention"])
    return [[*key, count] for key, count in counts.items()]


def _decisions(status: Document) -> Iterator[Row]:
    decisions = status["decisions"]
    for kind, outcomes in decisions["by_type"].items():
        for outcome, count in outcomes.items():
            yield kind, outcome, count
    for outcome in _WITHOUT_TYPE:
        yield "unknown", outcome, decisions[outcome]


def _compared(status: Document) -> Iterator[Row]:
    for kind, verdicts in status["witness"]["counts"].items():
        for verdict, count in verdicts.items():
            yield kind, verdict, count


def _states(key: str, states: Sequence[str]) -> Callable[[Document], list[Row]]:
    return lambda status: [[state, status[key].get(state, 0)] for state in states]


def _policy_decisions(status: Document) -> Iterator[Row]:
    for policy in status["policies"]:
        for outcome, count in policy["outcomes"].items():
            yield policy["name"], outcome, count


def _gauge(name: str, doc: str, rows: Callable[[Document], Iterable[Row]], *labels: str) -> Metric:
    return Metric(name, "gauge", doc, labels, rows)


def _counter(name: str, doc: str, rows: Callable[[Document], Iterable[Row]], *labels: str) -> Metric:
    return Metric(name, "counter", doc, labels, rows)


def _of_groups(name: str, doc: str, value: Callable[[Document], Any]) -> Metric:
    return _gauge(
        name, doc, lambda status: [[group["name"], value(group)] for group in _groups(status)], "group"
    )


METRICS = (
    # The daemon
    _gauge(
        "htoolsd_info",
        "Version of the daemon, and Ganeti's name of the cluster; 1.",
        lambda s: [[s["version"], s["cluster"]["name"] or "", 1]],
        "version",
        "cluster_name",
    ),
    _gauge("htoolsd_start_time_seconds", "Start of the daemon, since 1970.", _one("started")),
    _gauge(
        "htoolsd_resident_memory_bytes",
        "Memory of the daemon in RAM.",
        lambda s: [[round(s["memory_mib"] * (1 << 20))]],
    ),
    _gauge("htoolsd_connections", "Clients at the socket.", _one("connections")),
    _gauge("htoolsd_master", "Whether this node is the master.", lambda s: [[bool(s["cluster"]["master"])]]),
    _gauge(
        "htoolsd_attention",
        "Lines under ATTENTION in the status; the severity is warning or critical.",
        _attention,
        "kind",
        "severity",
    ),
    # The data
    _gauge(
        "htoolsd_luxid_up",
        "Whether luxid answers; only on the master.",
        lambda s: [[s["luxi"]["state"] == "reachable"]] if s["cluster"]["master"] else [],
    ),
    _gauge(
        "htoolsd_data_age_seconds",
        "Age of each kind of data; capacity is the count of free instances.",
        _ages,
        "kind",
    ),
    _gauge(
        "htoolsd_data_late",
        "Whether the data is missing or older than it should be.",
        _on_master("late", bool),
    ),
    _counter("htoolsd_polls_total", "Polls of Ganeti's data.", _polls, "kind", "outcome"),
    _gauge("htoolsd_silent_nodes", "Nodes in use that do not report.", _on_master("silent", len)),
    _gauge(
        "htoolsd_ganeti_unfinished_jobs",
        "Unfinished jobs in Ganeti's queue.",
        _one("cluster", "unfinished_jobs"),
    ),
    # The cluster
    _of_groups("htoolsd_group_nodes", "Nodes.", lambda g: g["nodes"]),
    _of_groups(
        "htoolsd_group_instances", "Instances with their primary node in the group.", lambda g: g["instances"]
    ),
    _of_groups(
        "htoolsd_group_healthy",
        "Whether the group is healthy in the words of hregroup.",
        lambda g: g["health"] == "healthy",
    ),
    _of_groups("htoolsd_group_nodes_failing_n1", "Nodes that fail N+1.", lambda g: len(g["failing"])),
    _of_groups(
        "htoolsd_group_nodes_not_redundant",
        "Nodes that cannot fail without loss: some of their instances would not come back.",
        lambda g: len(g["unrecoverable"]["nodes"]),
    ),
    _of_groups(
        "htoolsd_group_nodes_with_conflicts",
        "Nodes whose instances share an exclusion tag.",
        lambda g: len(g["conflicting"]["nodes"]),
    ),
    _of_groups(
        "htoolsd_group_score",
        "Score of the group as hbal shows it; 0 is perfectly even.",
        lambda g: g["score"],
    ),
    _gauge(
        "htoolsd_group_score_component",
        "Weighted components of the score; their sum is the score.",
        _components,
        "group",
        "component",
    ),
    _gauge(
        "htoolsd_group_balanced_score", "Score that hbal would reach.", _capacity("balanced_score"), "group"
    ),
    _gauge(
        "htoolsd_group_free_instances",
        "Instances of standard size that still fit, as hspace counts them in the group alone.",
        _capacity("free_instances"),
        "group",
    ),
    _gauge(
        "htoolsd_seconds_until_full",
        "Seconds until the resource is full, at the earliest; absent if its use does not grow or is unknown.",
        _until_full,
        "group",
        "resource",
    ),
    _gauge(
        "htoolsd_node_load_ratio",
        "Use of a node's CPUs now and in its worst hour of the week, and its pressure; with [load] only.",
        _load,
        "node",
        "figure",
    ),
    _gauge(
        "htoolsd_capacity_complete",
        "Whether the last count of these two figures reached all groups; 0 if it was given up.",
        lambda status: [] if status["capacity"]["age_s"] is None else [[int(status["capacity"]["complete"])]],
    ),
    # Decisions and claims
    _counter(
        "htoolsd_decisions_total",
        "Decisions by type of the request and outcome.",
        _decisions,
        "type",
        "outcome",
    ),
    Metric(
        "htoolsd_decision_duration_seconds",
        "histogram",
        "Time from the call to the result of a decision.",
        (),
        _one("decisions", "durations"),
    ),
    Metric(
        "htoolsd_witness_decisions",
        "gauge",
        "Decisions by the verdict of their comparison with the witness, since the record began.",
        ("type", "verdict"),
        _compared,
    ),
    _gauge("htoolsd_decisions_waiting", "Waiting decisions.", _one("decisions", "waiting")),
    _gauge(
        "htoolsd_decisions_hung", "Decisions that were given up and still compute.", _one("decisions", "lost")
    ),
    _counter(
        "htoolsd_decisions_without_daemon_total",
        "Decisions that the executable made without the daemon, since the socket's directory was made.",
        _one("decisions", "alone"),
    ),
    _gauge(
        "htoolsd_decision_without_daemon_last_time_seconds",
        "Time of the last of these decisions, since 1970.",
        _one("decisions", "last_alone"),
    ),
    _gauge("htoolsd_claims", "Living claims.", _one("claims", "living")),
    # The ledger
    _gauge(
        "htoolsd_ledger_up",
        "Whether the ledger's database can be used.",
        lambda s: [[s["ledger"]["error"] is None]],
    ),
    _gauge(
        "htoolsd_ledger_lag_seconds",
        "How long the ledger has not recorded the present cluster.",
        _one("ledger", "lag_s"),
    ),
    _gauge("htoolsd_ledger_providers", "Resource providers.", _one("ledger", "providers")),
    _gauge("htoolsd_ledger_claims", "Claims in the ledger.", _one("ledger", "claims")),
    _gauge(
        "htoolsd_ledger_exceeding_claims",
        "Claims that exceed the capacity of their provider.",
        _one("ledger", "over_capacity"),
    ),
    _counter(
        "htoolsd_ledger_conflicts_total", "Claims that other clients preceded.", _one("ledger", "conflicts")
    ),
    # Plans and policies
    _gauge(
        "htoolsd_plans",
        "Plans that the daemon keeps; planned ones are proposals.",
        _states("plans", tuple(PlanState)),
        "state",
    ),
    _gauge(
        "htoolsd_plan_jobs",
        "Jobs of these plans; waiting ones belong to running plans.",
        _states("plan_jobs", ("succeeded", "failed", "running", "waiting")),
        "state",
    ),
    _gauge(
        "htoolsd_policy_mode",
        "Mode of each policy; 1.",
        lambda s: [[each["name"], each["mode"], 1] for each in s["policies"]],
        "policy",
        "mode",
    ),
    _gauge(
        "htoolsd_policy_switched_off",
        "Whether the policy has switched itself off after failed plans.",
        lambda s: [[each["name"], each["health"] == "switched off"] for each in s["policies"]],
        "policy",
    ),
    _counter(
        "htoolsd_policy_decisions_total",
        "Decisions of policies about node groups.",
        _policy_decisions,
        "policy",
        "outcome",
    ),
)
