"""What there has to be known before nodes are evacuated into other groups."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import KnownCluster, respond
from ganeti_htools.deciding.inter_group import prepare
from ganeti_htools.model.cluster import Cluster, Group, Nic
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import ChangeGroup, NodeEvacuate
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support import messages
from tests.support.by_hand import instance, node
from tests.support.clusters import Shape, cluster, uuid_of

EXT = DiskTemplate.EXT
OPTIONS = PlacementOptions(inter_group=True)
REQUEST = NodeEvacuate(("a", "b", "c"), EvacMode.ALL)
NET, OTHER = Nic(network="net"), Nic(network="other")
ROWS = (
    instance("a", EXT, "n0", nics=(Nic(mac="aa"),)),
    instance("b", EXT, "n0", nics=(OTHER,)),
    instance("c", EXT, "n0"),
    instance("d", EXT, "n0", nics=(Nic(mac="dd"),)),
)
CLUSTER = Cluster(
    (Group("g0", "u0", networks=("net", "more")), Group("g1", "u1")),
    (node("n0", group="u0"), node("n1", group="u1")),
    ROWS,
)


def networks(made: Cluster) -> list[list[str | None]]:
    return [[nic.network for nic in row.nics] for row in made.instances]


def test_without_the_option_nothing_changes() -> None:
    for request, options in ((REQUEST, PlacementOptions()), (ChangeGroup(("a",), ()), OPTIONS)):
        made, after, note = prepare(CLUSTER, request, options, None)
        assert made is CLUSTER
        assert (after, note) == (options, "")


def test_instance_without_known_networks_gets_those_of_its_group() -> None:
    made, options, note = prepare(CLUSTER, REQUEST, OPTIONS, None)
    assert (options, note) == (OPTIONS, "")
    assert networks(made) == [[None, "net", "more"], ["other"], [], [None]]
    rows = (replace(ROWS[0], nics=(NET,)), replace(ROWS[1], nics=()), replace(ROWS[2], nics=(NET, OTHER)))
    known = replace(CLUSTER, instances=rows)
    made, _, _ = prepare(CLUSTER, REQUEST, OPTIONS, known)
    assert networks(made) == [["net"], ["other"], ["net", "other"], [None]]


@pytest.mark.parametrize(
    ("here", "there", "why"),
    [
        (("n0",), None, "the request has no nodes of group g1"),
        (("n0",), ("n0",), "the request has no nodes of group g1"),
        (("n0", "n1"), ("n0", "n1", "n2"), "node n2 is missing"),
        (("n0", "n1"), ("n0",), "node n1 is in the request, but not known"),
    ],
)
def test_partial_request_disables_other_groups(
    here: tuple[str, ...], there: tuple[str, ...] | None, why: str
) -> None:
    nodes = {"n0": node("n0", group="u0"), "n1": node("n1", group="u1"), "n2": node("n2", group="u1")}
    asked = replace(CLUSTER, nodes=tuple(nodes[name] for name in here))
    known = None if there is None else replace(CLUSTER, nodes=tuple(nodes[name] for name in there))
    made, options, note = prepare(asked, REQUEST, OPTIONS, known)
    assert made is asked
    assert (options, note) == (PlacementOptions(), f"; other groups are not considered: {why}")


def crowded(networks: bool = False) -> tuple[Any, Any]:
    """A cluster with a node whose group is full, and the request to evacuate it."""
    shape = Shape(nodes=9, instances=30, groups=3, templates={"ext": 1}, fill=0.3, networks=networks)
    data = cluster(4, shape)
    name = data["instances"][next(iter(data["instances"]))]["nodes"][0]
    home = data["nodes"][name]["group"]
    for each in data["nodes"].values():
        if each["group"] == home:
            each["free_memory"] = 100
    return data, messages.node_evacuate(data, name, "primary-only")


def answer(data: Any, request: Any, known: KnownCluster | None, *arguments: str) -> Any:
    text = messages.encode(messages.message(data, request)).encode()
    return json.loads(respond(text, parse_options(arguments), known=known).answer)


def rows(data: Any, request: Any) -> Cluster:
    return iallocator.read(messages.encode(messages.message(data, request)).encode()).cluster


@pytest.mark.parametrize("argument", ["--inter-group", "--inter-group="])
def test_answer_keeps_its_form(argument: str) -> None:
    data, request = crowded()
    usual = answer(data, request, None)
    moved, failed, jobs = usual["result"]
    assert (len(moved), len(failed), len(jobs)) == (0, len(request["instances"]), 0)
    for known in (None, KnownCluster(rows(data, request), 1.0)):
        told = answer(data, request, known, argument)
        moved, failed, jobs = told["result"]
        assert not failed
        assert [name for name, _, _ in moved] == request["instances"]
        home = data["nodes"][data["instances"][moved[0][0]]["nodes"][0]]["group"]
        for (name, group, nodes), (job,) in zip(moved, jobs, strict=True):
            (uuid,) = (data["nodes"][node]["group"] for node in nodes)
            assert uuid != home
            assert data["nodegroups"][uuid]["name"] == group
            assert job["OP_ID"] == "OP_INSTANCE_MIGRATE"
            assert (job["instance_name"], job["target_node"]) == (name, nodes[0])
        info = told["info"]
        assert info.startswith(
            f"Request successful: 0 instances failed to move and {len(moved)} were moved successfully;"
            f" {len(moved)} left their group: {moved[0][0]} to {moved[0][1]} (Can't find any good node: "
        )
        assert info.count("FailMem") >= len(moved)


def test_other_nodes_in_the_followed_cluster_disable_other_groups() -> None:
    data, request = crowded()
    known = rows(data, request)
    told = answer(data, request, KnownCluster(replace(known, nodes=known.nodes[1:]), 1.0), "--inter-group")
    usual = answer(data, request, None)
    assert told["result"] == usual["result"]
    missing = known.nodes[0].name
    assert told["info"] == (
        f"{usual['info']}; other groups are not considered: node {missing} is in the request, but not known"
    )


def test_networks_of_the_followed_cluster_are_used() -> None:
    data, request = crowded()
    for uuid, group in data["nodegroups"].items():
        group["networks"] = [uuid_of("net"), uuid]
    name = request["instances"][0]
    known = rows(data, request)
    assert all(nic.network is None for row in known.instances for nic in row.nics)
    others = [
        uuid
        for uuid in data["nodegroups"]
        if uuid != data["nodes"][data["instances"][name]["nodes"][0]]["group"]
    ]
    for uuid in others:
        told = [replace(row, nics=(Nic(network=uuid),)) for row in known.instances]
        moved, failed, _ = answer(
            data, request, KnownCluster(replace(known, instances=tuple(told)), 1.0), "--inter-group"
        )["result"]
        assert not failed
        assert {group for _, group, _ in moved} == {data["nodegroups"][uuid]["name"]}
    moved, failed, _ = answer(data, request, None, "--inter-group")["result"]
    assert not moved  # any network of their own group may be one of theirs
    assert all("lacks a network of it" in why for _, why in failed)
