from dataclasses import asdict, replace

from ganeti_htools.backends import simu
from ganeti_htools.cli.report import storage
from ganeti_htools.cli.report.storage_faults import FullStorage, MissingStorage, StorageFaults
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.units_in_use import units_in_use


def told(cluster: Cluster) -> list[str]:
    return storage.text(asdict(storage_of(cluster, units_in_use(cluster)))).splitlines()


def test_units_and_pools() -> None:
    cluster = simu.parse(["p,1,100,4,4;lvm-vg,ssdvg,2g;rbd,vms,5g", "p,2,30,4,4;file,/srv,7"])
    tagged = replace(
        cluster, nodes=(*cluster.nodes[:2], replace(cluster.nodes[2], tags=("htools:storage:ext/san",)))
    )
    assert told(tagged) == [
        "Storage units (free/total GiB):",
        "   Node        lvm-vg/xenvg file//srv lvm-vg/ssdvg",
        "   node-01-001      0.1/0.1         -      2.0/2.0",
        "   node-02-001      0.0/0.0   0.0/0.0            -",
        "   node-02-002      0.0/0.0   0.0/0.0            -",
        "Storage pools (GiB):",
        "   Pool      Used Free Total Nodes      ",
        "   ext/san    0.0    -     - node-02-002",
        "   rados/vms  0.0  5.0   5.0 node-01-001",
    ]


def test_nodes_that_do_not_tell_their_units() -> None:
    assert told(simu.parse(["p,1,100,4,4"])) == [
        "Storage units (free/total GiB):",
        "   Node           disk",
        "   node-01-001 0.1/0.1",
    ]


def test_what_is_wrong_is_told_in_lines_and_counted() -> None:
    ssd, vms = DesiredUnit(StorageType.LVM_VG, "ssdvg"), DesiredUnit(StorageType.RADOS, "vms")
    faults = StorageFaults(
        (MissingStorage("n1", ssd, ("a", "b")), MissingStorage("n1", vms, ("b",))),
        (MissingStorage("n2", ssd, ("c",)),),
        (FullStorage("n1", ssd, 1000, 33), FullStorage(None, vms, 100, -1)),
    )
    lines = [
        "node n1 does not report lvm-vg/ssdvg, where disks of a, b are",
        "node n1 does not see rados/vms, where disks of b are",
        "node n2 does not report lvm-vg/ssdvg, where mirrors of c are",
        "lvm-vg/ssdvg of node n1 is 96 % full: 33 MiB of 1000 MiB are free",
        "rados/vms is 101 % full: -1 MiB of 100 MiB are free",
    ]
    assert storage.faults_json(faults) == {"missing": 2, "unmirrored": 1, "full": 2, "warnings": lines}
