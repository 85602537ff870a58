import pytest

from ganeti_htools.model.cluster import Cluster, Group, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.ganeti_version import DEFAULT, GanetiVersion, parse_version, rules_of
from ganeti_htools.model.types import DiskTemplate


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.0", (3, 0, 0, True)),
        ("3.0.2", (3, 0, 2, True)),
        ("3.0.2-3", (3, 0, 2, True)),
        ("3.1.0~rc2", (3, 1, 0, False)),
        ("3.1.0~rc2-3", (3, 1, 0, False)),
        ("2.15.0~alpha1", (2, 15, 0, False)),
    ],
)
def test_parses_version(text: str, version: tuple[int, int, int, bool]) -> None:
    assert parse_version(text) == GanetiVersion(*version)


@pytest.mark.parametrize("text", ["", "3", "3.", "3.x", "v3.1", "3.1.0.2", "3.1 0", "\u0663.\u0661"])
def test_refuses_what_is_no_version(text: str) -> None:
    with pytest.raises(DataError, match="expected a version of Ganeti"):
        parse_version(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2.15.2", "3.0"),
        ("3.0.0~rc1", "3.0"),
        ("3.0.2", "3.0"),
        ("3.1.0~rc2", "3.0"),
        ("3.1.0", "3.1"),
        ("4.0", "3.1"),
    ],
)
def test_rules_begin_with_the_release(text: str, name: str) -> None:
    assert rules_of(parse_version(text)).name == name


def test_unknown_version_has_the_rules_of_the_default() -> None:
    assert rules_of(None) == rules_of(DEFAULT)


@pytest.mark.parametrize(
    ("version", "free", "static", "bad"),
    [
        ("3.0.2", 2048, 0, 0),
        ("3.0.2", 2047, 0, 2),
        ("3.1.0", 2049, 0, 0),
        ("3.1.0", 2048, 0, 2),
        ("3.0.2", 2048, 100, 0),
        ("3.1.0", 2049, 100, 2),
    ],
)
def test_n1_of_nodes_as_read(version: str, free: int, static: int, bad: int) -> None:
    """Of two nodes each keeps 2,048 MiB free for the other. ``static`` is more than KVM's nodes report."""
    nodes = tuple(
        Node(name, "uuid", t_mem=2048 + free, f_mem=free, t_dsk=9999, f_dsk=9999, hypervisor="kvm")
        for name in ("node1", "node2")
    )
    pairs = (("node1", "node2"), ("node2", "node1"))
    instances = tuple(
        Instance(f"on-{pnode}", 2048, 1, (), 1, pnode=pnode, snode=snode, template=DiskTemplate.DRBD)
        for pnode, snode in pairs
    )
    cluster = Cluster((Group("group", "uuid"),), nodes, instances, ganeti=parse_version(version))
    assert derive(cluster, static_kvm_node_memory=static).columns.fail_n1.sum() == bad
