"""Decisions and plans in words."""

from typing import Any

import pytest

from ganeti_htools.cli.ctl import history

DECIDED: dict[str, Any] = {
    "time": 0.0,
    "kind": "decision",
    "request": "allocate",
    "instances": ["web"],
    "places": [["node2", "node1"]],
    "nodes": ["node1", "node2"],
    "score": 0.25,
    "refusal": None,
    "ms": 1.25,
    "ages": {"live": 3.0},
    "ranking": [
        {
            "instance": "web",
            "groups": [
                {"group": "rack1", "nodes": ["node2", "node1"], "score": 0.25},
                {"group": "rack2", "nodes": ["node4", "node3"], "score": 0.5},
            ],
        }
    ],
}
PLANNED: dict[str, Any] = {
    "time": 0.0,
    "kind": "plan",
    "id": "cafe",
    "tool": "hbal",
    "by": {"uid": 0, "pid": 1},
    "groups": ["rack1"],
    "state": "failed",
    "error": "job 7",
    "moves": [{"status": "success"}, {"status": "error"}],
}


def test_a_line_for_each() -> None:
    decided, refused, planned = history.lines(
        [DECIDED, {**DECIDED, "places": [], "score": None, "refusal": "no room"}, PLANNED]
    ).splitlines()
    assert decided.endswith("  allocate web => node2:node1 (score 0.25000000)")
    assert refused.endswith("  allocate web refused: no room")
    assert planned.endswith("  plan cafe of hbal by root in rack1 is failed, 1 of 2 moves made: job 7")
    nowhere = history.lines([{**PLANNED, "groups": []}])
    assert "  plan cafe of hbal by root is failed, " in nowhere
    by = history.lines([{**PLANNED, "policy": "rebalance"}])
    assert "  plan cafe of hbal by policy rebalance in rack1 is failed" in by
    doers = {"executed_by": {"uid": 0, "pid": 2}, "cancelled_by": {"uid": 4_000_000_000, "pid": 3}}
    line = history.lines([{**PLANNED, "policy": "rebalance", **doers}])
    assert " by policy rebalance, executed by root, cancelled by user 4000000000 in rack1 is failed" in line
    assert " by root, cancelled by user 4000000000 in rack1 " in history.lines([{**PLANNED, **doers}])
    assert "  test of allocate web => node2:node1" in history.lines([{**DECIDED, "test": True}])
    assert history.lines([]) == "no entries"


@pytest.mark.parametrize(
    ("uid", "claimant", "ending"),
    [
        (0, "job", ""),
        (0, "hand", "; decided by root"),
        (0, None, "; decided by root"),
        (4_000_000_000, "job", "; decided by user 4000000000"),
    ],
)
def test_names_who_decided_unless_ganeti_did(uid: int, claimant: str | None, ending: str) -> None:
    line = history.lines([{**DECIDED, "by": {"uid": uid, "pid": 1}, "claimant": claimant}])
    assert line.endswith(f"(score 0.25000000){ending}")


def test_names_who_called() -> None:
    arguments = {"provider": "node1", "total": 4, "max_unit": None}
    entry = {"method": "set_inventory", "arguments": arguments, "by": {"uid": 0, "pid": 1}}
    line = history.lines([{"time": 0.0, "kind": "call", **entry}])
    assert line.endswith("  set_inventory provider=node1 total=4 max_unit=null; called by root")


def test_why() -> None:
    told = {
        "instance": "web",
        "group": "rack1",
        "nodes": ["node2", "node1"],
        "score": 1.0,
        "others": [
            {"nodes": ["node3"], "score": 0.5},
            {"nodes": ["node5"], "score": 1.0 + 1e-12},
            {"nodes": ["node4"], "score": 1.5},
        ],
        "tried": 5,
        "fit": 3,
        "entry": DECIDED,
    }
    lines = history.why(told).splitlines()
    assert lines[0] == "web is on node2:node1 in group rack1."
    assert lines[1].startswith("It was placed there by: ")
    assert lines[2:] == [
        "The decision took 1.2 ms; data: live 3 s old.",
        "  next: rack2 node4:node3 (score 0.50000000)",
        "The score of the group is now 1.00000000.",
        "Balancing considers 5 moves of it: 3 possible. The best:",
        "  to node3: score 0.50000000, 0.50000000 better",
        "  to node5: score 1.00000000, as good",
        "  to node4: score 1.50000000, 0.50000000 worse",
    ]
    none = {**told, "others": [], "fit": 0}
    assert history.why(none).splitlines()[-1] == "Balancing considers 5 moves of it: 0 possible."
    assert history.why({**none, "tried": 0}).splitlines()[-1] == "Balancing does not move this instance."
    assert history.why({**told, "entry": None}).splitlines()[1] == (
        "The history has no decision or plan that placed it there."
    )
