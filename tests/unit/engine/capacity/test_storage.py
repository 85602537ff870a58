from dataclasses import replace

from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.storage import LocalUnit, SharedPool, UnitOnNode, storage_of
from ganeti_htools.model.cluster import Disk, Node
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import units_in_use
from tests.support.by_hand import instance


def test_each_unit_with_the_nodes_that_have_it() -> None:
    cluster = simu.parse(["p,2,100,4,4;lvm-vg,ssdvg,20", "p,1,30,4,4"])
    dead = Node("dead", cluster.groups[0].uuid, offline=True)
    cluster = replace(cluster, nodes=(*cluster.nodes, dead))
    found = storage_of(cluster, units_in_use(cluster))
    assert found.nodes == ("node-01-001", "node-01-002", "node-02-001", "dead")
    assert found.units == (
        LocalUnit(
            "lvm-vg",
            "xenvg",
            (
                UnitOnNode("node-01-001", 100, 100),
                UnitOnNode("node-01-002", 100, 100),
                UnitOnNode("node-02-001", 30, 30),
            ),
        ),
        LocalUnit("lvm-vg", "ssdvg", (UnitOnNode("node-01-001", 20, 20), UnitOnNode("node-01-002", 20, 20))),
    )
    assert found.pools == ()


def test_of_a_pool_the_least_that_nodes_tell() -> None:
    cluster = simu.parse(["p,2,100,4,4;rbd,vms,20"])
    units = cluster.nodes[1].storage or ()
    later = replace(cluster.nodes[1], storage=(units[0], units[1]._replace(free=15)))
    cluster = replace(cluster, nodes=(cluster.nodes[0], later))
    names = ("node-01-001", "node-01-002")
    assert storage_of(cluster, units_in_use(cluster)).pools == (
        SharedPool("rados", "vms", 0, 20, 15, names, True),
    )


def test_a_pool_that_only_instances_tell_of_is_seen_by_all() -> None:
    cluster = simu.parse(["p,1,100,4,4;lvm-vg,ssdvg,20"])
    cluster = replace(cluster, instances=(instance("i", DiskTemplate.RBD, "node-01-001"),))
    found = storage_of(cluster, units_in_use(cluster)).pools
    assert found == (SharedPool("rados", "", 1024, None, None, ("node-01-001",), True),)


def test_without_units_there_is_one_without_a_name() -> None:
    cluster = simu.parse(["p,1,100,4,4"])
    assert storage_of(cluster, units_in_use(cluster)).units == (
        LocalUnit(None, None, (UnitOnNode("node-01-001", 100, 100),)),
    )


def test_of_a_pool_that_no_node_tells_of_there_is_what_instances_leave() -> None:
    cluster = simu.parse(["p,1,100,4,4;lvm-vg,ssdvg,20"])
    fast = DesiredUnit(StorageType.RADOS, "fast")
    row = instance("i", DiskTemplate.RBD, "node-01-001")
    row = replace(row, disks=(Disk(30, unit=fast), Disk(5, unit=fast)), dsk=35)
    for room, free in ((Pool(fast, 100, 20), 45), (Pool(fast, 50, 20), 0), (Pool(fast, 30, 30), 0)):
        known = replace(cluster, instances=(row,), pools=(room,))
        found = storage_of(known, units_in_use(known)).pools
        names = ("node-01-001",)
        assert found == (SharedPool("rados", "fast", 35, room.total - room.reserved, free, names, True),)
    for measured, free in ((50, 30), (90, 45), (10, 0)):  # 20 are reserved
        known = replace(cluster, instances=(row,), pools=(Pool(fast, 100, 20, free=measured),))
        assert storage_of(known, units_in_use(known)).pools[0].free == free
    shared = Pool(fast, 100, free=30, taken=35)  # others have 35 of it, and this cluster 35
    assert storage_of(known, units_in_use(known)).pools[0].free == 0
    known = replace(known, pools=(shared,))
    assert storage_of(known, units_in_use(known)).pools[0].free == 30
    listed = replace(cluster.nodes[0], storage=(*(cluster.nodes[0].storage or ()), Unit(fast, 9, 8)))
    known = replace(known, nodes=(listed,))
    assert storage_of(known, units_in_use(known)).pools[0].total == 9


def test_a_pool_is_there_where_no_node_tells_its_units() -> None:
    cluster = simu.parse(["p,2,100,4,4"])
    fast, other = (DesiredUnit(StorageType.RADOS, key) for key in ("fast", "other"))
    first, second = cluster.nodes
    row = replace(instance("i", DiskTemplate.RBD, first.name), disks=(Disk(30),), dsk=30)
    on_other = replace(row, name="j", disks=(Disk(5, unit=other),), dsk=5)
    nodes = (replace(first, tags=("htools:storage:rados/fast",)), second)
    cluster = replace(
        cluster, nodes=nodes, instances=(row, on_other), default_units=(fast,), pools=(Pool(fast, 100, 20),)
    )
    found = storage_of(cluster, units_in_use(cluster))
    assert found.pools == (SharedPool("rados", "fast", 30, 80, 50, (first.name,), False),)
    assert found.units[0].key is None
