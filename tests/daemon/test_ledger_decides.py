"""Inventories set by administrators limit decisions: real programs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.planning import ctl, following
from tests.support.clusters import Json, Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.programs import Daemon, wait_until
from tests.support.rows import rows

DATA = cluster(5, Shape(nodes=4, instances=0))
NODE = sorted(DATA["nodes"])[1]
GPU = "htools:resource:CUSTOM_GPU:1"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with following(tmp_path, rows(DATA)) as (daemon, _):
        wait_until(lambda: daemon.status()["ledger"]["behind_s"] is not None)
        yield daemon


def say(daemon: Daemon, node: str, name: str, *figures: str) -> None:
    """Set an inventory; return when decisions count it."""
    before = daemon.status()["cluster"]["generations"].get("ledger", 0)
    assert ctl(daemon, "inventory", "set", node, name, *figures).returncode == 0
    wait_until(lambda: daemon.status()["cluster"]["generations"].get("ledger", 0) > before)


def decide(
    daemon: Daemon,
    directory: Path,
    name: str,
    memory: int = 128,
    tags: tuple[str, ...] = (),
    vcpus: int = 1,
) -> Json:
    path = directory / name
    request = allocate(name, "plain", memory=memory, tags=tags, vcpus=vcpus)
    path.write_text(encode(message(DATA, request)))
    done = ctl(daemon, "decide", path, "--json", "--claim", "--no-capacity-checks=")
    answer: Json = json.loads(done.stdout)
    return answer


def test_instances_go_where_their_custom_class_is(daemon: Daemon, tmp_path: Path) -> None:
    say(daemon, NODE, "CUSTOM_GPU", "--total=2", "--reserved=1")
    assert decide(daemon, tmp_path, "new1.example.org", tags=(GPU,))["result"] == [NODE]
    assert "CUSTOM_GPU" in ctl(daemon, "allocations", "new1.example.org").stdout
    refused = decide(daemon, tmp_path, "new2.example.org", tags=(GPU,))
    assert not refused["success"]
    assert "CUSTOM_GPU" in refused["info"]
    assert decide(daemon, tmp_path, "new3.example.org")["success"]


def test_reserved_memory_is_not_allocated(daemon: Daemon, tmp_path: Path) -> None:
    free = min(node["free_memory"] for node in DATA["nodes"].values())
    others = [name for name in DATA["nodes"] if name != NODE]
    for name in others:
        say(daemon, name, "MEMORY_MB", f"--reserved={DATA['nodes'][name]['total_memory']}")
    wanted = min(free // 2, 1024)
    assert decide(daemon, tmp_path, "new1.example.org", wanted)["result"] == [NODE]


def test_instance_is_refused_where_nodes_limit_its_virtual_cpus(daemon: Daemon, tmp_path: Path) -> None:
    for name in DATA["nodes"]:
        say(daemon, name, "VCPU", "--max-unit=2")
    refused = decide(daemon, tmp_path, "new1.example.org", vcpus=4)
    assert not refused["success"]
    assert "most missing: VCPU for one instance (max_unit); closest: " in refused["info"]
    assert decide(daemon, tmp_path, "new2.example.org", vcpus=2)["success"]
    assert "beyond" not in ctl(daemon, "allocations", "new2.example.org").stdout
