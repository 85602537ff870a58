"""The alert rules and the dashboard name metrics and labels that exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from htoolsd.metrics.declarations import METRICS
from tests.support.programs import ROOT

RULES = ROOT / "contrib/prometheus/htoolsd.rules.yml"
DASHBOARD = ROOT / "contrib/grafana/htoolsd.json"
LABELS = {name: {*metric.labels, "le"} for metric in METRICS for name in metric.sample_names}


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


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of Debian's package prometheus")
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
