"""Decisions and plans in words."""

from typing import Any

from ganeti_htools.cli.report import history

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
    assert planned.endswith("  plan cafe of hbal in rack1 is failed, 1 of 2 moves made: job 7")
    assert history.lines([]) == "nothing"


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
    assert lines[1].startswith("It was brought there: ")
    assert lines[2:] == [
        "That took 1.2 ms; live 3 s old.",
        "  next: rack2 node4:node3 (score 0.50000000)",
        "As it is now the score of the group is 1.00000000.",
        "Of 5 moves that balancing may make of it 3 are possible; the best:",
        "  to node3: score 0.50000000, 0.50000000 better",
        "  to node5: score 1.00000000, as good",
        "  to node4: score 1.50000000, 0.50000000 worse",
    ]
    none = {**told, "others": [], "fit": 0}
    assert history.why(none).splitlines()[-1] == "Of 5 moves that balancing may make of it 0 are possible."
    assert history.why({**none, "tried": 0}).splitlines()[-1] == "Balancing does not move it."
    assert history.why({**told, "entry": None}).splitlines()[1] == (
        "What brought it there is not in the history."
    )
