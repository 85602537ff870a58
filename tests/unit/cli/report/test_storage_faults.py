from dataclasses import replace

import pytest

from ganeti_htools.backends import simu
from ganeti_htools.cli.report.storage_faults import FullStorage, MissingStorage, storage_faults
from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance

SSD = DesiredUnit(StorageType.LVM_VG, "ssdvg")
VMS = DesiredUnit(StorageType.RADOS, "vms")
# Nodes of the second group have neither of the two.
HAS, LACKS = "node-01-001", "node-02-001"
CLUSTER = simu.parse(["p,2,1t,64g,4;lvm-vg,ssdvg,1t;rbd,vms,1t", "p,1,1t,64g,4;lvm-vg,other,1t"])


def on(
    unit: DesiredUnit, name: str, template: DiskTemplate, pnode: str, snode: str | None = None
) -> Instance:
    return replace(instance(name, template, pnode, snode), disks=(Disk(100), Disk(1024, unit=unit)))


def cluster(*rows: Instance) -> Cluster:
    return replace(CLUSTER, instances=rows)


def test_disks_on_a_unit_that_the_primary_node_does_not_report() -> None:
    rows = [
        on(SSD, name, DiskTemplate.PLAIN, node) for name, node in (("a", LACKS), ("b", HAS), ("c", LACKS))
    ]
    found = storage_faults(derive(cluster(*rows)))
    assert found == ((MissingStorage(LACKS, SSD, ("a", "c")),), (), ())


def test_a_pool_that_the_primary_node_does_not_see() -> None:
    rows = [on(VMS, name, DiskTemplate.RBD, node) for name, node in (("a", LACKS), ("b", HAS))]
    assert storage_faults(derive(cluster(*rows))) == ((MissingStorage(LACKS, VMS, ("a",)),), (), ())


def test_mirrors_without_their_unit() -> None:
    rows = [on(SSD, "a", DiskTemplate.DRBD, HAS, LACKS), on(SSD, "b", DiskTemplate.DRBD, HAS, "node-01-002")]
    assert storage_faults(derive(cluster(*rows))) == ((), (MissingStorage(LACKS, SSD, ("a",)),), ())


@pytest.mark.parametrize("fact", ["offline", "forthcoming"])
def test_what_is_not_there_lacks_nothing(fact: str) -> None:
    made = cluster(replace(on(SSD, "a", DiskTemplate.PLAIN, LACKS), forthcoming=fact == "forthcoming"))
    nodes = (*made.nodes[:2], replace(made.nodes[2], offline=fact == "offline"))
    assert storage_faults(derive(replace(made, nodes=nodes))) == ((), (), ())


def with_free(node: Node, unit: DesiredUnit, total: int, free: int) -> Node:
    others = tuple(each for each in node.storage or () if each.desired != unit)
    return replace(node, storage=(*others, Unit(unit, total, free)))


@pytest.mark.parametrize(
    ("total", "free", "full"), [(100, 5, False), (100, 4, True), (100, -3, True), (0, 0, False)]
)
def test_a_unit_is_full_above_95_per_cent(total: int, free: int, full: bool) -> None:
    nodes = (with_free(CLUSTER.nodes[0], SSD, total, free), *CLUSTER.nodes[1:])
    found = storage_faults(derive(replace(CLUSTER, nodes=nodes))).full
    assert found == ((FullStorage(HAS, SSD, total, free),) if full else ())


def test_a_pool_is_full_once_and_an_offline_node_never() -> None:
    nodes = [with_free(node, VMS, 100, 1) for node in CLUSTER.nodes[:2]]
    away = replace(with_free(CLUSTER.nodes[2], SSD, 100, 1), offline=True)
    found = storage_faults(derive(replace(CLUSTER, nodes=(*nodes, away)))).full
    assert found == (FullStorage(None, VMS, 100, 1),)


def test_nothing_is_known_to_be_wrong_while_no_node_tells_its_units() -> None:
    plain = simu.parse(["p,1,1g,64g,4"])
    full = replace(plain.nodes[0], f_dsk=0)
    row = on(SSD, "a", DiskTemplate.PLAIN, "node-01-001")
    assert storage_faults(derive(replace(plain, nodes=(full,), instances=(row,)))) == ((), (), ())
