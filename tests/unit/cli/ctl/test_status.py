import time
from typing import Any

import pytest

from ganeti_htools import streams
from ganeti_htools.cli.ctl import status
from ganeti_htools.model.wording import duration

STATUS: dict[str, Any] = {
    "version": "1.0",
    "pid": 7,
    "uptime_s": 150,
    "socket": "/run/s",
    "connections": 2,
    "luxi": {"state": "connected", "since": 0.0, "error": None, "path": "/run/luxi"},
    "cluster": {"nodes": 3, "instances": 5, "ages": {"live": 4}, "late": False, "silent": []},
    "groups": None,
    "claims": {"active": True, "living": 0},
    "plans": {},
    "policies": [],
    "decisions": {
        **dict.fromkeys(
            ("served", "unsatisfied", "failed", "refused", "abandoned", "given_up", "broken", "alone"), 0
        ),
        "last_alone": None,
        "waiting": 1,
        "running": 0,
        "running_ms": None,
        "lost": 0,
        "last_ms": None,
        "median_ms": None,
        "slowest_ms": None,
        "kept_nodes": 3,
        "kept_instances": 5,
    },
    "memory_mib": 99.6,
}


def told(**changes: Any) -> dict[str, str]:
    """The lines of a status by their first word; of a part of it only some figures are changed."""
    changed = {
        name: part | changes.get(name, {}) if isinstance(part, dict) else changes.get(name, part)
        for name, part in STATUS.items()
    }
    first, *lines = status.status(changed).splitlines()
    assert first == "htoolsd 1.0, process 7, up 2 min"
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}


def test_a_daemon_with_nothing_to_tell() -> None:
    lines = told()
    assert list(lines) == ["socket", "luxi", "cluster", "decisions", "now", "memory"]
    assert lines["socket"] == "/run/s (2 connected)"
    assert lines["cluster"] == "3 nodes, 5 instances; live 4 s old"
    assert lines["decisions"].startswith("0 served, ")
    assert "0 given up" in lines["decisions"]
    assert lines["now"] == "1 waiting, 0 running"
    assert lines["memory"] == "100 MiB, with 3 nodes and 5 instances of the last request"


def test_the_health_of_groups() -> None:
    def group(name: str, health: str) -> dict[str, Any]:
        return {"name": name, "health": health, "why": []}

    groups = [group("a", "healthy"), group("b", "unhealthy"), group("c", "healthy"), group("d", "unhealthy")]
    assert told(groups=groups)["groups"] == "2 healthy, 2 unhealthy (b, d)"
    assert "groups" not in told(groups=None)


def test_a_cluster_that_is_not_as_it_should_be() -> None:
    assert told(cluster={"nodes": None})["cluster"] == "not known yet"
    lines = told(cluster={"late": True, "silent": ["a", "b"]})
    assert lines["cluster"].endswith(" (late)")
    assert lines["silent"] == "a, b: no report; counted as offline"
    luxi = told(luxi={"state": "away", "error": "gone", "since": time.time() - 130})["luxi"]
    assert luxi == "away for 2 min: gone (/run/luxi)"


def test_what_is_there_only_sometimes() -> None:
    lines = told(
        plans={"planned": 2, "done": 1},
        decisions={
            "alone": 3,
            "last_alone": time.time() - 130,
            "running": 1,
            "running_ms": 5000,
            "lost": 1,
            "last_ms": 1.25,
            "median_ms": 2.0,
            "slowest_ms": 3.0,
        },
    )
    assert lines["plans"] == "2 planned, 1 done"
    assert lines["fallback"] == "3 decided without the daemon, the last 2 min ago"
    assert lines["now"] == "1 waiting, 1 running for 5 s, 1 given up but still running"
    assert lines["time"] == "last 1.2 ms, median 2.0 ms, slowest 3.0 ms"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
    assert status.ages({"live": seconds, "configuration": 3}) == f"live {words} old, configuration 3 s old"


def test_methods_with_their_arguments() -> None:
    method = {
        "name": "decide",
        "version": 1,
        "role": "act",
        "doc": "word " * 30,
        "arguments": {"request": "the text"},
    }
    first, second, *_, last = status.methods([method]).splitlines()
    assert first.startswith("decide 1 act word word")
    assert len(first) <= 100
    assert second.startswith(" " * 12 + "word")
    assert last == "  request     the text"


def test_storage_is_told_of_where_it_is_asked_for() -> None:
    asked = {"mode": "when-needed", "needed": False, "complete": False, "nodes": 0, "error": None}
    for changes, line in (
        ({"mode": "never"}, None),
        ({}, "when-needed: not needed so far"),
        ({"needed": True}, "units of 0 nodes known, jobs ask the others"),
        ({"needed": True, "nodes": 7}, "units of 7 nodes known, jobs ask the others"),
        (
            {"needed": True, "nodes": 9, "complete": True, "error": "a reason"},
            "units of 9 nodes known; a reason",
        ),
    ):
        assert told(cluster={"storage": asked | changes}).get("storage") == line


def test_begins_with_what_needs_attention() -> None:
    found = [{"kind": "n1", "text": f"group {name}: bad", "command": f"hbal -D -G {name}"} for name in "ab"]
    assert status.status({"attention": found, **STATUS}).splitlines()[:3] == [
        "ATTENTION  group a: bad; next: hbal -D -G a",
        "ATTENTION  group b: bad; next: hbal -D -G b",
        "htoolsd 1.0, process 7, up 2 min",
    ]


def test_next_command_gets_a_line_of_its_own_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "width", lambda: 40)
    found = [{"kind": "n1", "text": "group rack1: all of it", "command": "hbal -D -G rack1"}]
    assert status.status({"attention": found, **STATUS}).splitlines()[:2] == [
        "ATTENTION  group rack1: all of it",
        "           next: hbal -D -G rack1",
    ]


def test_notifications_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    off = {"way": None, "waiting": 0, "dropped": 0, "delivered": None, "error": None}
    assert status.notifications(off) == "off: [notify] has neither program nor url"
    assert status.notifications(off | {"way": "/alarm"}) == "/alarm"
    failing = {"way": "host", "waiting": 1, "dropped": 2, "delivered": 400.0, "error": "HTTP status 500"}
    expected = "host, last call 10 min ago, 1 event waiting, 2 dropped; not delivered: HTTP status 500"
    assert status.notifications(failing) == expected
    assert "notify" not in status.status({**STATUS, "notify": off})
    assert f"\n  notify     {expected}\n" in status.status({**STATUS, "notify": failing})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("/alarm", 0, "", None), "delivered to /alarm, exit status 0"),
        (("/alarm", 0, "sent", None), "delivered to /alarm, exit status 0: sent"),
        (("host", 204, "", None), "delivered to host, HTTP status 204"),
        (("host", None, "", "host: refused"), "not delivered: host: refused"),
    ],
)
def test_outcome_of_a_test_notification(answer: tuple[Any, ...], expected: str) -> None:
    keys = ("way", "status", "line", "error")
    assert status.notification_outcome(dict(zip(keys, answer, strict=True))) == expected


def test_policies_in_a_line() -> None:
    last = {
        "remedy": "power down",
        "group": "rack1",
        "outcome": "skipped",
        "reason": "jobs have not ended: 1",
    }
    squeeze = {
        "name": "squeeze",
        "mode": "act",
        "health": "healthy",
        "error": None,
        "last": last | {"time": time.time() - 130},
    }
    off = squeeze | {"name": "rebalance", "mode": "off", "last": None}
    assert "policies" not in told()
    assert told(policies=[off])["policies"] == "rebalance off"
    expected = "squeeze act (power down skipped in rack1 2 min ago: jobs have not ended: 1); rebalance off"
    assert told(policies=[squeeze, off])["policies"] == expected
    loud = squeeze | {"health": "switched off", "error": "job 1 failed", "last": None}
    assert told(policies=[loud])["policies"] == "squeeze act, switched off"


LEDGER = {"database": "/l", "error": None, "providers": 4, "claims": 2, "over_capacity": 0, "conflicts": 1}


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"lag_s": 0.0, "following": None}, ""),
        ({"lag_s": 3.0, "following": None}, ""),
        ({"lag_s": 130.0, "following": None}, "; lags by 2 min"),
        ({"lag_s": 3.0, "following": "it is full"}, "; lags by 3 s: it is full"),
        ({"lag_s": None, "following": None}, "; does not have the cluster yet"),
        ({"lag_s": None, "following": "locked"}, "; does not have the cluster yet: locked"),
    ],
)
def test_how_far_the_ledger_is_behind(figures: dict[str, Any], words: str) -> None:
    ledger = LEDGER | {"written": 1} | figures
    lines = status.status(STATUS | {"ledger": ledger}).splitlines()
    (line,) = (line for line in lines if line.startswith("  ledger"))
    assert line == f"  ledger     4 providers, 2 claims, 1 conflict (/l){words}"
