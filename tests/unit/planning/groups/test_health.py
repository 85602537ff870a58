"""The health of groups in words."""

from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.groups.health import group_health
from tests.support import by_hand

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT


def cluster(*rows: str, offline: str = "") -> Cluster:
    """Two groups of two nodes; instances like ``i a0`` or, mirrored, ``i a0 a1``, of 6000 MiB."""
    instances = []
    for row in rows:
        name, pnode, snode, *_ = (*row.split(), None)
        template = EXT if snode is None else DRBD
        instances.append(by_hand.instance(str(name), template, str(pnode), snode, mem=6000))
    made = by_hand.cluster(dict.fromkeys(("a0", "a1", "b0", "b1"), 10_000), instances)
    nodes = tuple(replace(node, group=node.name[0], offline=node.name == offline) for node in made.nodes)
    return replace(made, groups=(Group("a", "a"), Group("b", "b")), nodes=nodes)


def health(described: Cluster) -> tuple[str, list[str]]:
    """Of the first group; the other one is healthy."""
    first, other = group_health(described)
    assert [first["name"], other["name"], other["health"], other["why"]] == ["a", "b", "healthy", []]
    return first["health"], first["why"]


def test_reports_healthy_group() -> None:
    assert health(cluster("i a0")) == ("healthy", [])


def test_reports_offline_node_with_instances() -> None:
    word, why = health(cluster("i a0", offline="a0"))
    assert (word, why[0]) == ("unhealthy", "offline nodes still have i")


def test_reports_node_that_fails_n1() -> None:
    word, why = health(cluster("i a0 a1", "j a1"))
    assert (word, why[0]) == ("weakly unhealthy", "a1 fails N+1, with i, j")


def test_reports_node_that_cannot_be_lost() -> None:
    assert health(cluster("i a0", "j a1")) == ("not redundant", ["a0, a1 cannot fail without loss"])


def test_reports_instances_that_exclude_each_other() -> None:
    made = cluster("i a0", "j a0")
    tagged = tuple(replace(each, tags=("service:web",), mem=100) for each in made.instances)
    nodes = tuple(replace(node, f_mem=9000) for node in made.nodes)
    made = replace(made, tags=("htools:iextags:service",), instances=tagged, nodes=nodes)
    assert health(made) == ("conflicting", ["a0 has instances with the same exclusion tag (service:web)"])
    assert group_health(made)[0]["conflicting"] == {"nodes": ["a0"], "tags": ["service:web"]}


def test_names_nodes_and_instances_of_lost_redundancy() -> None:
    fragile, failing = group_health(cluster("i a0", "j a1"))[0], group_health(cluster("i a0 a1", "j a1"))[0]
    assert fragile["unrecoverable"] == {"nodes": ["a0", "a1"], "instances": ["i", "j"]}
    assert (failing["failing"], failing["pressing"]) == (["a1"], ["i", "j"])


def test_reports_instance_between_groups() -> None:
    word, why = health(cluster("i a0 b0"))
    assert "i has its secondary in another group" in why
    assert word in ("healthy", "not redundant")
