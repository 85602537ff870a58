"""The generator makes what it says: clusters and requests that Debian's hail understands and grants."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import TIGHT, Shape, cluster, uuid_of
from tests.support.messages import (
    allocate,
    allocate_secondary,
    change_group,
    encode,
    message,
    multi_allocate,
    node_evacuate,
    random_allocate,
    relocate,
    stream,
)
from tests.support.oracle import Oracle
from tests.support.text_format import text

pytestmark = pytest.mark.oracle

ALL_TAGS = ("exclusion", "location", "migration", "desired")
SHAPES = {
    "default": Shape(),
    "groups": Shape(nodes=9, groups=3, policies=True, networks=True),
    "tags": Shape(nodes=8, tags=ALL_TAGS),
    "drained": Shape(nodes=8, drained=2),
    "offline": Shape(nodes=8, offline=1),
    "tight": Shape(nodes=8, fill=TIGHT),
    "exclusive": Shape(templates={"plain": 1}, exclusive_storage=True),
    "forthcoming": Shape(forthcoming=0.2),
}


def decide(oracle: Oracle, request: Path, content: dict[str, Any], *options: str) -> dict[str, Any]:
    request.write_text(encode(content))
    done = subprocess.run([oracle.hail, request, *options], capture_output=True, text=True, check=True)
    assert "inconsistent data" not in done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_request_and_text_describe_the_same_cluster(oracle: Oracle, tmp_path: Path, shape: Shape) -> None:
    data = cluster(1, shape)
    decide(oracle, tmp_path / "request", message(data, allocate("new")), "-S", str(tmp_path / "saved"))
    assert text(data) == (tmp_path / "saved.pre-ialloc").read_text()


@pytest.mark.parametrize("seed", range(5))
def test_usual_requests_are_granted(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    templates = {"drbd": 6, "plain": 2, "ext": 2}
    data = cluster(seed, Shape(nodes=10, instances=60, groups=2, networks=True, templates=templates))
    names: dict[str, list[str]] = {}
    for name, instance in data["instances"].items():
        if data["nodes"][instance["nodes"][0]]["group"] == uuid_of("group1"):
            names.setdefault(instance["disk_template"], []).append(name)
    requests = [
        *(allocate("new", template) for template in ("drbd", "plain", "file", "ext", "diskless")),
        allocate("new", group_name="group2", networks=[uuid_of("net2")]),
        multi_allocate(
            random_allocate(rng, f"new{i}", template) for i, template in enumerate(["drbd", "ext"])
        ),
        allocate_secondary(names["plain"][0]),
        relocate(data, names["drbd"][0]),
        relocate(data, names["ext"][0]),
    ]
    for request in requests:
        answer = decide(oracle, tmp_path / "request", message(data, request))
        assert answer["success"], (request, answer["info"])
    node = data["instances"][names["drbd"][0]]["nodes"][1]
    for request in (
        change_group(names["drbd"]),
        change_group(names["drbd"], [uuid_of("group2")]),
        node_evacuate(data, node, "secondary-only"),
    ):
        answer = decide(oracle, tmp_path / "request", message(data, request))
        assert answer["success"], (request, answer["info"])
        assert answer["info"].startswith("Request successful: 0 instances failed to move and ")
        assert "and 0 were moved" not in answer["info"]


def test_every_request_of_a_stream_is_granted(oracle: Oracle, tmp_path: Path) -> None:
    requests = stream(1, Shape())
    content = next(requests)
    for i in range(8):
        assert len(content["instances"]) == 50 + i
        answer = decide(oracle, tmp_path / "request", content)
        assert answer["success"], answer["info"]
        content = requests.send(answer["result"])
