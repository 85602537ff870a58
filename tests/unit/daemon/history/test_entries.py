"""What is kept of decisions and plans."""

import json
from typing import Any

import pytest

from ganeti_htools.deciding.summary import DecisionSummary
from htoolsd.history.entries import Called, Decided, placed_at, plan_details
from tests.support import messages

WEB = DecisionSummary("allocate", ["web"], [["node2", "node1"]], ["group1"], 0.25)


def plan(*statuses: str) -> Any:
    jobs = [
        {"instance": "web", "move": "failover", "from": ["node1"], "to": [f"node{number}"], "status": status}
        for number, status in enumerate(statuses, 2)
    ]
    run = {"jobs": [*jobs, dict.fromkeys(jobs[0])], "not_submitted": [[{**jobs[0], "instance": "mail"}]]}
    facts = dict.fromkeys(
        ("id", "tool", "by", "executed_by", "cancelled_by", "groups", "state", "error", "score", "cost")
    )
    return {"kind": "plan", **plan_details({**facts, "execution": run})}


def test_a_decision() -> None:
    ranking, by = [{"instance": "web", "groups": []}], {"uid": 7, "pid": 1}
    told = Decided(3.0, WEB, ranking, 1.5, {"live": 2.04}, "hand", by).to_json()
    assert told == {
        "time": 3.0,
        "kind": "decision",
        "id": told["id"],
        "request": "allocate",
        "instances": ["web"],
        "groups": ["group1"],
        "score": 0.25,
        "refusal": None,
        "nodes": ["node1", "node2"],
        "places": [["node2", "node1"]],
        "ranking": [{"instance": "web", "groups": []}],
        "ms": 1.5,
        "ages": {"live": 2.0},
        "test": False,
        "claimant": "hand",
        "by": {"uid": 7, "pid": 1},
        "program": None,
        "asked": None,
    }
    assert placed_at(told, "web") == ["node2", "node1"]
    assert placed_at(told, "mail") is None


def test_refused_request_for_an_instance_is_kept_without_the_cluster() -> None:
    message = {"request": messages.allocate("web") | {"type": "allocate"}, "nodes": {}}
    told = Decided(3.0, WEB, [], 1.5, {}, refused=messages.encode(message).encode()).to_json()
    assert json.loads(told["asked"])["name"] == "web"
    for damaged in (b"", b"{", b"\xff", b"{}"):
        assert Decided(3.0, WEB, [], 1.5, {}, refused=damaged).to_json()["asked"] is None


def test_test_of_a_decision_places_nothing() -> None:
    told = Decided(3.0, WEB, [], 1.5, {}, claimant=None).to_json()
    assert (told["test"], placed_at(told, "web")) == (True, None)


def test_partial_evacuation_places_no_single_instance() -> None:
    some = DecisionSummary("node-evacuate", ["web", "mail"], [["node2"]], ["group1"], None, "mail: no room")
    assert placed_at(Decided(3.0, some, [], 1.0, {}).to_json(), "web") is None


def test_a_call_has_the_names_in_its_arguments() -> None:
    arguments = {"provider": "cluster/node1", "consumer": "web", "allocations": {"x" * 1000: 1}, "total": 4}
    told = Called(3.0, "claim", arguments, {"uid": 7, "pid": 1}).to_json()
    assert told == {
        "time": 3.0,
        "kind": "call",
        "method": "claim",
        "arguments": {"provider": "cluster/node1", "consumer": "web", "total": 4},
        "by": {"uid": 7, "pid": 1},
        "instances": ["web"],
        "nodes": ["node1"],
    }
    assert placed_at(told, "web") is None
    assert Called(3.0, "run", {"provider": 5}, None).to_json()["nodes"] == []


def test_a_plan() -> None:
    told = plan("success", "error")
    assert told["instances"] == ["mail", "web"]
    assert told["nodes"] == ["node1", "node2", "node3"]
    assert [move["status"] for move in told["moves"]] == ["success", "error", "not submitted"]


@pytest.mark.parametrize(
    ("statuses", "nodes"),
    [(("success",), ["node2"]), (("success", "success"), ["node3"]), (("success", "error"), None)],
)
def test_finds_where_a_plan_brought_an_instance(statuses: tuple[str, ...], nodes: list[str] | None) -> None:
    assert placed_at(plan(*statuses), "web") == nodes
    assert placed_at(plan(*statuses), "mail") is None
