import copy
import json
from typing import Any

import pytest

from ganeti_htools.backends import rapi, text
from ganeti_htools.model.cluster import Cluster, Disk, Nic
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.ganeti_version import GanetiVersion
from ganeti_htools.model.types import Status
from tests.support.clusters import Shape, cluster
from tests.support.rapi_documents import documents
from tests.support.text_format import text as text_of

SHAPE = Shape(
    nodes=6,
    instances=20,
    groups=2,
    offline=1,
    drained=1,
    down=0.3,
    tags=("exclusion", "location", "migration"),
)


def parse(data: dict[str, Any], *, state_of_record: bool = False) -> Cluster:
    documents = {name: json.dumps(document).encode() for name, document in data.items()}
    return rapi.parse(documents, state_of_record)


def small() -> dict[str, Any]:
    return copy.deepcopy(
        documents(cluster(1, Shape(nodes=2, instances=2, templates={"drbd": 1}, down=0, networks=True)))
    )


def test_the_cluster_is_that_of_the_text_format() -> None:
    data = cluster(7, SHAPE)
    described = rapi.parse({name: json.dumps(part).encode() for name, part in documents(data).items()})
    expected = text.parse(text_of(data), "text")
    assert [node.name for node in described.nodes] == [node.name for node in expected.nodes]
    for ours, theirs in zip(described.nodes, expected.nodes, strict=True):
        figures = ("t_mem", "n_mem", "f_mem", "t_dsk", "f_dsk", "t_cpu", "offline", "group", "tags")
        assert [getattr(ours, name) for name in figures] == [getattr(theirs, name) for name in figures]
    for one, other in zip(described.instances, expected.instances, strict=True):
        figures = ("name", "mem", "dsk", "vcpus", "status", "pnode", "snode", "template", "tags")
        assert [getattr(one, name) for name in figures] == [getattr(other, name) for name in figures]
    assert described.groups == expected.groups
    assert (described.tags, described.ipolicy) == (expected.tags, expected.ipolicy)


def test_the_master_is_known() -> None:
    data = small()
    data["info"]["master"] = "node2.example.org"
    assert [node.name for node in parse(data).nodes if node.master] == ["node2.example.org"]


def test_memory_is_what_an_instance_runs_with() -> None:
    data = small()
    running, stopped = data["instances"]
    running["oper_ram"], running["beparams"]["maxmem"] = 111, 222
    stopped["oper_ram"], stopped["beparams"]["maxmem"], stopped["status"] = None, 333, "ERROR_down"
    assert [(row.mem, row.status) for row in parse(data).instances] == [
        (111, Status.RUNNING),
        (333, Status.ERROR_DOWN),
    ]
    assert [row.mem for row in parse(data, state_of_record=True).instances] == [222, 333]


def test_memory_is_the_configured_one_when_current_memory_is_no_number() -> None:
    data = small()
    data["instances"][0]["oper_ram"], data["instances"][1]["oper_ram"] = False, "512"
    for each in data["instances"]:
        each["beparams"]["maxmem"] = 333
    assert [row.mem for row in parse(data).instances] == [333, 333]


def test_memory_of_old_servers() -> None:
    data = small()
    data["instances"][0]["oper_ram"] = None
    data["instances"][0]["beparams"] = {"memory": 77, "vcpus": 1, "auto_balance": False, "spindle_use": 1}
    (first, _) = parse(data).instances
    assert (first.mem, first.auto_balance) == (77, False)


def test_disks_have_spindles_where_they_say_so() -> None:
    data = small()
    data["instances"][0] |= {"disk.sizes": [10, 20], "disk.spindles": [3, None]}
    assert parse(data).instances[0].disks == (Disk(10, 3), Disk(20, None))


def test_a_node_without_local_storage_reports_none() -> None:
    data = small()
    data["nodes"][0] |= {"dtotal": None, "dfree": None, "spfree": None}
    node = parse(data).nodes[0]
    assert (node.t_dsk, node.f_dsk, node.f_spindles) == (0.0, 0, 0)


@pytest.mark.parametrize("change", [{"offline": True}, {"vm_capable": False}])
def test_what_a_node_that_runs_nothing_reports_is_not_looked_at(change: dict[str, bool]) -> None:
    data = small()
    data["nodes"][0] |= {**change, "mtotal": None, "mfree": "?", "ctotal": None}
    node = parse(data).nodes[0]
    assert (node.offline, node.t_mem, node.n_cpu) == (True, 0.0, 0)


@pytest.mark.parametrize(
    ("where", "change", "error"),
    [
        ("nodes", {"mfree": None}, "'mfree': Unable to read Int, expected a whole number"),
        ("nodes", {"ndparams": []}, "'ndparams': Unable to read JSObject, expected an object"),
        ("nodes", {"group.uuid": "other"}, "Unknown group 'other' for node"),
        ("nodes", {"name": None}, "'name': Unable to read String"),
        ("nodes", {"name": "a\nb"}, "'name': Unable to read String, expected a name, got 'a\\nb'"),
        ("groups", {"name": ""}, "'name': Unable to read String, expected a name, got ''"),
        ("instances", {"name": "a|b"}, "'name': Unable to read String, expected a name, got 'a|b'"),
        ("instances", {"pnode": "node9"}, "Unknown node 'node9' for instance"),
        ("instances", {"status": "fine"}, "'status': Unable to read Status"),
        ("instances", {"disk.sizes": 1}, "'disk.sizes': Unable to read [Int]"),
        ("instances", {"disk.sizes": ["x"]}, "'disk.sizes': Unable to read Int"),
        ("instances", {"disk_template": "tape"}, "'disk_template': Unable to read DiskTemplate"),
        ("networks", {"group_list": None}, "'group_list': Unable to read [(String, "),
        ("networks", {"uuid": 7}, "'uuid': Unable to read String"),
        ("instances", {"nic.networks": [7]}, "'nic.networks': Unable to read [Maybe String]"),
        ("groups", {"alloc_policy": 1}, "'alloc_policy': Unable to read AllocPolicy"),
    ],
)
def test_wrong_values_are_named(where: str, change: dict[str, Any], error: str) -> None:
    data = small()
    data[where][0] |= change
    with pytest.raises(DataError) as caught:
        parse(data)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


def test_networks_of_groups_and_instances() -> None:
    data = small()
    name, (first, second) = data["groups"][0]["name"], [network["uuid"] for network in data["networks"]]
    data["networks"].append(
        {"name": "far", "uuid": "far", "group_list": [[f"not {name}", "bridged", "br0", ""]]}
    )
    data["instances"][0]["nic.networks"] = [None, second]
    made = parse(data)
    assert made.groups[0].networks == (first, second)
    assert [instance.nics for instance in made.instances[:2]] == [(Nic(network=second),), ()]


def test_older_servers_do_not_tell_of_networks() -> None:
    data = small()
    del data["networks"]
    for instance in data["instances"]:
        del instance["nic.networks"]
    made = parse(data)
    assert made.groups[0].networks == ()
    assert {instance.nics for instance in made.instances} == {()}


@pytest.mark.parametrize(
    ("reported", "version"),
    [
        ({"software_version": "3.1.1"}, GanetiVersion(3, 1, 1)),
        ({"software_version": "of our own"}, None),
        ({}, None),
    ],
)
def test_reads_a_cluster_of_any_version(reported: dict[str, str], version: GanetiVersion | None) -> None:
    data = small()
    data["info"] |= reported
    assert parse(data).ganeti == version


def test_an_unknown_master() -> None:
    data = small()
    data["info"]["master"] = "elsewhere"
    with pytest.raises(DataError, match=r"^Master node elsewhere unknown$"):
        parse(data)


@pytest.mark.parametrize("nonsense", [b"", b"<html>", b"{}", b"null", b"[1]", b"[{}]", b"\xff", b"[" * 10000])
@pytest.mark.parametrize("name", list(rapi.RESOURCES))
def test_nonsense_is_told_in_one_line(name: str, nonsense: bytes) -> None:
    good = {key: json.dumps(document).encode() for key, document in small().items()}
    with pytest.raises(DataError) as caught:
        rapi.parse({**good, name: nonsense})
    kind = "cluster info" if name == "info" else name.removesuffix("s")
    assert kind in str(caught.value)
    assert "\n" not in str(caught.value)
