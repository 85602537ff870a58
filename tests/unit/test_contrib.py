"""The alert rules and the dashboard name metrics and labels that exist."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from htoolsd.metrics.declarations import METRICS
from tests.support.programs import ROOT

RULES = ROOT / "contrib/prometheus/htoolsd.rules.yml"
DASHBOARD = ROOT / "contrib/grafana/htoolsd.json"
# Prometheus adds the label of the targets.
LABELS = {name: {*metric.labels, "le", "cluster"} for metric in METRICS for name in metric.sample_names}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool of Debian's package prometheus"
)


def expressions() -> Iterator[str]:
    yield from re.findall(r"(?m)^ +expr: (.+)$", RULES.read_text("utf-8"))
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def wrong(expression: str) -> list[str]:
    """The metrics and labels of an expression that do not exist."""
    named = re.findall(r"(htoolsd_\w+)(?:\{([^}]*)\})?", expression)
    unknown = [name for name, _ in named if name not in LABELS]
    labels = {label for name, _ in named for label in LABELS.get(name, ())}
    used = [label for _, matchers in named for label in re.findall(r"(\w+) *(?:=|!)", matchers)]
    for clause in re.findall(r"\bby \(([^)]*)\)", expression):
        used += re.findall(r"\w+", clause)
    return unknown + [label for label in used if label not in labels]


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_expression_names_what_exists(expression: str) -> None:
    assert wrong(expression) == []


def test_unknown_names_are_noticed() -> None:
    assert wrong('sum by (node) (htoolsd_group_score{grup="a"}) + htoolsd_scores') == [
        "htoolsd_scores",
        "grup",
        "node",
    ]
    assert len(list(expressions())) > 30


def test_each_rule_is_looked_at_and_has_a_severity_and_a_summary() -> None:
    text = RULES.read_text("utf-8")
    rules = text.split("- alert: ")[1:]
    assert len(rules) == len(re.findall(r"(?m)^ +expr: ", text)) > 5
    for rule in rules:
        assert re.search(r"labels: \{severity: (critical|warning|info)\}\n +annotations:\n +summary: ", rule)


def test_legends_use_labels_that_exist() -> None:
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"htoolsd_\w+", target["expr"])
            labels = {label for name in names for label in LABELS[name]} | {"instance"}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


def test_each_expression_of_the_dashboard_is_of_the_chosen_clusters() -> None:
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    assert "cluster" in [variable["name"] for variable in dashboard["templating"]["list"]]
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            metrics = re.findall(r"htoolsd_\w+(?:\{[^}]*\})?", target["expr"])
            assert metrics
            assert all('{cluster=~"$cluster"' in metric for metric in metrics)


def series(values: Mapping[tuple[str, str], str]) -> list[dict[str, str]]:
    """Input of promtool: values of ``htoolsd_master`` by instance and cluster."""
    return [
        {"series": f"htoolsd_master{{instance='{instance}'{cluster}}}", "values": each}
        for (instance, cluster), each in values.items()
    ]


@needs_promtool
@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({("a", ",cluster='one'"): "1x5 _x25", ("b", ",cluster='two'"): "1x30"}, ["one"]),
        ({("a", ",cluster='one'"): "1x5 0x25", ("b", ",cluster='two'"): "1x30"}, ["one"]),
        ({("a", ",cluster='one'"): "1x5 0x25", ("c", ",cluster='one'"): "0x5 1x25"}, []),
        ({("a", ",cluster='one'"): "1x5 _x25", ("b", ",cluster='two'"): "1x5 _x25"}, ["one", "two"]),
        ({("a", ""): "1x5 _x25", ("c", ""): "0x30"}, [""]),
        ({("a", ""): "1x30"}, []),
        ({}, [""]),
    ],
)
def test_a_cluster_without_daemon_is_missed(
    tmp_path: Path, values: Mapping[tuple[str, str], str], missing: Sequence[str]
) -> None:
    alerts = [
        {
            "exp_labels": {"severity": "critical", **({"cluster": cluster} if cluster else {})},
            "exp_annotations": {
                "summary": f"no htoolsd on a master node is seen{cluster and ' in cluster '}{cluster}",
                "description": "Decisions are made without the daemon, or the metrics are not collected."
                " systemctl status htoolsd",
            },
        }
        for cluster in missing
    ]
    check_rule(tmp_path, "HtoolsdMissing", "1m", series(values), "20m", alerts)


@needs_promtool
def test_resource_that_is_full_soon_for_a_day_alarms(tmp_path: Path) -> None:
    values = {"memory": "2500000-3600x48", "cpus": "9000000x48", "disk": "2500000x20 9000000x28"}
    found = [
        {"series": f"htoolsd_seconds_until_full{{group='a',resource='{resource}'}}", "values": each}
        for resource, each in values.items()
    ]
    alert = {
        "exp_labels": {"severity": "warning", "group": "a", "resource": "memory"},
        "exp_annotations": {
            "summary": "memory of node group a may be full in 27d 22h 26m 40s",
            "description": "htoolsctl forecast shows the interval, and how many days it is based on.",
        },
    }
    check_rule(tmp_path, "HtoolsdFullSoon", "1h", found, "24h", [alert])


def check_rule(
    tmp_path: Path,
    name: str,
    interval: str,
    input_series: Sequence[object],
    at: str,
    alerts: Sequence[Mapping[str, Mapping[str, str]]],
) -> None:
    """Let promtool check which alerts of a rule fire at a time."""
    test = {
        "interval": interval,
        "input_series": input_series,
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": alerts}],
    }
    file = tmp_path / "test.yml"  # JSON is YAML
    file.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": [test]})
    )
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_rules_and_the_dashboards_expressions(tmp_path: Path) -> None:
    rules = [
        {"record": f"test:{number}", "expr": each.replace("$__rate_interval", "5m")}
        for number, each in enumerate(expressions())
    ]
    file = tmp_path / "dashboard.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    for checked in (RULES, file):
        done = subprocess.run(["promtool", "check", "rules", checked], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_load_of_instances_is_written_for_the_textfile_collector(tmp_path: Path) -> None:
    """Of processes that are no instance, or have ended meanwhile, nothing is written."""
    words = ("/usr/bin/kvm", "-m", "5", "-name", "web.example.com,debug-threads=on")
    for pid, command in (
        ("7", words),
        ("8", words[:-1]),
        ("9", ("find", "-name", "x")),
        ("10", ("kvm", "-name", "y")),
    ):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cmdline").write_text("\0".join(command) + "\0")
    process, ticks = tmp_path / "proc/7", os.sysconf("SC_CLK_TCK")
    (process / "stat").write_text(f"7 (a) b) S 1 2 3 4 5 6 7 8 9 10 {3 * ticks} {ticks // 2} 1 1\n")
    (process / "statm").write_text("900 10 5 1 0 1 0\n")
    (process / "io").write_text("rchar: 1\nread_bytes: 40\nwrite_bytes: 2\n")
    nics, tap = tmp_path / "run/ganeti/kvm-hypervisor/nic/web.example.com", tmp_path / "sys/class/net/tap0"
    nics.mkdir(parents=True)
    (nics / "0").write_text("tap0")
    (tap / "statistics").mkdir(parents=True)
    for way, count in (("rx", 5), ("tx", 6)):
        (tap / "statistics" / f"{way}_bytes").write_text(f"{count}\n")
    file = tmp_path / "ganeti.prom"
    subprocess.run([ROOT / "contrib/prometheus/ganeti-load", file, tmp_path], check=True)
    assert [line for line in file.read_text().splitlines() if line[0] != "#"] == [
        'ganeti_instance_cpu_seconds_total{name="web.example.com"} 3.5',
        f'ganeti_instance_memory_bytes{{name="web.example.com"}} {10 * os.sysconf("SC_PAGE_SIZE")}',
        'ganeti_instance_disk_bytes_total{name="web.example.com"} 42',
        'ganeti_instance_network_bytes_total{name="web.example.com"} 11',
    ]
