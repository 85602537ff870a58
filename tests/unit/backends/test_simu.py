import pytest

from ganeti_htools.backends import simu
from ganeti_htools.model.cluster import Group, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import AllocPolicy


def test_a_group_of_equal_nodes() -> None:
    cluster = simu.parse(["p,2,1T,16g,8"])
    assert cluster.groups == (Group("group-01", "fake-uuid-01", AllocPolicy.PREFERRED),)
    first, second = cluster.nodes
    assert first == Node(
        name="node-01-001",
        group="fake-uuid-01",
        t_mem=16384.0,
        f_mem=16384,
        t_dsk=953674.0,
        f_dsk=953674,
        t_cpu=8.0,
        master=True,
    )
    assert (second.name, second.master) == ("node-01-002", False)
    assert not cluster.instances


def test_groups_are_numbered_in_order_and_only_the_first_has_the_master() -> None:
    cluster = simu.parse(["u,1,8,1,3,7,True", "last_resort,1,8,1,3,5"])
    assert [group.name for group in cluster.groups] == ["group-01", "group-02"]
    assert [group.alloc_policy for group in cluster.groups] == [
        AllocPolicy.UNALLOCABLE,
        AllocPolicy.LAST_RESORT,
    ]
    assert [(node.name, node.group) for node in cluster.nodes] == [
        ("node-01-001", "fake-uuid-01"),
        ("node-02-001", "fake-uuid-02"),
    ]
    assert [(node.t_spindles, node.excl_stor, node.master) for node in cluster.nodes] == [
        (7, True, True),
        (5, False, False),
    ]


def test_an_empty_group() -> None:
    cluster = simu.parse(["a,0,1,1,1"])
    assert cluster.groups[0].alloc_policy is AllocPolicy.LAST_RESORT
    assert cluster.nodes == ()


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("", "expected allocation policy, .*, found 1 fields"),
        ("p,2,1T,1g", "expected allocation policy, .*, found 4 fields"),
        ("p,2,1T,1g,1,1,True,1", "expected allocation policy, .*, found 8 fields"),
        ("x,2,1T,1g,3", "allocation policy: expected one of preferred, .*, not 'x'"),
        ("p,z,1g,1g,3", "node count: cannot parse string 'z'"),
        ("p,1000000000,1g,1g,3", "node count: cannot parse string '1000000000'"),
        ("p,2,1Q,1g,3", "disk: unknown unit 'Q'"),
        ("p,2,1g,-1,3", "memory: cannot parse string '-1'"),
        ("p,2,1g,1g,many", "CPUs: cannot parse string 'many'"),
        ("p,2,1g,1g,3,-1", "spindles: cannot parse string '-1'"),
        ("p,2,1g,1g,3,1,yes", "exclusive storage: expected one of True, False, not 'yes'"),
    ],
)
def test_an_error_names_the_specification_and_the_field(spec: str, error: str) -> None:
    with pytest.raises(DataError, match=f"^Invalid cluster specification '{spec}': {error}"):
        simu.parse(["p,1,1,1,1", spec])
