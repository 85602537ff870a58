"""The metrics of the daemon. Their values come from its status (the JSON of the method ``status``).

Names have base units; counters begin at the start of the daemon. Labels name node groups, never nodes or
instances. On other nodes than the master there are no figures about the cluster, so sums over all master
candidates are right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

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


def _of_groups(value: Callable[[Document], Any]) -> Callable[[Document], list[Row]]:
    return lambda status: [[group["name"], value(group)] for group in _groups(status)]


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


def _states(key: str, states: Sequence[str]) -> Callable[[Document], list[Row]]:
    return lambda status: [[state, status[key].get(state, 0)] for state in states]


def _policy_decisions(status: Document) -> Iterator[Row]:
    for policy in status["policies"]:
        for outcome, count in policy["outcomes"].items():
            yield policy["name"], outcome, count


METRICS = (
    # The daemon
    Metric(
        "htoolsd_info",
        "gauge",
        "Version of the daemon, and Ganeti's name of the cluster; 1.",
        ("version", "cluster_name"),
        lambda s: [[s["version"], s["cluster"]["name"] or "", 1]],
    ),
    Metric("htoolsd_start_time_seconds", "gauge", "Start of the daemon, since 1970.", (), _one("started")),
    Metric(
        "htoolsd_resident_memory_bytes",
        "gauge",
        "Memory of the daemon in RAM.",
        (),
        lambda s: [[round(s["memory_mib"] * (1 << 20))]],
    ),
    Metric("htoolsd_connections", "gauge", "Clients at the socket.", (), _one("connections")),
    Metric(
        "htoolsd_master",
        "gauge",
        "Whether this node is the master.",
        (),
        lambda s: [[bool(s["cluster"]["master"])]],
    ),
    Metric(
        "htoolsd_attention",
        "gauge",
        "Lines under ATTENTION in the status; the severity is warning or critical.",
        ("kind", "severity"),
        _attention,
    ),
    # The data
    Metric(
        "htoolsd_luxid_up",
        "gauge",
        "Whether luxid answers; only on the master.",
        (),
        lambda s: [[s["luxi"]["state"] == "reachable"]] if s["cluster"]["master"] else [],
    ),
    Metric(
        "htoolsd_data_age_seconds",
        "gauge",
        "Age of each kind of data; capacity is the count of free instances.",
        ("kind",),
        _ages,
    ),
    Metric(
        "htoolsd_data_late",
        "gauge",
        "Whether the data is missing or older than it should be.",
        (),
        _on_master("late", bool),
    ),
    Metric("htoolsd_polls_total", "counter", "Polls of Ganeti's data.", ("kind", "outcome"), _polls),
    Metric(
        "htoolsd_silent_nodes",
        "gauge",
        "Nodes in use that do not report.",
        (),
        _on_master("silent", len),
    ),
    Metric(
        "htoolsd_ganeti_unfinished_jobs",
        "gauge",
        "Unfinished jobs in Ganeti's queue.",
        (),
        _one("cluster", "unfinished_jobs"),
    ),
    # The cluster
    Metric("htoolsd_group_nodes", "gauge", "Nodes.", ("group",), _of_groups(lambda g: g["nodes"])),
    Metric(
        "htoolsd_group_instances",
        "gauge",
        "Instances with their primary node in the group.",
        ("group",),
        _of_groups(lambda g: g["instances"]),
    ),
    Metric(
        "htoolsd_group_healthy",
        "gauge",
        "Whether the group is healthy in the words of hregroup.",
        ("group",),
        _of_groups(lambda g: g["health"] == "healthy"),
    ),
    Metric(
        "htoolsd_group_nodes_failing_n1",
        "gauge",
        "Nodes that fail N+1.",
        ("group",),
        _of_groups(lambda g: len(g["failing"])),
    ),
    Metric(
        "htoolsd_group_nodes_not_redundant",
        "gauge",
        "Nodes that cannot be lost: some of their instances would not come back.",
        ("group",),
        _of_groups(lambda g: len(g["unrecoverable"]["nodes"])),
    ),
    Metric(
        "htoolsd_group_nodes_with_conflicts",
        "gauge",
        "Nodes whose instances share an exclusion tag.",
        ("group",),
        _of_groups(lambda g: len(g["conflicting"]["nodes"])),
    ),
    Metric(
        "htoolsd_group_score",
        "gauge",
        "Score of the group as hbal shows it; 0 is perfectly even.",
        ("group",),
        _of_groups(lambda g: g["score"]),
    ),
    Metric(
        "htoolsd_group_score_component",
        "gauge",
        "Weighted components of the score; their sum is the score.",
        ("group", "component"),
        _components,
    ),
    Metric(
        "htoolsd_group_balanced_score",
        "gauge",
        "Score that hbal would reach.",
        ("group",),
        _capacity("balanced_score"),
    ),
    Metric(
        "htoolsd_group_free_instances",
        "gauge",
        "Instances of standard size that still fit, as hspace counts them in the group alone.",
        ("group",),
        _capacity("free_instances"),
    ),
    Metric(
        "htoolsd_capacity_complete",
        "gauge",
        "Whether the last count of these two figures reached all groups; 0 if it was given up.",
        (),
        lambda status: [] if status["capacity"]["age_s"] is None else [[int(status["capacity"]["complete"])]],
    ),
    # Decisions and claims
    Metric(
        "htoolsd_decisions_total",
        "counter",
        "Decisions by type of the request and outcome.",
        ("type", "outcome"),
        _decisions,
    ),
    Metric(
        "htoolsd_decision_duration_seconds",
        "histogram",
        "Time from the call to the result of a decision.",
        (),
        _one("decisions", "durations"),
    ),
    Metric("htoolsd_decisions_waiting", "gauge", "Waiting decisions.", (), _one("decisions", "waiting")),
    Metric(
        "htoolsd_decisions_hung",
        "gauge",
        "Decisions that were given up and still compute.",
        (),
        _one("decisions", "lost"),
    ),
    Metric(
        "htoolsd_decisions_without_daemon_total",
        "counter",
        "Decisions that the executable made without the daemon, since the socket's directory was made.",
        (),
        _one("decisions", "alone"),
    ),
    Metric(
        "htoolsd_decision_without_daemon_last_time_seconds",
        "gauge",
        "Time of the last of these decisions, since 1970.",
        (),
        _one("decisions", "last_alone"),
    ),
    Metric("htoolsd_claims", "gauge", "Living claims.", (), _one("claims", "living")),
    # The ledger
    Metric(
        "htoolsd_ledger_up",
        "gauge",
        "Whether the ledger's database can be used.",
        (),
        lambda s: [[s["ledger"]["error"] is None]],
    ),
    Metric(
        "htoolsd_ledger_behind_seconds",
        "gauge",
        "How long the ledger has not recorded the present cluster.",
        (),
        _one("ledger", "behind_s"),
    ),
    Metric("htoolsd_ledger_providers", "gauge", "Resource providers.", (), _one("ledger", "providers")),
    Metric("htoolsd_ledger_claims", "gauge", "Claims in the ledger.", (), _one("ledger", "claims")),
    Metric(
        "htoolsd_ledger_exceeding_claims",
        "gauge",
        "Claims beyond the capacity of their provider.",
        (),
        _one("ledger", "beyond"),
    ),
    Metric(
        "htoolsd_ledger_conflicts_total",
        "counter",
        "Claims that other clients preceded.",
        (),
        _one("ledger", "conflicts"),
    ),
    # Plans and policies
    Metric(
        "htoolsd_plans",
        "gauge",
        "Plans that the daemon keeps; planned ones are proposals.",
        ("state",),
        _states("plans", tuple(PlanState)),
    ),
    Metric(
        "htoolsd_plan_jobs",
        "gauge",
        "Jobs of these plans; waiting ones belong to running plans.",
        ("state",),
        _states("plan_jobs", ("succeeded", "failed", "running", "waiting")),
    ),
    Metric(
        "htoolsd_policy_mode",
        "gauge",
        "Mode of each policy; 1.",
        ("policy", "mode"),
        lambda s: [[each["name"], each["mode"], 1] for each in s["policies"]],
    ),
    Metric(
        "htoolsd_policy_switched_off",
        "gauge",
        "Whether the policy has switched itself off after failed plans.",
        ("policy",),
        lambda s: [[each["name"], each["health"] == "switched off"] for each in s["policies"]],
    ),
    Metric(
        "htoolsd_policy_decisions_total",
        "counter",
        "Decisions of policies about node groups.",
        ("policy", "outcome"),
        _policy_decisions,
    ),
)
