from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError, check
from ganeti_htools.simulator.queries import cluster_info
from ganeti_htools.simulator.world import World, initial_world, lose_node, with_role
from tests.support import worlds
from tests.support.worlds import instance, node, opcode, replace_disks

HDD, SSD = DesiredUnit(StorageType.LVM_VG, "hdd"), DesiredUnit(StorageType.LVM_VG, "ssd")
FILES = DesiredUnit(StorageType.FILE, "/srv/files")


def units(hdd: int, ssd: int | None = None, *more: Unit) -> tuple[Unit, ...]:
    """Return the units of a node, of 9,000 MiB each, with so much free."""
    found = (Unit(HDD, 9000, hdd), *more)
    return found if ssd is None else (*found, Unit(SSD, 9000, ssd))


def world(**storage: Any) -> World:
    """Return nodes with an instance on two volume groups, and one in files."""
    disks = (Disk(500, unit=HDD), Disk(300, unit=SSD, metavg="hdd"))
    row = replace(instance("mirrored", DiskTemplate.DRBD, "one", "two"), disks=disks, dsk=1056)
    filed = replace(instance("filed", DiskTemplate.FILE, "one"), disks=(Disk(100, unit=FILES),), dsk=0)
    there = {
        "one": units(8000, 8000, Unit(FILES, 700, 600)),
        "two": units(8000, 8000),
        "three": units(2000, 2000),
    }
    rows = tuple(node(name, storage=found) for name, found in (there | storage).items())
    return initial_world(Cluster((Group("default", "uuid"),), rows, (row, filed)))


def free(now: World, name: str) -> dict[str, int]:
    row = now.node(name)
    assert row
    assert row.storage
    return {unit.desired.key: unit.free for unit in row.storage}


def ask(now: World, name: str, /, **fields: Any) -> Any:
    return carry_out(now, check(opcode(name, **fields)))[1]


def asked(now: World, kind: str | None = "lvm-vg", **fields: Any) -> Any:
    columns = fields.pop("output_fields", ["node", "name", "size", "free"])
    return ask(now, "NODE_QUERY_STORAGE", output_fields=columns, storage_type=kind, **fields)


def test_new_secondary_takes_disks_from_their_groups() -> None:
    now, _ = carry_out(world(), replace_disks("mirrored", "three"))
    assert free(now, "three") == {"hdd": 2000 - 500 - 128 - 128, "ssd": 2000 - 300}
    assert free(now, "two") == {"hdd": 8000 + 500 + 128 + 128, "ssd": 8000 + 300}
    assert free(now, "one") == free(world(), "one")
    back, _ = carry_out(now, replace_disks("mirrored", "two"))
    assert back == world()


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ({"three": units(2000, 299)}, "no space on lvm-vg/ssd"),
        ({"three": units(755, 2000)}, "no space on lvm-vg/hdd"),
        ({"three": units(2000)}, "no space on lvm-vg/ssd"),
        ({"one": (Unit(SSD, 9000, 8000),)}, "Volume group 'hdd' not found on node one"),
    ],
)
def test_refuses_full_or_missing_groups(storage: Any, text: str) -> None:
    with pytest.raises(OpcodeError, match=text):
        carry_out(world(**storage), replace_disks("mirrored", "three"))
    carry_out(world(three=units(756, 300)), replace_disks("mirrored", "three"))


@pytest.mark.parametrize(
    ("storage", "forthcoming"),
    [
        ((Unit(SSD, 9000, 8000),), True),
        ((Unit(SSD, 9000, 8000), Unit(DesiredUnit(StorageType.DRBD, "hdd"), 9000, 8000)), False),
    ],
)
def test_drbd_group_counts_as_default_group_and_forthcoming_disks_need_none(
    storage: tuple[Unit, ...], forthcoming: bool
) -> None:
    now = world(one=storage)
    row = now.instance("mirrored")
    assert row
    row = replace(row, forthcoming=forthcoming, disks=(Disk(500, unit=SSD, metavg="ssd"),), dsk=628)
    now, _ = carry_out(now.with_instance(row), replace_disks("mirrored", "three"))
    moved = now.instance("mirrored")
    assert moved
    assert moved.snode == "three"


def test_query_lists_the_groups_of_nodes() -> None:
    now = world()
    assert asked(now, nodes=["one", "three"]) == [
        ["one", "hdd", 9000, 8000],
        ["one", "ssd", 9000, 8000],
        ["three", "hdd", 9000, 2000],
        ["three", "ssd", 9000, 2000],
    ]
    assert asked(now, "file") == [["one", "/srv/files", 700, 600]]
    assert asked(now, "file", output_fields=["type", "used", "allocatable"]) == [["file", 100, True]]
    assert asked(now, name="ssd", nodes=["two"]) == [["two", "ssd", 9000, 8000]]
    assert asked(now, "lvm-pv") == []
    assert asked(now, "ext") == []


def test_query_omits_silent_nodes() -> None:
    now = with_role(lose_node(world(), "two"), "three", offline=True, drained=False)
    assert {row[0] for row in asked(now)} == {"one"}
    assert [row.storage for row in now.file_cluster().nodes[1:]] == [None, None]


def test_node_without_units_has_the_default_group() -> None:
    assert asked(world(two=None), nodes=["two"]) == [["two", "hdd", 9000, 9000]]
    assert asked(worlds.world(), nodes=["one"]) == [["one", "xenvg", 9000, 8000]]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"output_fields": ["name", "color"]}, "Unknown output fields selected: color"),
        ({"nodes": ["one", "nobody"]}, "Node 'nobody' not known"),
        ({"kind": "ext"}, "No disk template of storage type 'ext' is enabled in this cluster. .* drbd,file"),
    ],
)
def test_refuses_invalid_storage_queries(fields: dict[str, Any], text: str) -> None:
    now = world()
    templates = (DiskTemplate.DRBD, DiskTemplate.FILE)
    policy = replace(now.cluster.ipolicy, disk_templates=templates)
    now = replace(now, cluster=replace(now.cluster, ipolicy=policy))
    with pytest.raises(OpcodeError, match=text):
        asked(now, **fields)


def test_settings_name_the_default_units() -> None:
    info = cluster_info(world())
    assert (info["volume_group_name"], info["file_storage_dir"]) == ("hdd", "/srv/files")
    assert cluster_info(worlds.world())["volume_group_name"] == "xenvg"


def test_instance_query_names_the_units_of_disks() -> None:
    answer = ask(world(), "INSTANCE_QUERY_DATA", instances=["mirrored"], static=True)
    disks = answer["mirrored"]["disks"]
    parts = [[part["logical_id"][0] for part in disk["children"]] for disk in disks]
    assert (list(answer), parts) == (["mirrored"], [["hdd", "hdd"], ["ssd", "hdd"]])
    assert [part["size"] for part in disks[1]["children"]] == [300, 128]
    everything = ask(world(), "INSTANCE_QUERY_DATA", static=True)
    assert everything["filed"]["disks"][0]["logical_id"][1].startswith("/srv/files/filed/")
    with pytest.raises(OpcodeError, match="Instance 'nobody' not known"):
        ask(world(), "INSTANCE_QUERY_DATA", instances=["nobody"])


def test_diskless_instance_has_no_disks_in_the_query() -> None:
    rows = world().cluster
    row = replace(instance("web", DiskTemplate.DISKLESS, "one"), disks=(Disk(0),))
    now = initial_world(replace(rows, instances=(row,)))
    assert ask(now, "INSTANCE_QUERY_DATA", static=True)["web"]["disks"] == []


def created(now: World, **fields: Any) -> World:
    """Return the world with a new instance that has its disk on ssd and its metadata on hdd."""
    new = {
        "instance_name": "new",
        "disk_template": "drbd",
        "disks": [{"size": 300, "vg": "ssd"}],
        "beparams": {"maxmem": 500, "vcpus": 2},
        "pnode": "one",
        "snode": "three",
    }
    return carry_out(now, check(opcode("INSTANCE_CREATE", **(new | fields))))[0]


def test_new_instance_takes_memory_and_disks() -> None:
    now = created(world())
    row, primary = now.instance("new"), now.node("one")
    assert row
    assert primary
    assert (row.pnode, row.snode, row.mem, row.vcpus, row.dsk) == ("one", "three", 500, 2, 428)
    assert row.disks == (Disk(300, unit=SSD, metavg="hdd"),)
    assert primary.f_mem == 4000 - 500
    for name in ("one", "three"):
        before = free(world(), name)
        assert free(now, name) == before | {"hdd": before["hdd"] - 128, "ssd": before["ssd"] - 300}


def test_new_instance_is_in_the_rbd_pool_of_its_group() -> None:
    now = world()
    pooled = replace(now.cluster, groups=(replace(now.cluster.groups[0], rbd_pool="fast"),))
    rbd = {"disk_template": "rbd", "disks": [{"size": 300}], "snode": None}
    row = created(replace(now, cluster=pooled), **rbd).instance("new")
    assert row
    assert row.disks == (Disk(300, unit=DesiredUnit(StorageType.RADOS, "fast")),)


def test_metadata_counts_on_the_group_of_the_data() -> None:
    with pytest.raises(OpcodeError, match="vg ssd: required 428 MiB, available 427 MiB"):
        created(world(three=units(2000, 427)))
    assert free(created(world(three=units(2000, 428))), "three") == {"hdd": 1872, "ssd": 128}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"instance_name": "mirrored"}, "Instance 'mirrored' is already in the cluster"),
        ({"snode": None}, "No nodes for the instance, and iallocators are not simulated"),
        ({"snode": "one"}, "The secondary node cannot be the primary node"),
        ({"snode": "none"}, "Node 'none' not known"),
        ({"disks": [{"size": 5, "vg": "none"}]}, "Can't compute free disk space on node one for vg none"),
        ({"beparams": {"maxmem": 5000}}, "Not enough memory on node one"),
    ],
)
def test_refuses_impossible_new_instances(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(OpcodeError, match=text):
        created(world(), **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"disk_template": "tape"},
        {"disks": [5]},
        {"disks": [{"size": "x"}]},
        {"beparams": {"maxmem": "x"}},
        {"beparams": [1]},
        {"pnode": 5},
    ],
)
def test_refuses_unreadable_new_instances(fields: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        created(world(), **({"instance_name": "new"} | fields))


def converted(now: World, **fields: Any) -> World:
    return carry_out(now, check(opcode("INSTANCE_SET_PARAMS", instance_name="plain", **fields)))[0]


def plain(now: World, status: Status = Status.DOWN) -> World:
    row = replace(instance("plain", DiskTemplate.PLAIN, "one"), disks=(Disk(300, unit=SSD),), dsk=300)
    cluster = replace(now.cluster, instances=(*now.cluster.instances, replace(row, status=status)))
    return replace(now, cluster=cluster)


def test_plain_instance_becomes_mirrored() -> None:
    """The space on the primary, which only gets the metadata, is not checked."""
    now = plain(world(one=units(128, 0), three=units(128, 428)))
    now = converted(now, disk_template="drbd", remote_node="three")
    row = now.instance("plain")
    assert row
    assert (row.template, row.snode, row.dsk) == (DiskTemplate.DRBD, "three", 428)
    assert (free(now, "one"), free(now, "three")) == ({"hdd": 0, "ssd": 0}, {"hdd": 0, "ssd": 128})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"disk_template": "plain"}, "Only conversions from plain to drbd are simulated"),
        ({"disk_template": "drbd"}, "No new node"),
        ({"disk_template": "drbd", "remote_node": "one"}, "is the same as the primary node"),
        ({"disk_template": "drbd", "remote_node": "three"}, "required 428 MiB, available 427 MiB"),
    ],
)
def test_refuses_other_conversions(fields: dict[str, str], text: str) -> None:
    with pytest.raises(OpcodeError, match=text):
        converted(plain(world(three=units(2000, 427))), **fields)
    with pytest.raises(OpcodeError):
        converted(plain(world(), Status.RUNNING), disk_template="drbd", remote_node="three")
