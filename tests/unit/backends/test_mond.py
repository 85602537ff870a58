from typing import Any

import orjson
import pytest

from ganeti_htools.backends import mond
from ganeti_htools.model.cluster import Cluster, Group, Instance, Load, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import Status


def instance(name: str, pnode: str, vcpus: int, **other: Any) -> Instance:
    return Instance(name, 128, 0, (), vcpus, pnode=pnode, load=Load(1, 2, 3, 4), **other)


CLUSTER = Cluster(
    groups=(Group("g", "u"),),
    nodes=(Node("node1", "u", n_cpu=1), Node("node2", "u", n_cpu=0)),
    instances=(
        instance("a", "node1", 1, snode="node2"),
        instance("b", "node1", 2),
        instance("off", "node1", 8, status=Status.OFFLINE),
        instance("later", "node1", 4, forthcoming=True),
        instance("none", "node2", 0),
    ),
)


def reports(name: str, *data: object) -> mond.MondReports:
    return {f"node{number}": {name: part, "drbd": {}} for number, part in enumerate(data, 1)}


def cpu_loads(cluster: Cluster) -> dict[str, float]:
    assert all(row.load == Load(row.load.cpu, 2, 3, 4) for row in cluster.instances)
    return {row.name: row.load.cpu for row in cluster.instances}


def test_the_load_of_a_node_is_shared_by_vcpus() -> None:
    cluster, warnings = mond.apply(
        CLUSTER, reports("cpu-avg-load", {"cpu_total": 2.0}, {"cpu_total": 3}), xen=False
    )
    assert warnings == ()
    assert [node.cpu_load for node in cluster.nodes] == [2.0, 3.0]
    # Of node1's 4 CPUs in use one is its own; what is not there or off takes none.
    assert cpu_loads(cluster) == {"a": 0.5, "b": 1.0, "off": 4.0, "later": 2.0, "none": 0.0}


def test_on_xen_each_instance_has_its_own_load() -> None:
    data = reports("xen-cpu-avg-load", {"a": 0.25, "b": 0, "off": 0.5}, {"later": 4, "none": 1, "a": 9})
    cluster, warnings = mond.apply(CLUSTER, data, xen=True)
    assert warnings == ()
    assert cpu_loads(cluster) == {"a": 0.25, "b": 0.0, "off": 0.5, "later": 4.0, "none": 1.0}


@pytest.mark.parametrize(
    ("collector", "data"),
    [
        ("cpu-avg-load", ()),
        ("cpu-avg-load", ({"cpu_total": 1.0},)),
        *(
            ("cpu-avg-load", ({"cpu_total": 1.0}, second))
            for second in (
                {"error": "Empty buffer"},
                *({"cpu_total": value} for value in ("1", True, -1, 1e300)),
                *([1.0], None),
            )
        ),
        *(("xen-cpu-avg-load", ({"a": 1}, *second)) for second in ((), ({"b": "x"},), (7,))),
    ],
)
def test_unless_all_nodes_report_nothing_is_used(collector: str, data: tuple[object, ...]) -> None:
    assert mond.apply(CLUSTER, reports(collector, *data), xen=collector.startswith("xen")) == (
        CLUSTER,
        (f"Didn't receive an answer by all MonDs, {collector}'s data will be ignored.",),
    )


def test_on_xen_unless_all_instances_are_reported_nothing_is_used() -> None:
    data = reports("xen-cpu-avg-load", {"a": 1, "off": 1, "later": 1}, {})
    assert mond.apply(CLUSTER, data, xen=True) == (
        CLUSTER,
        ('No CPU information available for ["b","none"]',),
    )


def test_reports_of_the_other_collector_are_not_used() -> None:
    data = reports("cpu-avg-load", {"cpu_total": 1}, {"cpu_total": 1})
    assert mond.apply(CLUSTER, data, xen=True)[0] == CLUSTER


def test_a_cluster_without_nodes() -> None:
    assert mond.apply(Cluster(), {}, xen=False) == (Cluster(), ())


def test_a_file_is_read_and_the_first_report_of_a_collector_counts() -> None:
    content = [
        {
            "node": "node1",
            "reports": [
                {"name": "cpu-avg-load", "version": "B", "kind": 0, "data": {"cpu_total": 0.5}},
                {"name": "cpu-avg-load", "data": {"cpu_total": 7}},
                {"name": "other", "data": None},
            ],
            "more": 1,
        },
        {"node": "node2", "reports": []},
    ]
    assert mond.parse(orjson.dumps(content), "m") == {
        "node1": {"cpu-avg-load": {"cpu_total": 0.5}, "other": None},
        "node2": {},
    }


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "m: Invalid JSON: "),
        (b'[{"node": NaN}]', "m: Invalid JSON: "),
        (b"[" * 100_000, "m: Invalid JSON: "),
        (b"\xff", "m: Invalid JSON: "),
        (b"{}", "m: the top level: expected an array"),
        (b"[7]", "m: entry 0: expected an object"),
        (b'[{"reports": []}]', "m: entry 0: key 'node' not found"),
        (b'[{"node": 7, "reports": []}]', "m: entry 0: key 'node': expected a string"),
        (b'[{"node": "n"}]', "m: entry 0: node 'n': key 'reports' not found"),
        (b'[{"node": "n", "reports": {}}]', "m: entry 0: node 'n': key 'reports': expected an array"),
        (b'[{"node": "n", "reports": [1]}]', "m: entry 0: node 'n': report: expected an object"),
        (b'[{"node": "n", "reports": [{"name": "c"}]}]', "m: entry 0: node 'n': report 'c': key 'data' not"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(content: bytes, error: str) -> None:
    with pytest.raises(DataError, match=f"^{error}"):
        mond.parse(content, "m")
