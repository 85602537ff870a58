from dataclasses import asdict, replace

from ganeti_htools.backends import simu
from ganeti_htools.cli.report import storage
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.units import survey


def told(cluster: Cluster) -> list[str]:
    return storage.text(asdict(storage_of(cluster, survey(cluster)))).splitlines()


def test_units_and_pools() -> None:
    cluster = simu.parse(["p,1,100,4,4;lvm-vg,ssdvg,20;rbd,vms,5", "p,2,30,4,4;file,/srv,7"])
    tagged = replace(
        cluster, nodes=(*cluster.nodes[:2], replace(cluster.nodes[2], tags=("htools:storage:ext/san",)))
    )
    assert told(tagged) == [
        "Storage units (free/total MiB):",
        "   Node        lvm-vg/xenvg file//srv lvm-vg/ssdvg",
        "   node-01-001      100/100         -        20/20",
        "   node-02-001        30/30       7/7            -",
        "   node-02-002        30/30       7/7            -",
        "Storage pools (MiB):",
        "   Pool      Free Total Nodes      ",
        "   ext/san      -     - node-02-002",
        "   rados/vms    5     5 node-01-001",
    ]


def test_nodes_that_do_not_tell_their_units() -> None:
    assert told(simu.parse(["p,1,100,4,4"])) == [
        "Storage units (free/total MiB):",
        "   Node           disk",
        "   node-01-001 100/100",
    ]
