from dataclasses import replace

from ganeti_htools.backends import simu
from ganeti_htools.cli.report.storage_left import RemainingSpace, StorageLeft, storage_left
from ganeti_htools.engine.capacity.counting import standard
from ganeti_htools.engine.capacity.scope import chosen_scope
from ganeti_htools.model.cluster import Cluster, Disk
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from ganeti_htools.model.types import DiskTemplate, Fail
from ganeti_htools.planning.view import View, state_of

SSD, VMS = DesiredUnit(StorageType.LVM_VG, "ssdvg"), DesiredUnit(StorageType.RADOS, "vms")


def left(kind: InstanceKind, size: InstanceSize, limit: int | None = None, *units: str) -> StorageLeft | None:
    cluster = simu.parse([";".join(["p,2,100g,64g,64", *units])])
    state = state_of(cluster, View(min_disk=0.1))
    site = chosen_scope(state, PlacementOptions(capacity=False))
    return storage_left(state, standard(state, kind, size, site, limit), kind, size, site)


def test_what_is_left_and_what_ends_first() -> None:
    kind = InstanceKind(DiskTemplate.PLAIN, 1, disks=(Disk(10240, 1), Disk(3072, 0, SSD)))
    found = left(kind, InstanceSize(128, 13312, 1), None, "lvm-vg,ssdvg,10000", "rbd,vms,5g")
    # Of 102400 and 10000 MiB a tenth stays free on each node.
    assert found == StorageLeft(
        (
            RemainingSpace("lvm-vg", "xenvg", 204800, 2 * (92160 - 2 * 10240), 92160 - 2 * 10240),
            RemainingSpace("lvm-vg", "ssdvg", 20000, 2 * (9000 - 2 * 3072), 9000 - 2 * 3072),
        ),
        (RemainingSpace("rados", "vms", 5120, 5120),),
        "disk space on lvm-vg/ssdvg; closest: node-01-001 lacks 216 MiB",
    )


def test_a_pool_that_ends_first() -> None:
    kind = InstanceKind(DiskTemplate.RBD, 1, VMS)
    found = left(kind, InstanceSize(128, 1024, 1), None, "rbd,vms,5g", "rbd,other,5g")
    assert found
    assert found.ends_first == "space in rados/vms, which lacks 1 MiB"
    assert found.pools == (
        RemainingSpace("rados", "other", 5120, 5120),
        RemainingSpace("rados", "vms", 5120, 1024),
    )


def test_a_pool_of_which_nobody_tells_how_much_is_left() -> None:
    kind = InstanceKind(DiskTemplate.EXT, 1, DesiredUnit(StorageType.EXT, "san"))
    found = left(kind, InstanceSize(128, 1024, 1), 1, "rbd,vms,5g")
    assert found
    assert found.pools == (
        RemainingSpace("ext", "san", None, None),
        RemainingSpace("rados", "vms", 5120, 5120),
    )


def test_nothing_is_told_while_no_node_tells_its_units() -> None:
    assert left(InstanceKind(DiskTemplate.PLAIN, 1), InstanceSize(128, 1024, 1)) is None


def test_nodes_that_never_had_room_do_not_count() -> None:
    """Memory ends on the two nodes that have the unit; three have none."""
    state = derive(one_group(simu.parse(["p,2,100g,64g,64;lvm-vg,ssdvg,1t", "p,3,100g,64g,64"])))
    site = chosen_scope(state, PlacementOptions(capacity=False))
    kind, size = InstanceKind(DiskTemplate.PLAIN, 1, SSD), InstanceSize(8192, 1024, 1)
    result = standard(state, kind, size, site, None)
    assert (result.placed, result.failures[Fail.MEM], result.failures[Fail.DISK]) == (14, 2, 3)
    found = storage_left(state, result, kind, size, site)
    assert found
    assert found.ends_first == "memory; closest: node-01-001 lacks 1 MiB"


def test_where_a_node_would_still_do_it_is_redundancy_that_ends() -> None:
    state = derive(simu.parse(["p,2,100g,64g,64;lvm-vg,ssdvg,10g"]))
    site = chosen_scope(state, PlacementOptions())
    kind, size = InstanceKind(DiskTemplate.PLAIN, 1, SSD), InstanceSize(128, 4096, 1)
    result = standard(state, kind, size, site, None)
    assert result.failures[Fail.N1]
    found = storage_left(state, result, kind, size, site)
    assert found
    assert str(found.ends_first).startswith("N+1 redundancy; ")


def one_group(cluster: Cluster) -> Cluster:
    group = cluster.groups[0]
    nodes = tuple(replace(node, group=group.uuid) for node in cluster.nodes)
    return replace(cluster, groups=(group,), nodes=nodes)


def test_of_a_pool_something_is_told_while_no_node_tells_its_units() -> None:
    cluster = replace(simu.parse(["p,2,100g,64g,64"]), default_units=(VMS,), pools=(Pool(VMS, 5120),))
    kind, size = InstanceKind(DiskTemplate.RBD, 1), InstanceSize(128, 1024, 1)
    state = state_of(cluster, View())
    site = chosen_scope(state, PlacementOptions(capacity=False))
    found = storage_left(state, standard(state, kind, size, site, None), kind, size, site)
    lacks = "space in rados/vms, which lacks 1 MiB"
    assert found == StorageLeft((), (RemainingSpace("rados", "vms", 5120, 1024),), lacks)


def test_policy_that_forbids_the_template_ends_first() -> None:
    cluster = simu.parse(["p,2,100g,64g,64;lvm-vg,ssdvg,10g"])
    [group] = cluster.groups
    policy = replace(group.ipolicy, disk_templates=(DiskTemplate.PLAIN, DiskTemplate.EXT))
    state = derive(replace(cluster, groups=(replace(group, ipolicy=policy),)))
    site = chosen_scope(state, PlacementOptions())
    for template in (DiskTemplate.SHARED_FILE, DiskTemplate.DRBD):
        kind, size = InstanceKind(template, 1), InstanceSize(128, 1024, 1)
        found = storage_left(state, standard(state, kind, size, site, None), kind, size, site)
        assert found
        allows = f"group {group.name} allows the disk templates plain, ext, asked for {template.value}"
        assert found.ends_first == f"instance policy; {allows}"
