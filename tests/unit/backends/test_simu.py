import pytest

from ganeti_htools.backends import simu
from ganeti_htools.model.cluster import Group, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
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


def test_units_besides_the_default_volume_group() -> None:
    cluster = simu.parse(["p,2,1g,8,4;lvm-vg,ssdvg,2g;rbd,pool%2C1,1t", "p,1,0,8,4;file,/srv,5", "p,1,3,8,4"])
    xenvg, ssdvg = (DesiredUnit(StorageType.LVM_VG, key) for key in ("xenvg", "ssdvg"))
    pool = DesiredUnit(StorageType.RADOS, "pool,1")
    first, second, without, plain = cluster.nodes
    assert first.storage == (Unit(xenvg, 1024, 1024), Unit(ssdvg, 2048, 2048), Unit(pool, 1 << 20, 1 << 20))
    assert second.storage == first.storage
    assert (first.t_dsk, first.f_dsk) == (1024.0, 1024)
    assert without.storage == (Unit(DesiredUnit(StorageType.FILE, "/srv"), 5, 5),)
    assert plain.storage is None
    assert cluster.default_units == (xenvg,)


def test_without_a_disk_the_nodes_units_are_all_there_is() -> None:
    assert simu.parse(["p,1,0,8,4;lvm-vg,ssdvg,2g"]).default_units == ()
    assert simu.parse(["p,1,5,8,4"]).default_units == ()


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
        ("p,2,1g,1g,3;lvm-vg,a", "storage: expected TYPE,KEY,SIZE, not 'lvm-vg,a'"),
        ("p,2,1g,1g,3;lvm,a,1g", "storage: unknown storage type of 'lvm/a', expected one of lvm-vg, "),
        ("p,2,1g,1g,3;lvm-pv,a,1g", "storage: no disk can be on storage type lvm-pv"),
        ("p,2,1g,1g,3;file,,1g", "storage: storage unit 'file/': expected a key, which is a name"),
        ("p,2,1g,1g,3;file,a,-1", "storage: file/a: size: cannot parse string '-1'"),
        ("p,2,1g,1g,3;", "storage: expected TYPE,KEY,SIZE, not ''"),
        ("p,2,1g,1g,3;lvm-vg,xenvg,1g", "storage: lvm-vg/xenvg appears more than once"),
        ("p,2,1g,1g,3,1,yes", "exclusive storage: expected one of True, False, not 'yes'"),
    ],
)
def test_an_error_names_the_specification_and_the_field(spec: str, error: str) -> None:
    with pytest.raises(DataError, match=f"^Invalid cluster specification '{spec}': {error}"):
        simu.parse(["p,1,1,1,1", spec])
