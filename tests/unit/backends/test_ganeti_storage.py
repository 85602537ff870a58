import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.backends import ganeti_storage
from ganeti_htools.backends.fields import Fields
from ganeti_htools.model.cluster import Cluster, Disk
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.known_storage import UnitSpace
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.storage_units import query_disks
from tests.unit.simulator import test_storage_units as simulated

LVM, FILE, RADOS = StorageType.LVM_VG, StorageType.FILE, StorageType.RADOS
SSD, HDD = DesiredUnit(LVM, "ssd"), DesiredUnit(LVM, "hdd")
SETTINGS: dict[str, Any] = {
    "enabled_disk_templates": ["drbd", "plain", "file", "newest"],
    "volume_group_name": "hdd",
    "file_storage_dir": "/srv/files",
    "shared_file_storage_dir": "",
    "gluster_storage_dir": None,
    "diskparams": {"drbd": {"metavg": "meta"}, "rbd": {"pool": "rbd"}, "ext": {}},
}


def plain(group: str, size: int) -> dict[str, Any]:
    return {"dev_type": "plain", "logical_id": [group, "volume"], "size": size}


CONFIGURATION: dict[str, Any] = {
    "cluster": SETTINGS,
    "nodegroups": {"g1": {"diskparams": {}}, "g2": {"diskparams": {"rbd": {"pool": "fast"}}}, "g3": 5},
    "nodes": {"n1": {"group": "g1"}, "n2": {"group": "g2"}, "n3": 5},
    "disks": {
        "mirrored": {
            "dev_type": "drbd",
            "logical_id": ["n1", "n2", 11000, 0, 0, "secret"],
            "size": 500,
            "children": [plain("ssd", 500), plain("hdd", 128)],
        },
        "same": {
            "dev_type": "drbd",
            "logical_id": ["n1", "n2", 11001, 1, 1, "secret"],
            "size": 100,
            "spindles": 2,
            "children": [plain("ssd", 100), plain("ssd", 128)],
        },
        "plain": plain("hdd", 70),
        "filed": {"dev_type": "file", "logical_id": ["loop", "/srv/files/more/web/a"], "size": 1},
        "apart": {"dev_type": "file", "logical_id": ["loop", "/mnt/old/web/b"], "size": 2},
        "ceph": {"dev_type": "rbd", "logical_id": ["rbd", "uuid.rbd.disk0"], "size": 3},
        "ext": {"dev_type": "ext", "logical_id": ["vendor", "uuid.ext.disk0"], "size": 4},
        "gluster": {"dev_type": "gluster", "logical_id": ["loop", "ganeti/uuid"], "size": 5},
    },
    "instances": {
        "u1": {"name": "one", "primary_node": "n1", "disks": ["mirrored", "same"]},
        "u2": {"name": "two", "primary_node": "n1", "disks": ["plain", "filed", "apart"]},
        "u3": {"name": "three", "primary_node": "n1", "disks": ["ceph", "ext", "gluster"]},
        "u4": {"name": "four", "primary_node": "n2", "disks": ["ceph"]},
        "u5": {"name": "five", "primary_node": "n1", "disks": []},
    },
}


def read(document: Any) -> ganeti_storage.DiskLocations:
    return ganeti_storage.configured_disks(json.dumps(document).encode())


def test_settings() -> None:
    fields = Fields("cluster", SETTINGS)
    units = {HDD, DesiredUnit(FILE, "/srv/files"), DesiredUnit(RADOS, "rbd")}
    assert set(ganeti_storage.default_units(fields)) == units
    assert ganeti_storage.metavg(fields) == "meta"
    templates = (DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.FILE)
    assert ganeti_storage.enabled_templates(fields) == templates


def test_settings_that_are_not_told() -> None:
    fields = Fields("cluster", {"diskparams": {"drbd": None}})
    assert (ganeti_storage.default_units(fields), ganeti_storage.metavg(fields)) == ((), None)
    assert ganeti_storage.enabled_templates(fields) is None


@pytest.mark.parametrize(
    "changes", [{"volume_group_name": 5}, {"diskparams": []}, {"diskparams": {"rbd": {"pool": 5}}}]
)
def test_settings_that_cannot_be_read(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=f"^cluster: key '(pool|{next(iter(changes))})'"):
        ganeti_storage.default_units(Fields("cluster", SETTINGS | changes))


def test_where_disks_are() -> None:
    found = read(CONFIGURATION)
    assert found.wrong == ()
    assert found.disks == {
        "one": (Disk(500, None, SSD, "hdd"), Disk(100, 2, SSD)),
        "two": (
            Disk(70, None, HDD),
            Disk(1, None, DesiredUnit(FILE, "/srv/files")),
            Disk(2, None, DesiredUnit(FILE, "/mnt/old")),
        ),
        "three": (
            Disk(3, None, DesiredUnit(RADOS, "rbd")),
            Disk(4, None, DesiredUnit(StorageType.EXT, "vendor")),
            Disk(5),
        ),
        "four": (Disk(3, None, DesiredUnit(RADOS, "fast")),),
        "five": (),
    }


@pytest.mark.parametrize("key", ["dev_type", "logical_id", "size", "children"])
@pytest.mark.parametrize("value", [None, 5, "x", [], [[]], {}, ["a", "b", "c"], 1 << 70])
def test_damage_leaves_out_whom_it_concerns(key: str, value: Any) -> None:
    damaged = copy.deepcopy(CONFIGURATION)
    damaged["disks"]["mirrored"][key] = value
    found = read(damaged)
    unread = {} if key == "logical_id" or (key, value) == ("size", 5) else {"one"}
    assert set(found.disks) == {"one", "two", "three", "four", "five"} - set(unread)
    assert all(line.startswith("instance one: disk: ") for line in found.wrong)
    assert len(found.wrong) == len(unread)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"cluster": {}, "disks": []}', b"{" * 200])
def test_what_is_no_configuration(data: bytes) -> None:
    with pytest.raises(DataError, match=r"^Ganeti's configuration: "):
        ganeti_storage.configured_disks(data)


def test_what_jobs_tell_of_disks() -> None:
    world = simulated.world()
    found = ganeti_storage.queried_disks(query_disks(world, {}), [DesiredUnit(FILE, "/srv/files")], {})
    rows = {row.name: row.disks for row in world.cluster.instances}
    assert (found.disks, found.wrong) == (rows, ())
    answer = {"x": {"pnode_group_uuid": "g2", "disks": [CONFIGURATION["disks"]["ceph"]]}, "y": {"disks": 5}}
    found = ganeti_storage.queried_disks(answer, [DesiredUnit(RADOS, "rbd")], {"g2": "fast"})
    assert found.disks == {"x": (Disk(3, None, DesiredUnit(RADOS, "fast")),)}
    assert len(found.wrong) == 1


def test_what_nodes_have() -> None:
    good = [["one", "hdd", 900, 800], ["one", "ssd", 90, 0], ["two", "hdd", 900, 900]]
    found, wrong = ganeti_storage.reports({LVM: good, FILE: [["two", "/srv", 5, 4]]})
    assert wrong == ()
    assert found == {
        "one": {HDD: UnitSpace(900, 800), SSD: UnitSpace(90, 0)},
        "two": {HDD: UnitSpace(900, 900), DesiredUnit(FILE, "/srv"): UnitSpace(5, 4)},
    }


@pytest.mark.parametrize(
    "row",
    [
        ["one", "ssd", "9", 1],
        ["one", "ssd", 9, 10],
        ["one", "ssd", 1 << 70, 1],
        ["one", "ssd", 9, -1],
        ["one", "s\nd", 9, 1],
        ["one", "hdd", 9, 1],
        ["one"],
    ],
)
def test_nonsense_of_a_node_concerns_that_node(row: list[Any]) -> None:
    found, wrong = ganeti_storage.reports({LVM: [["one", "hdd", 900, 800], row, ["two", "hdd", 1, 1]]})
    assert found == {"two": {HDD: UnitSpace(1, 1)}}
    assert [line.startswith("node one: storage of type lvm-vg: expected ") for line in wrong] == [True]


def test_what_the_daemon_tells_is_what_it_knows() -> None:
    world = simulated.world()
    plain = replace(
        world.cluster,
        nodes=tuple(replace(node, storage=None) for node in world.cluster.nodes),
        instances=tuple(
            replace(row, disks=tuple(replace(disk, unit=None, metavg=None) for disk in row.disks))
            for row in world.cluster.instances
        ),
    )
    fast = DesiredUnit(RADOS, "fast")
    known = replace(
        world.cluster,
        pools=(Pool(fast, 500, 20, allocation_ratio=1.5, taken=7),),
        pool_settings=((fast, Inventory(500, 3, 5, 100, 10)),),
    )
    said = json.loads(json.dumps(ganeti_storage.storage_to_json(known)))
    assert ganeti_storage.with_storage_json(plain, said) == known
    assert ganeti_storage.with_storage_json(plain, ganeti_storage.storage_to_json(plain)) == plain


@pytest.mark.parametrize(
    "said",
    [5, {}, {"nodes": {"one": 5}, "instances": {}}, {"nodes": {"one": "x"}, "instances": {}, "pools": []}],
)
def test_what_the_daemon_would_not_tell(said: Any) -> None:
    with pytest.raises(DataError):
        ganeti_storage.with_storage_json(Cluster(), said)
