"""The declarations of metrics, and their table in the documents."""

import re

from htoolsd.metrics.declarations import METRICS
from tests.support.programs import ROOT

LABELS = {"version", "kind", "severity", "outcome", "group", "component", "type", "state", "policy", "mode"}
LABELS |= {"cluster_name", "resource", "figure", "verdict"}


def test_names_follow_the_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch("htoolsd_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not re.search("_(ms|mib|kib|minutes|percent)(_|$)", metric.name)
        assert metric.doc.endswith(".")


def test_labels_name_no_instances_and_only_load_names_nodes() -> None:
    assert {label for metric in METRICS for label in metric.labels} == LABELS | {"node"}


def test_documents_list_each_metric_with_its_labels() -> None:
    text = (ROOT / "docs/metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(htoolsd_\w+)` \| ([^|]*) \|", text, re.MULTILINE)
    expected = [(metric.name, " ".join(f"`{label}`" for label in metric.labels)) for metric in METRICS]
    assert rows == expected
