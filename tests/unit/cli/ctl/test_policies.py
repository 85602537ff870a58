"""Policies in words."""

from typing import Any

from ganeti_htools.cli.ctl import policies

DECIDED: dict[str, Any] = {
    "time": 0.0,
    "policy": "rebalance",
    "remedy": "rebalance",
    "trigger": "timer",
    "group": "rack1",
    "outcome": "begun",
    "reason": "1 moves, 500 MiB",
    "score": {"before": 3.0, "after": 1.5},
    "plan": "beef",
}
POLICY: dict[str, Any] = {
    "name": "rebalance",
    "mode": "act",
    "last": [DECIDED],
    "next": None,
    "left": {"moves": 3, "mib": 5},
    "failed": 0,
    "error": None,
    "off": False,
    "unknown": {},
}
GROUP: dict[str, Any] = {
    "group": "rack1",
    "score": {"before": 3.0, "after": 1.5},
    "n1": 2,
    "held": [{"condition": "jobs", "reason": "jobs have not ended: 1"}],
    "moves": [{"instance": "web", "from": ["node1"], "to": ["node2"]}],
    "mib": 500,
    "remedy": "rebalance",
    "powered": [],
    "repairs": [],
}


def test_a_decision() -> None:
    told = "rebalance in rack1 (timer) begun: 1 moves, 500 MiB, plan beef (score 3.00000000 => 1.50000000)"
    assert policies.line(DECIDED) == told
    about_none = DECIDED | {"group": "", "plan": None, "score": {"before": None, "after": None}}
    assert policies.line(about_none) == "rebalance (timer) begun: 1 moves, 500 MiB"


def test_names_without_an_object_are_listed() -> None:
    shown = policies.summaries([POLICY | {"unknown": {"never": ["n1", "n2"]}}])
    assert "  never: no such name: n1, n2" in shown.splitlines()


def test_a_policy_that_is_switched_off() -> None:
    failed = POLICY | {"failed": 3, "error": "job 1 failed", "off": True, "last": []}
    assert policies.summaries([failed]).splitlines() == [
        "rebalance: switched off after 3 failed plans; 3 moves and 5 MiB left of the day",
        "  failed in a row: 3, the last one: job 1 failed",
    ]


def test_what_it_would_do() -> None:
    lines = policies.explanation(POLICY | {"groups": [GROUP]}).splitlines()
    assert lines[0] == "rebalance: act; 3 moves and 5 MiB left of the day"
    assert lines[2:] == [
        "Now in rack1: score 3.00000000, 2 nodes not N+1",
        "  blocked by jobs: jobs have not ended: 1",
        "  1 move, 500 MiB, score 3.00000000 => 1.50000000:",
        "    web: node1 => node2",
    ]


def test_what_comes_of_a_wish() -> None:
    told = {"master": True, "mode": "act"}
    assert policies.considered("rebalance", told) == "rebalance is being considered"
    assert policies.considered("rebalance", told | {"mode": "off"}) == "rebalance is off"
    elsewhere = policies.considered("rebalance", told | {"master": False})
    assert elsewhere == "this is not the master node, so nothing is done"


def test_a_policy_that_does_several_things_says_which() -> None:
    down = DECIDED | {"policy": "squeeze", "remedy": "power down", "outcome": "skipped", "reason": "jobs"}
    assert policies.line(down | {"plan": None}).startswith(
        "squeeze (power down) in rack1 (timer) skipped: jobs"
    )
    group = GROUP | {"remedy": "power down", "powered": ["node3", "node4"], "n1": 0}
    lines = policies.explanation(POLICY | {"name": "squeeze", "groups": [group]}).splitlines()
    assert lines[2] == "Now in rack1, power down: score 3.00000000"
    assert "  power down: node3, node4" in lines


def test_repairs_are_listed() -> None:
    group = GROUP | {"remedy": "repair", "repairs": ["failover of web"], "moves": []}
    lines = policies.explanation(POLICY | {"name": "repair", "groups": [group]}).splitlines()
    assert lines[-1] == "  failover of web"
