from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError, check
from ganeti_htools.simulator.queries import cluster_info
from ganeti_htools.simulator.world import World, begin, lose, with_role
from tests.support import worlds
from tests.support.worlds import instance, node, opcode, replace_disks

HDD, SSD = DesiredUnit(StorageType.LVM_VG, "hdd"), DesiredUnit(StorageType.LVM_VG, "ssd")
FILES = DesiredUnit(StorageType.FILE, "/srv/files")


def units(hdd: int, ssd: int | None = None, *more: Unit) -> tuple[Unit, ...]:
    """The units of a node, of 9,000 MiB each, with so much free."""
    found = (Unit(HDD, 9000, hdd), *more)
    return found if ssd is None else (*found, Unit(SSD, 9000, ssd))


def world(**storage: Any) -> World:
    """Nodes with an instance whose disks lie on two groups, and with one in files."""
    disks = (Disk(500, unit=HDD), Disk(300, unit=SSD, metavg="hdd"))
    row = replace(instance("mirrored", DiskTemplate.DRBD, "one", "two"), disks=disks, dsk=1056)
    filed = replace(instance("filed", DiskTemplate.FILE, "one"), disks=(Disk(100, unit=FILES),), dsk=0)
    there = {
        "one": units(8000, 8000, Unit(FILES, 700, 600)),
        "two": units(8000, 8000),
        "three": units(2000, 2000),
    }
    rows = tuple(node(name, storage=found) for name, found in (there | storage).items())
    return begin(Cluster((Group("default", "uuid"),), rows, (row, filed)))


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


def test_a_new_secondary_takes_its_disks_from_their_groups_and_gives_others_back() -> None:
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
def test_a_group_that_is_full_or_missing_is_noticed(storage: Any, text: str) -> None:
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
def test_the_own_group_may_be_for_mirrored_disks_and_a_reservation_needs_none(
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


def test_a_node_is_asked_for_its_groups() -> None:
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


def test_nodes_that_do_not_answer_are_missing() -> None:
    now = with_role(lose(world(), "two"), "three", offline=True, drained=False)
    assert {row[0] for row in asked(now)} == {"one"}
    assert [row.storage for row in now.described().nodes[1:]] == [None, None]


def test_a_node_that_tells_no_units_has_the_clusters_group() -> None:
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
def test_questions_that_are_refused(fields: dict[str, Any], text: str) -> None:
    now = world()
    templates = (DiskTemplate.DRBD, DiskTemplate.FILE)
    policy = replace(now.cluster.ipolicy, disk_templates=templates)
    now = replace(now, cluster=replace(now.cluster, ipolicy=policy))
    with pytest.raises(OpcodeError, match=text):
        asked(now, **fields)


def test_the_settings_are_those_of_the_units() -> None:
    info = cluster_info(world())
    assert (info["volume_group_name"], info["file_storage_dir"]) == ("hdd", "/srv/files")
    assert cluster_info(worlds.world())["volume_group_name"] == "xenvg"


def test_disks_tell_where_they_are() -> None:
    answer = ask(world(), "INSTANCE_QUERY_DATA", instances=["mirrored"], static=True)
    disks = answer["mirrored"]["disks"]
    parts = [[part["logical_id"][0] for part in disk["children"]] for disk in disks]
    assert (list(answer), parts) == (["mirrored"], [["hdd", "hdd"], ["ssd", "hdd"]])
    assert [part["size"] for part in disks[1]["children"]] == [300, 128]
    everything = ask(world(), "INSTANCE_QUERY_DATA", static=True)
    assert everything["filed"]["disks"][0]["logical_id"][1].startswith("/srv/files/filed/")
    with pytest.raises(OpcodeError, match="Instance 'nobody' not known"):
        ask(world(), "INSTANCE_QUERY_DATA", instances=["nobody"])
