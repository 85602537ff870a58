import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from ganeti_htools.backends import iallocator, text, unit_fields, units
from ganeti_htools.backends.fields import Fields
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.columns import availability
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import units_in_use
from tests.support.rows import rows
from tests.support.storage_units import case_with_units
from tests.support.strategies import keys

# The examples of the design, without what is no JSON in them, and with the key that was cut off.
DESIGN_TEXT = (
    "2000,4000,drbd,xenvg;5000,10000,file,/path/to/storage1;1000,20000,file,/path/to/storage2;"
    "1024,1024,lvm-vg,xenssdvg,N"
)
DESIGN_JSON = """
{ "storage": [
    { "sunit": ["drbd8", "xenvg", []], "free": 2000, "total": 4000 },
    { "sunit": ["file", "/path/to/storage1", []], "free": 5000, "total": 10000 },
    { "sunit": ["file", "/path/to/storage2", []], "free": 1000, "total": 20000 },
    { "sunit": ["lvm-vg", "xenssdvg", [false]], "free": 1024, "total": 1024 }
] }
"""
DESIGN = (
    Unit(DesiredUnit(StorageType.DRBD, "xenvg"), 4000, 2000),
    Unit(DesiredUnit(StorageType.FILE, "/path/to/storage1"), 10000, 5000),
    Unit(DesiredUnit(StorageType.FILE, "/path/to/storage2"), 20000, 1000),
    Unit(DesiredUnit(StorageType.LVM_VG, "xenssdvg"), 1024, 1024, (False,)),
)
SSD = DesiredUnit(StorageType.LVM_VG, "ssdvg")
SAN = DesiredUnit(StorageType.EXT, "san")


def node_of(values: Any) -> tuple[Unit, ...]:
    return unit_fields.units_of(Fields("invalid data for node 'node1'", {"storage": values}))


def disk_of(template: DiskTemplate, **values: Any) -> Disk:
    return unit_fields.disk_of(Fields("invalid data for instance 'inst1'", {"size": 5} | values), template)


def test_the_examples_of_the_design() -> None:
    assert units.read_units(DESIGN_TEXT) == DESIGN
    assert unit_fields.units_of(Fields("node", json.loads(DESIGN_JSON))) == DESIGN


def test_units_without_a_disk_are_ignored_and_old_names_known() -> None:
    assert units.read_units("1,2,lvm-pv,/dev/sda;1,2,rbd,pool") == (
        Unit(DesiredUnit(StorageType.RADOS, "pool"), 2, 1),
    )
    assert node_of([{"sunit": ["lvm-pv", "/dev/sda"]}, {"sunit": ["rbd", "a"], "free": 1, "total": 2}]) == (
        Unit(DesiredUnit(StorageType.RADOS, "a"), 2, 1),
    )


def test_a_node_may_have_no_unit() -> None:
    assert units.read_units("") == node_of([]) == ()


@given(keys)
def test_any_key_can_be_written(key: str) -> None:
    unit = Unit(DesiredUnit(StorageType.FILE, key), 2, -3, (True, False, key, ""))
    assert not {";", "|"} & set(units.write_units([unit]))
    assert units.read_units(units.write_units([unit, DESIGN[0]])) == (unit, DESIGN[0])
    disk = Disk(5, None, unit.desired, key)
    assert units.read_disks(units.write_disks([disk, Disk(6)])) == (disk, Disk(6))


def test_what_moves_leave_can_be_read_again() -> None:
    """More is free than there is, where a node told that its disks take less than they do."""
    assert units.read_units(units.write_units([Unit(SSD, 5, 7)])) == (Unit(SSD, 5, 5),)


def test_disks_are_written_no_longer_than_needed() -> None:
    disks = (Disk(5), Disk(6, None, SSD), Disk(7, 2, SSD), Disk(8, None, SSD, "meta,vg"))
    written = "5,-,-;6,lvm-vg,ssdvg;7,lvm-vg,ssdvg,2;8,lvm-vg,ssdvg,-,meta%2Cvg"
    assert units.write_disks(disks) == written
    assert units.read_disks(written) == disks
    assert units.read_disks("") == ()


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("1,2,lvm-vg", "expected FREE,TOTAL,TYPE,KEY, not '1,2,lvm-vg'"),
        ("1,2,lvm-vg,a;", "expected FREE,TOTAL,TYPE,KEY, not ''"),
        ("1,2,zfs,tank", "unknown storage type of 'zfs/tank', expected one of lvm-vg, .*, rbd"),
        ("1,2,lvm-vg,", "storage unit 'lvm-vg/': expected a key, .*"),
        ("1,2,file,%0A", r"storage unit 'file/\\n': expected a key, .*"),
        ("1,2,lvm-vg,a;1,2,lvm-vg,a", "lvm-vg/a appears more than once"),
        ("1,2,drbd,a;1,2,drbd8,a", "drbd8/a appears more than once"),
        ("3,2,lvm-vg,a", "lvm-vg/a: free: expected at most the total of 2 MiB, got 3"),
        ("1,-2,lvm-vg,a", "lvm-vg/a: total: cannot parse string '-2', expected a whole number from 0 .*"),
        ("1,1180591620717411303424,lvm-vg,a", "lvm-vg/a: total: .*'1180591620717411303424', expected .*"),
        ("x,2,lvm-vg,a", "lvm-vg/a: free: cannot parse string 'x', expected a whole number .*"),
    ],
)
def test_an_error_in_text_names_unit_and_field(written: str, error: str) -> None:
    with pytest.raises(DataError, match=f"^{error}$"):
        units.read_units(written)


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("5,-,-;5,lvm-vg", r"disk 1: expected SIZE,TYPE,KEY\[,.*, not '5,lvm-vg'"),
        ("5,lvm-vg,a,1,b,c", r"disk 0: expected SIZE,TYPE,KEY\[,.*, not '5,lvm-vg,a,1,b,c'"),
        ("5,-,-;5,file,/srv", "disk 1: disks of disk template plain cannot be on file//srv"),
        ("5,drbd8,a", "disk 0: disks of disk template plain cannot be on drbd8/a"),
        ("x,-,-", "disk 0: size: cannot parse string 'x', .*"),
        ("-5,-,-", "disk 0: size: cannot parse string '-5', .*"),
        ("1180591620717411303424,-,-", "disk 0: size: .*'1180591620717411303424'.*"),
        ("5,zfs,a", "disk 0: unknown storage type of 'zfs/a', .*"),
        ("5,lvm-vg,", "disk 0: storage unit 'lvm-vg/': expected a key, .*"),
        ("5,lvm-vg,a,x", "disk 0: spindles: cannot parse string 'x', .*"),
        ("5,lvm-vg,a,-,", "disk 0: metavg: storage unit 'lvm-vg/': .*"),
    ],
)
def test_an_error_in_text_names_disk_and_field(written: str, error: str) -> None:
    with pytest.raises(DataError, match=f"^{error}$"):
        units.read_disks(written, DiskTemplate.PLAIN)


def unit(**values: Any) -> dict[str, Any]:
    return {"sunit": ["lvm-vg", "a", []], "free": 1, "total": 2} | values


@pytest.mark.parametrize(
    ("storage", "error"),
    [
        ("x", "key 'storage': .*expected a list of objects, got 'x'"),
        ([1], "key 'storage': .*expected a list of objects, got .*"),
        ([{"free": 1, "total": 2}], "storage: key 'sunit' not found, .*"),
        ([unit(sunit=["lvm-vg"])], "storage: key 'sunit': .*expected a list of type, key and parameters.*"),
        ([unit(sunit=["lvm-vg", 7])], "storage: key 'sunit': .*expected a list of type, key and .*"),
        ([unit(sunit=["zfs", "a"])], "storage: key 'sunit': unknown storage type of 'zfs/a', .*"),
        ([unit(sunit=["lvm-vg", ""])], "storage: key 'sunit': storage unit 'lvm-vg/': expected a key, .*"),
        ([unit(sunit=["lvm-vg", "a", [1]])], "storage: lvm-vg/a: key 'sunit': .*list of booleans and .*"),
        ([unit(sunit=["lvm-vg", "a", 1])], "storage: lvm-vg/a: key 'sunit': .*list of booleans and .*"),
        ([unit(), unit()], "storage: lvm-vg/a appears more than once"),
        ([unit(free=3)], "storage: lvm-vg/a: free: expected at most the total of 2 MiB, got 3"),
        ([unit(total=-2)], "storage: lvm-vg/a: key 'total': .*, got -2"),
        ([unit(free=-2)], "storage: lvm-vg/a: key 'free': .*, got -2"),
        ([unit(total=2**70)], "storage: lvm-vg/a: key 'total': .*, got 1180591620717411303424"),
        ([unit(free="1")], "storage: lvm-vg/a: key 'free': .*, got '1'"),
        ([unit(free=None)], "storage: lvm-vg/a: key 'free': .*, got None"),
    ],
)
def test_an_error_in_json_names_node_unit_and_field(storage: Any, error: str) -> None:
    with pytest.raises(DataError, match=f"^invalid data for node 'node1': {error}$"):
        node_of(storage)


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        (DiskTemplate.PLAIN, {"vg": "ssdvg"}, SSD),
        (DiskTemplate.DRBD, {"vg": "ssdvg"}, SSD),
        (DiskTemplate.DRBD, {"vg": None}, None),
        (DiskTemplate.FILE, {"vg": "ssdvg"}, None),  # Ganeti tells it for them as well
        (DiskTemplate.RBD, {"vg": "ssdvg"}, None),
        (DiskTemplate.EXT, {"vg": "ssdvg", "provider": "san"}, SAN),
        (DiskTemplate.RBD, {"sunit": ["rbd", "fast", []]}, DesiredUnit(StorageType.RADOS, "fast")),
        (DiskTemplate.PLAIN, {"vg": "xenvg", "sunit": ["lvm-vg", "ssdvg"]}, SSD),
        (DiskTemplate.PLAIN, {}, None),
    ],
)
def test_what_names_the_unit_of_a_disk(
    template: DiskTemplate, values: dict[str, Any], expected: DesiredUnit | None
) -> None:
    assert disk_of(template, **values) == Disk(5, None, expected)


def test_only_drbd_has_metadata() -> None:
    assert disk_of(DiskTemplate.DRBD, vg="ssdvg", metavg="xenvg") == Disk(5, None, SSD, "xenvg")
    assert disk_of(DiskTemplate.PLAIN, vg="ssdvg", metavg="xenvg").metavg is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"vg": 7}, "key 'vg': Unable to read String, .*, got 7"),
        ({"vg": ""}, "key 'vg': storage unit 'lvm-vg/': expected a key, .*"),
        ({"vg": "a\nb"}, r"key 'vg': storage unit 'lvm-vg/a\\nb': expected a key, .*"),
        ({"metavg": []}, r"key 'metavg': Unable to read String, .*, got \[\]"),
        ({"sunit": "ssdvg"}, "key 'sunit': .*expected a list of type, key and parameters, got 'ssdvg'"),
        ({"sunit": ["zfs", "a"]}, "key 'sunit': unknown storage type of 'zfs/a', .*"),
        ({"sunit": ["file", "/srv"]}, "key 'sunit': disks of disk template drbd cannot be on file//srv"),
        ({"size": 2**70}, "key 'size': .*, got 1180591620717411303424"),
        ({"size": -1}, "key 'size': .*, got -1"),
    ],
)
def test_an_error_names_instance_and_field_of_a_disk(values: dict[str, Any], error: str) -> None:
    with pytest.raises(DataError, match=f"^invalid data for instance 'inst1': {error}$"):
        disk_of(DiskTemplate.DRBD, **values)


def cluster(*disks: Disk, storage: tuple[Unit, ...] | None = None) -> Cluster:
    node = Node("node1", "uuid-1", storage=storage)
    made = Instance("inst1", 1024, sum(disk.size for disk in disks), disks, 1, pnode="node1")
    return Cluster((Group("group1", "uuid-1"),), (node,), (made,))


def test_columns_are_written_where_there_is_more_to_say() -> None:
    assert not units.needs_disk_column(cluster(Disk(5), Disk(6)))
    assert not units.needs_disk_column(cluster(Disk(5, None, SSD), Disk(6, None, SSD), Disk(7, None, SAN)))
    assert units.needs_disk_column(
        cluster(Disk(5, None, SSD), Disk(6, None, DesiredUnit(StorageType.LVM_VG, "hddvg")))
    )
    assert units.needs_disk_column(cluster(Disk(5, None, SSD, "xenvg")))
    assert units.needs_disk_column(cluster(Disk(5), storage=()))


def test_default_units_remain_the_default() -> None:
    """Where nodes list others first, and some nodes and disks do not tell their units."""
    hdd = DesiredUnit(StorageType.LVM_VG, "hddvg")
    made = cluster(Disk(5), Disk(6, None, hdd), storage=(Unit(hdd, 9, 1), Unit(SSD, 8, 2)))
    silent = replace(made.nodes[0], name="node2", storage=None)
    told = replace(made, nodes=(*made.nodes, silent), default_units=(SSD, SAN))
    read = text.parse(text.dump(told), "x.data")
    assert units_in_use(read).local == units_in_use(told).local == (SSD, hdd)
    assert read.instances[0].disks == (Disk(5, None, SSD), Disk(6, None, hdd))
    assert read.nodes[1] == silent


@pytest.mark.parametrize("having", [0, 1])
def test_a_default_unit_that_few_nodes_have_remains_the_default(having: int) -> None:
    """The others list it without room, and lack it as before."""
    hdd, files = DesiredUnit(StorageType.LVM_VG, "hddvg"), DesiredUnit(StorageType.FILE, "/srv")
    made = cluster(Disk(5), Disk(6, None, hdd), storage=(Unit(hdd, 9, 1), Unit(SAN, 5, 5)))
    (first,) = made.nodes
    nodes = [replace(first, name=f"node{number}") for number in range(1, 4)]
    nodes = [replace(row, storage=(*(row.storage or ()), Unit(SSD, 8, 2))) for row in nodes[:having]] + nodes[
        having:
    ]
    told = replace(made, nodes=tuple(nodes), default_units=(SSD, SAN, files))
    read = text.parse(text.dump(told), "x.data")
    assert units_in_use(read).local == units_in_use(told).local == (SSD, hdd)
    assert storage_of(read, units_in_use(read)) == storage_of(told, units_in_use(told))
    assert availability(derive(read).columns).tolist() == availability(derive(told).columns).tolist()
    assert text.dump(read) == text.dump(told)


def test_a_default_unit_alone_is_nothing_to_say() -> None:
    plain = cluster(Disk(5), Disk(6))
    assert text.dump(replace(plain, default_units=(SSD, SAN))) == text.dump(plain)


def columns(line: str) -> int:
    return line.count("|") + 1


def test_files_of_clusters_with_one_unit_are_what_they_were() -> None:
    plain = text.dump(cluster(Disk(5, None, SSD), Disk(6, None, SSD)))
    assert plain == text.dump(cluster(Disk(11)))
    assert [columns(line) for line in plain.splitlines()] == [5, 1, 15, 1, 13, 1, 1, 6, 6]
    told = text.dump(cluster(Disk(5, None, SSD), Disk(6), storage=DESIGN))
    assert [columns(line) for line in told.splitlines()] == [5, 1, 16, 1, 14, 1, 1, 6, 6]


@pytest.mark.parametrize("seed", range(20))
def test_requests_and_files_tell_the_same(seed: int) -> None:
    case = case_with_units(seed)
    read, message = rows(case.data), iallocator.read(case.text.encode()).cluster
    assert [node.storage for node in read.nodes] == [node.storage for node in message.nodes]
    assert [row.disks for row in read.instances] == [row.disks for row in message.instances]
    assert [row.dsk for row in read.instances] == [row.dsk for row in message.instances]
    assert text.parse(text.dump(read), "x.data") == read
    written = text.parse(text.dump(message), "x.data")
    assert [node.storage for node in written.nodes] == [node.storage for node in read.nodes]
    assert [row.disks for row in written.instances] == [row.disks for row in message.instances]
