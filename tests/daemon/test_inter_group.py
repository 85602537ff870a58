"""Evacuation into another group through the executable, by the daemon and without it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import Shape, cluster, uuid_of
from tests.support.messages import encode, message, node_evacuate
from tests.support.programs import Daemon, Finished, executable, running, wait_until
from tests.support.rows import generated
from tests.support.simulators import simulator

SHAPE = Shape(nodes=9, instances=30, groups=3, templates={"ext": 1}, fill=0.3)


NETWORK = uuid_of("net")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("daemon")
    with simulator(place, generated(4, SHAPE)), running(place) as daemon:
        wait_until(lambda: daemon.status()["cluster"]["nodes"])
        yield daemon


def crowded() -> tuple[Any, Any]:
    """A cluster with a node in a group that is full, and the request to evacuate it.

    As Ganeti sends it, it has the networks of groups, but not those of instances.
    """
    data = cluster(4, SHAPE)
    for group in data["nodegroups"].values():
        group["networks"] = [NETWORK] if group["name"] != "group2" else []
    first = {data["nodes"][row["nodes"][0]]["group"]: row["nodes"][0] for row in data["instances"].values()}
    node = next(first[uuid] for uuid, group in data["nodegroups"].items() if group["name"] == "group1")
    for each in data["nodes"].values():
        if each["group"] == data["nodes"][node]["group"]:
            each["free_memory"] = 100
    return data, node_evacuate(data, node, "primary-only")


def asked(daemon: Path, tmp_path: Path, data: Any, request: Any, *parameters: str) -> Any:
    path = tmp_path / "request"
    path.write_text(encode(message(data, request)))
    finished: Finished = executable(daemon, path, *parameters)
    assert finished.returncode == 0
    return json.loads(finished.stdout)


def test_evacuation_leaves_the_group_when_it_is_full(daemon: Daemon, tmp_path: Path) -> None:
    data, request = crowded()
    usual = asked(daemon.socket, tmp_path, data, request)
    assert [name for name, _ in usual["result"][1]] == request["instances"]
    ours = asked(daemon.socket, tmp_path, data, request, "--inter-group=")
    assert [name for name, _, _ in ours["result"][0]] == request["instances"]
    assert {group for _, group, _ in ours["result"][0]} == {"group2", "group3"}
    assert f"; {len(request['instances'])} left their group: " in ours["info"]
    # The daemon knows that they are connected to no network. Otherwise it may be any of their group.
    alone = asked(tmp_path / "no" / "where", tmp_path, data, request, "--inter-group=")
    assert [name for name, _, _ in alone["result"][0]] == request["instances"]
    assert {group for _, group, _ in alone["result"][0]} == {"group3"}


def test_stays_in_its_group_when_the_request_lacks_nodes(daemon: Daemon, tmp_path: Path) -> None:
    data, request = crowded()
    home = data["nodes"][data["instances"][request["instances"][0]]["nodes"][0]]["group"]
    name = next(name for name, node in data["nodes"].items() if node["group"] != home)
    data["instances"] = {each: row for each, row in data["instances"].items() if name not in row["nodes"]}
    del data["nodes"][name]
    told = asked(daemon.socket, tmp_path, data, request, "--inter-group=")
    assert not told["result"][0]
    assert told["info"].endswith(f"; other groups are not considered: node {name} is missing")
    # Without the daemon nobody knows of that node.
    assert asked(tmp_path / "no" / "where", tmp_path, data, request, "--inter-group=")["result"][0]
