"""The check by the conventions of monitoring plugins."""

from math import inf
from typing import Any

import pytest

from ganeti_htools.cli import htoolsctl
from ganeti_htools.cli.ctl.check import METRICS, CheckState, Range, judge, line, read_threshold
from ganeti_htools.model.errors import DataError

STATUS: dict[str, Any] = {
    "cluster": {"master": True, "nodes": 3, "ages": {"configuration": 2.04, "live": 310.0}},
    "groups": [],
    "reload": {"error": None},
    "capacity": {"groups": [{"free_instances": 12}, {"free_instances": 7}]},
    "decisions": {"alone": 4},
    "attention": [],
}


def attention(kind: str, *names: str, severity: str = "warning", text: str = "") -> dict[str, Any]:
    return {"kind": kind, "text": text or f"text of {kind}", "names": list(names), "severity": severity}


def check(*thresholds: str, **changes: Any) -> str:
    """Return the line; thresholds are like ``-w age=5``."""
    ranges: Any = {}
    for each in thresholds:
        option, _, text = each.partition(" ")
        name, found = read_threshold(text)
        ranges.setdefault(name, {})[{"-w": CheckState.WARNING, "-c": CheckState.CRITICAL}[option]] = found
    return line(judge(STATUS | changes, ranges), ranges)


def test_ok_has_all_metrics() -> None:
    shown, _, data = check().partition(" | ")
    assert shown == "HTOOLSD OK - nothing needs attention"
    figures = {"free": 7}
    assert data == "age=310s;;;0 " + " ".join(
        f"{name}={figures.get(name, 0)};;;0" for name in METRICS if name != "age"
    )


def test_worst_line_under_attention_decides_and_comes_first() -> None:
    found = [attention("n1", "node2"), attention("down", "web", severity="critical", text="a|b\nc")]
    shown, _, data = check(attention=found).partition(" | ")
    assert shown == "HTOOLSD CRITICAL - a/b\\nc; text of n1"
    assert "n1=1;;;0" in data
    assert check(attention=found[:1]).startswith("HTOOLSD WARNING - text of n1 |")


def test_many_reasons_are_counted() -> None:
    found = [attention("node", f"node{number}", text=f"node{number}") for number in range(7)]
    assert " - node0; node1; node2; node3; node4; and 2 more | " in check(attention=found)


@pytest.mark.parametrize(
    ("thresholds", "found", "expected"),
    [
        (["-w n1=1", "-c n1=3"], ["a"], "OK"),
        (["-w n1=1", "-c n1=3"], ["a", "b"], "WARNING - nodes that fail N+1: 2"),
        (["-w n1=1", "-c n1=3"], ["a", "b", "c", "d"], "CRITICAL - nodes that fail N+1: 4"),
        (["-c n1=0"], ["a"], "CRITICAL - nodes that fail N+1: 1"),
        (["-c redundancy=0"], ["a"], "WARNING - text of n1"),
        (["-w age=5m"], [], "WARNING - the data about the cluster is 310 s old"),
        (["-w age=5m", "-c age=0.08h"], [], "CRITICAL - the data about the cluster is 310 s old"),
        (["-w age=10m"], [], "OK"),
        (["-w free=10:"], [], "WARNING - fewest free standard instances of a node group: 7"),
        (["-w free=10:", "-c free=7:"], [], "WARNING"),
        (["-w free=5:"], [], "OK"),
    ],
)
def test_thresholds_replace_the_severity_of_their_metric(
    thresholds: list[str], found: list[str], expected: str
) -> None:
    shown = check(*thresholds, attention=[attention("n1", *found)] if found else [])
    assert shown.startswith(f"HTOOLSD {expected}")


def test_thresholds_are_in_the_performance_data() -> None:
    assert " age=310s;300;10:1800;0 " in check("-w age=5m", "-c age=10s:0.5h")


def test_threshold_for_an_unknown_figure_is_unknown() -> None:
    unknown = {"groups": [{"free_instances": 12}, {"free_instances": None}]}
    assert check("-w free=5:", capacity=unknown).startswith("HTOOLSD UNKNOWN - not known yet: free | ")
    assert check(capacity={"groups": []}).startswith("HTOOLSD OK - ")
    assert check("-w free=5:", capacity=unknown, attention=[attention("node")]).startswith("HTOOLSD WARNING")


def test_fallbacks_of_long_ago_do_not_count() -> None:
    assert "fallback=0;" in check()
    assert "fallback=4;" in check(attention=[attention("fallback")])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"master": None}, "UNKNOWN - it is not known whether this node is the master"),
        ({"master": False, "nodes": None}, "OK - this is not the master node"),
        ({"nodes": None, "ages": {}}, "UNKNOWN - the cluster is not known yet | age=U;;;0 "),
    ],
)
def test_what_is_not_known_is_no_alarm(changes: dict[str, Any], expected: str) -> None:
    assert check(cluster=STATUS["cluster"] | changes).startswith(f"HTOOLSD {expected}")


def test_fault_is_an_alarm_on_any_node_and_before_the_cluster_is_known() -> None:
    unknown = STATUS["cluster"] | {"nodes": None, "ages": {}}
    found = [attention("luxi", severity="critical")]
    assert check(cluster=unknown, attention=found).startswith("HTOOLSD CRITICAL - text of luxi")
    assert check("-w n1=0", cluster=unknown, groups=None).startswith("HTOOLSD UNKNOWN")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1=2", Range("2", 0, 2, False)),
        ("n1=10:", Range("10:", 10, inf, False)),
        ("n1=:10", Range("0:10", 0, 10, False)),
        ("n1=~:10", Range("~:10", -inf, 10, False)),
        ("n1=@1:3", Range("@1:3", 1, 3, True)),
        ("age=1.5min", Range("90", 0, 90, False)),
        ("age=1m:2d", Range("60:172800", 60, 172800, False)),
    ],
)
def test_reads_ranges(text: str, expected: Range) -> None:
    name, found = read_threshold(text)
    assert (name, found) == (text.partition("=")[0], expected)
    assert [found.alarms(value) for value in (found.low - 1, found.low, found.high, found.high + 1)] == [
        each is not expected.inside for each in (found.low > -inf, False, False, found.high < inf)
    ]


@pytest.mark.parametrize(
    "text", ["", "n1", "n1=", "n1=x", "n1=-1", "n1=5m", "age=5x", "age=m", "n1=3:2", "n1=nan", "speed=3"]
)
def test_refuses_other_thresholds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="expected"):
        read_threshold(text)
    with pytest.raises(SystemExit) as ended:
        htoolsctl.main(["check", "-w", text])
    assert ended.value.code == CheckState.UNKNOWN
    assert "expected" in capsys.readouterr().err


def test_daemon_that_cannot_be_asked_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert htoolsctl.main(["--socket", "/nonexistent", "check"]) == CheckState.UNKNOWN
    assert capsys.readouterr() == (
        "HTOOLSD UNKNOWN - /nonexistent: No such file or directory; is htoolsd running?\n",
        "",
    )
