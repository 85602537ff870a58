import copy
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.backends import luxi, text
from ganeti_htools.luxi.queries import (
    GROUP_FIELDS,
    INSTANCE_FIELDS,
    NETWORK_FIELDS,
    NODE_FIELDS,
    ClusterAnswers,
    MissingReason,
    QueryRow,
)
from ganeti_htools.model.cluster import Cluster, Disk, Nic
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import Status
from tests.support.clusters import Shape, cluster
from tests.support.luxi_answers import answers
from tests.support.text_format import text as text_of

SHAPES = [
    Shape(
        nodes=6,
        instances=20,
        groups=2,
        offline=1,
        drained=1,
        down=0.3,
        tags=("exclusion", "location", "migration"),
        policies=True,
        forthcoming=0.2,
    ),
    Shape(nodes=4, instances=10, exclusive_storage=True),
]


def rows(fields: tuple[str, ...], result: dict[str, Any]) -> list[QueryRow]:
    return [
        QueryRow(
            {field: value for field, (status, value) in zip(fields, cells, strict=True) if not status},
            {
                field: MissingReason(status)
                for field, (status, _) in zip(fields, cells, strict=True)
                if status
            },
        )
        for cells in result["data"]
    ]


def told(results: dict[str, Any]) -> ClusterAnswers:
    return ClusterAnswers(
        rows(NODE_FIELDS, results["node"]),
        rows(INSTANCE_FIELDS, results["instance"]),
        results["QueryClusterInfo"],
        rows(GROUP_FIELDS, results["group"]),
        rows(NETWORK_FIELDS, results["network"]),
    )


def small() -> ClusterAnswers:
    return copy.deepcopy(
        told(answers(cluster(1, Shape(nodes=2, instances=2, templates={"drbd": 1}, down=0))))
    )


def node_with(values: dict[str, Any] = {}, missing: dict[str, MissingReason] = {}) -> ClusterAnswers:  # noqa: B006
    """The first node changed; what is missing has no value."""
    data = small()
    first = data.nodes[0]
    kept = {key: value for key, value in first.values.items() if key not in missing}
    data.nodes[0] = QueryRow({**kept, **values}, missing)
    return data


def instance_with(values: dict[str, Any] = {}, missing: dict[str, MissingReason] = {}) -> ClusterAnswers:  # noqa: B006
    data = small()
    kept = {key: value for key, value in data.instances[0].values.items() if key not in missing}
    data.instances[0] = QueryRow({**kept, **values}, missing)
    return data


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cluster_is_that_of_the_text_format(shape: Shape) -> None:
    data = cluster(7, shape)
    described, expected = luxi.parse(told(answers(data))), text.parse(text_of(data), "text")
    # What the text format does not tell: the hypervisor, the size of each disk.
    assert [node.master for node in described.nodes].count(True) == 1
    assert {node.hypervisor for node in described.nodes} == {"xen-pvm"}
    assert text.dump(described) == text.dump(marked(expected, described))
    assert [[disk.size for disk in one.disks] for one in described.instances] == [
        [disk["size"] for disk in one["disks"]] for one in data["instances"].values()
    ]


def marked(expected: Cluster, described: Cluster) -> Cluster:
    """The cluster with the same master, which generated text does not tell."""
    pairs = zip(expected.nodes, described.nodes, strict=True)
    return replace(expected, nodes=tuple(replace(one, master=other.master) for one, other in pairs))


def test_disks_have_spindles_where_they_say_so() -> None:
    data = instance_with({"disk.sizes": [10, 20], "disk.spindles": [3, None]})
    assert luxi.parse(data).instances[0].disks == (Disk(10, 3), Disk(20, None))
    data = instance_with({"disk.sizes": [10, 20], "disk.spindles": [3]})  # fields of unequal length
    assert luxi.parse(data).instances[0].disks == (Disk(10, 3),)


# As a running Ganeti 3.0 gave them.
NETWORKS = [
    QueryRow(
        {
            "name": "net1",
            "uuid": "1f7130b5",
            "group_list": [["group2", "routed", "eth0", ""], ["group1", "routed", "eth0", ""]],
        },
        {},
    ),
    QueryRow({"name": "net2", "uuid": "00ae797c", "group_list": [["group1", "routed", "eth0", ""]]}, {}),
    QueryRow({"name": "net3", "uuid": "77", "group_list": []}, {}),
]


def grouped(networks: list[QueryRow]) -> ClusterAnswers:
    """Two groups, with these networks."""
    data = told(answers(cluster(1, Shape(nodes=4, instances=2, groups=2))))
    return data._replace(networks=networks)


def test_networks_tell_which_groups_are_connected() -> None:
    made = {group.name: group.networks for group in luxi.parse(grouped(NETWORKS)).groups}
    assert made == {"group1": ("1f7130b5", "00ae797c"), "group2": ("1f7130b5",)}
    assert {group.networks for group in luxi.parse(grouped([])).groups} == {()}


def test_a_group_is_read_again_only_if_its_networks_changed() -> None:
    before, after = grouped(NETWORKS), grouped(NETWORKS[:1])
    after = after._replace(groups=before.groups)
    first = luxi.parse(before)
    again = luxi.parse(after, (before, first))
    assert again.groups[1] is first.groups[1]
    assert again == luxi.parse(after)
    assert again.groups[0].networks == ("1f7130b5",)


@pytest.mark.parametrize(
    ("networks", "expected"),
    [([], ()), ([None], ()), ([None, "00ae797c", "77"], (Nic(network="00ae797c"), Nic(network="77")))],
)
def test_interfaces_with_a_network(networks: list[str | None], expected: tuple[Nic, ...]) -> None:
    assert luxi.parse(instance_with({"nic.networks": networks})).instances[0].nics == expected


@pytest.mark.parametrize("status", list(Status))
def test_every_state_of_an_instance(status: Status) -> None:
    assert luxi.parse(instance_with({"status": status.value})).instances[0].status is status


@pytest.mark.parametrize("why", list(MissingReason))
def test_a_node_without_local_storage_reports_none(why: MissingReason) -> None:
    node = luxi.parse(node_with({}, dict.fromkeys(("dtotal", "dfree", "spfree"), why))).nodes[0]
    assert (node.t_dsk, node.f_dsk, node.f_spindles) == (0.0, 0, 0)
    assert node.t_mem > 0
    assert not node.offline


LIVE = ("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "sptotal", "spfree")


@pytest.mark.parametrize("why", [MissingReason.NO_DATA, MissingReason.UNAVAILABLE, MissingReason.OFFLINE])
@pytest.mark.parametrize("change", [{"offline": True}, {"vm_capable": False}])
def test_a_node_that_runs_nothing_need_not_report(change: dict[str, bool], why: MissingReason) -> None:
    node = luxi.parse(node_with(change, dict.fromkeys(LIVE, why))).nodes[0]
    assert (node.offline, node.t_mem, node.f_mem, node.t_dsk, node.t_cpu, node.n_cpu) == (True, 0, 0, 0, 0, 0)


def test_a_drained_node_reports() -> None:
    node = luxi.parse(node_with({"drained": True})).nodes[0]
    assert node.offline
    assert node.t_mem > 0


def test_node_that_does_not_report_is_silent_where_that_is_allowed() -> None:
    silent = luxi.parse_with_silent_nodes(node_with({}, {"mfree": MissingReason.NO_DATA})).nodes[0]
    assert (silent.silent, silent.offline) == (True, True)
    drained = luxi.parse_with_silent_nodes(node_with({"drained": True})).nodes[0]
    assert (drained.silent, drained.offline) == (False, True)


def test_fields_that_this_ganeti_does_not_know_have_a_usual_value() -> None:
    unknown = MissingReason.UNKNOWN
    node = luxi.parse(
        node_with({}, dict.fromkeys(("ndp/cpu_speed", "ndp/exclusive_storage", "cnos", "sptotal"), unknown))
    ).nodes[0]
    assert (node.cpu_speed, node.excl_stor, node.n_cpu) == (1.0, False, 1)
    instance = luxi.parse(
        instance_with({}, dict.fromkeys(("forthcoming", "be/spindle_use", "nic.networks"), unknown))
    ).instances[0]
    assert (instance.forthcoming, instance.spindle_use, instance.nics) == (False, 1, ())


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            node_with({}, {"mfree": MissingReason.NO_DATA}),
            "Node '{node}', error while reading data: key 'mfree': Ganeti has no data",
        ),
        (
            node_with({}, {"mtotal": MissingReason.UNKNOWN}),
            "Node '{node}', error while reading data: key 'mtotal': this version of Ganeti does not know it",
        ),
        (node_with({"mfree": "x"}), "key 'mfree': Unable to read Int, expected a whole number"),
        (node_with({"dfree": "x"}), "key 'dfree': Unable to read Int, expected a whole number"),
        (node_with({"group.uuid": "other"}), "Unknown group 'other' for node {node}"),
        (node_with({"name": None}), "Node data: key 'name': Unable to read String"),
        (
            node_with({}, {"name": MissingReason.OFFLINE}),
            "Node data: key 'name': Ganeti says that the node is offline",
        ),
        (
            node_with({"ndp/exclusive_storage": True}, {"sptotal": MissingReason.UNAVAILABLE}),
            "key 'sptotal': Ganeti says that there is none",
        ),
        (node_with({"offline": True, "vm_capable": 1}), "key 'vm_capable': Unable to read Bool"),
        (instance_with({"pnode": "node9"}), "Unknown node 'node9' for instance {instance}"),
        (instance_with({"snodes": ["node9"]}), "Unknown node 'node9' for instance {instance}"),
        (instance_with({"status": "fine"}), "Instance '{instance}', error while reading data: key 'status'"),
        (instance_with({"disk.sizes": 1}), "'disk.sizes': Unable to read [Int]"),
        (instance_with({"nic.networks": "net1"}), "key 'nic.networks': Unable to read [Maybe String]"),
        (instance_with({"nic.networks": [7]}), "key 'nic.networks': Unable to read [Maybe String]"),
        (
            small()._replace(networks=[QueryRow({"name": "net1", "uuid": "u", "group_list": 1}, {})]),
            "Network 'net1', error while reading data: key 'group_list': Unable to read [(String, String,",
        ),
        (
            small()._replace(
                networks=[QueryRow({"name": "net1", "uuid": "u", "group_list": [["g"], [1]]}, {})]
            ),
            "key 'group_list': Unable to read (String, String, String, String), expected names of groups",
        ),
        (
            small()._replace(networks=[QueryRow({"name": "net1", "uuid": None}, {})]),
            "Network 'net1', error while reading data: key 'uuid': Unable to read String",
        ),
        (instance_with({}, {"status": MissingReason.NO_DATA}), "key 'status': Ganeti has no data"),
        (small()._replace(info={}), "Parsing cluster info: key 'master' not found"),
        (small()._replace(nodes=[], instances=[]), "Master node {node} unknown"),
        (
            small()._replace(groups=[QueryRow({"name": "a"}, {})]),
            "Group 'a', error while reading data: key 'uuid'",
        ),
    ],
)
def test_what_is_wrong_is_named(data: ClusterAnswers, error: str) -> None:
    names = {
        "node": small().nodes[0].values["name"],
        "instance": small().instances[0].values["name"],
    }
    with pytest.raises(DataError) as caught:
        luxi.parse(data)
    assert error.format(**names) in str(caught.value)
    assert "\n" not in str(caught.value)
