"""The gist of a decision says what its answer says."""

from typing import Any

import orjson
import pytest

from ganeti_htools.deciding.decision import respond
from ganeti_htools.deciding.summary import MAX_NAMED, DecisionSummary
from ganeti_htools.model.options import PlacementOptions
from tests.support import messages
from tests.support.clusters import MOVABLE, Json, Shape, cluster

DATA = cluster(1, Shape(nodes=5, instances=20, templates=MOVABLE, fill=0.1))
DRBD = next(name for name, row in DATA["instances"].items() if row["disk_template"] == "drbd")
NODE = DATA["instances"][DRBD]["nodes"][0]
(GROUP,) = (group["name"] for group in DATA["nodegroups"].values())
MANY = [messages.allocate(f"new{number}", disks=[1024]) for number in range(MAX_NAMED + 3)]


def decided(request: Json) -> tuple[DecisionSummary, Any]:
    decision = respond(messages.encode(messages.message(DATA, request)).encode(), PlacementOptions())
    return decision.summary, orjson.loads(decision.answer)


def test_summary_of_a_placed_instance() -> None:
    gist, answer = decided(messages.allocate("new"))
    assert gist.to_json() == {
        "request": "allocate",
        "instances": ["new"],
        "nodes": [answer["result"]],
        "groups": [GROUP],
        "score": gist.score,
    }
    assert f"score: {gist.score:.8f}," in answer["info"]


def test_summary_of_a_refused_instance() -> None:
    gist, answer = decided(messages.allocate("new", memory=1 << 30))
    assert answer["info"] == f"Request failed: {gist.refusal}"
    assert gist.to_json().keys() == {"request", "instances", "refusal"}


def test_only_the_first_instances_are_named() -> None:
    gist, answer = decided(
        messages.multi_allocate([*MANY, messages.allocate("big", memory=1 << 30, group_name=GROUP)])
    )
    told = gist.to_json()
    assert gist.nodes == [nodes for _, nodes in answer["result"][0]]
    assert len(told["nodes"]) == len(told["instances"]) == MAX_NAMED
    assert told["more_instances"] == 4
    assert told["refusal"].startswith("big: ")


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        ("relocate", messages.relocate(DATA, DRBD)),
        ("node-evacuate", messages.node_evacuate(DATA, NODE, "primary-only")),
        ("change-group", messages.change_group([DRBD])),
    ],
)
def test_every_kind_of_request_has_a_summary(kind: str, request_: Json) -> None:
    gist, answer = decided(request_)
    assert gist.request == kind
    assert DRBD in gist.instances
    assert gist.to_json()
    if kind == "relocate":
        assert [nodes[-1] for nodes in gist.nodes] == answer["result"]
    if kind == "node-evacuate":
        assert gist.nodes == [nodes for _, _, nodes in answer["result"][0]]
