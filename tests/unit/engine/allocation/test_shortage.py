"""Descriptions of missing storage, by the name of the storage unit."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.decide import decide
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, Placement
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

PLAIN, DRBD, RBD, EXT = DiskTemplate.PLAIN, DiskTemplate.DRBD, DiskTemplate.RBD, DiskTemplate.EXT
# Node 0 has less of ssdvg than node 1, nodes 2 and 3 have none and do not see the pool.
CLUSTER = simu.parse(
    [
        "p,1,9g,64g,4;lvm-vg,ssdvg,1000;rbd,vms,9g",
        "p,1,9g,64g,4;lvm-vg,ssdvg,1500;rbd,vms,9g",
        "p,2,9g,64g,4;lvm-vg,hddvg,900",
    ]
)
ONE_GROUP = replace(
    CLUSTER,
    groups=CLUSTER.groups[:1],
    nodes=tuple(replace(node, group=CLUSTER.groups[0].uuid) for node in CLUSTER.nodes),
)


def asked(template: DiskTemplate, size: int, kind: StorageType, key: str) -> tuple[State, RequestedInstance]:
    disk = Disk(size, 1, DesiredUnit(kind, key))
    row = replace(instance("new", template, ""), dsk=size, disks=(disk,))
    state = derive(ONE_GROUP, [row])
    return state, state.requested_instance(row)


def remark(template: DiskTemplate, size: int, kind: StorageType, key: str) -> str:
    state, one = asked(template, size, kind, key)
    request = Allocate(Placement(one.row, template.required_nodes, None), None)
    with pytest.raises(RequestFailed) as failed:
        decide(state, request, PlacementOptions(capacity=False))
    return str(failed.value)


@pytest.mark.parametrize(
    ("size", "template", "text"),
    [
        (
            2000,
            PLAIN,
            "most missing: disk space on lvm-vg/ssdvg; closest: node-02-001 lacks 501 MiB; counted as",
        ),
        (
            1300,
            DRBD,
            "most missing: disk space on lvm-vg/ssdvg; closest: node-01-001 lacks 301 MiB; counted as",
        ),
    ],
)
def test_the_closest_node_is_one_that_has_the_unit(size: int, template: DiskTemplate, text: str) -> None:
    assert text in remark(template, size, StorageType.LVM_VG, "ssdvg")


def test_unit_that_no_node_has_is_unknown() -> None:
    text = "lvm-vg/none is unknown: no node has it; known: lvm-vg/xenvg,"
    assert f"most missing: disk space on lvm-vg/none; {text}" in remark(
        PLAIN, 1024, StorageType.LVM_VG, "none"
    )


@pytest.mark.parametrize(("size", "found"), [(1024, "has no lvm-vg/ssdvg"), (2000, "lacks 501 MiB")])
def test_says_that_the_secondary_of_a_mirrored_instance_needs_the_unit_too(size: int, found: str) -> None:
    first, second, *others = ONE_GROUP.nodes
    units = tuple(unit for unit in first.storage or () if unit.desired.key != "ssdvg")
    cluster = replace(ONE_GROUP, nodes=(replace(first, storage=units), second, *others))
    disk = Disk(size, 1, DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    request = replace(instance("new", DRBD, ""), dsk=size, disks=(disk,))
    with pytest.raises(RequestFailed) as failed:
        decide(
            derive(cluster, [request]),
            Allocate(Placement(request, 2, None), None),
            PlacementOptions(capacity=False),
        )
    assert f"{found}, and only {second.name} has any: the secondary needs it, too" in str(failed.value)


@pytest.mark.parametrize(
    ("node", "size", "key", "lacks"),
    [
        (0, 1024, "ssdvg", "lacks 25 MiB of disk space on lvm-vg/ssdvg"),
        (1, 1024, "ssdvg", ""),
        (2, 1024, "ssdvg", "has no lvm-vg/ssdvg"),
    ],
)
@pytest.mark.parametrize("secondary", [False, True])
def test_describes_the_lack_of_a_node(node: int, size: int, key: str, lacks: str, secondary: bool) -> None:
    state, one = asked(DRBD if secondary else PLAIN, size, StorageType.LVM_VG, key)
    assert shortage.describe_lack(state, one, node, secondary) == lacks


def test_a_pool_that_a_node_does_not_see() -> None:
    state, one = asked(RBD, 1024, StorageType.RADOS, "vms")
    lacks = [shortage.describe_lack(state, one, node) for node in range(4)]
    assert lacks == ["", "", "does not see rados/vms", "does not see rados/vms"]


def test_no_lack_while_no_node_reports_units() -> None:
    state = derive(simu.parse(["p,1,100,64g,4"]))
    assert shortage.describe_lack(state, state.requested_instance(instance("new", PLAIN, "")), 0) == ""


def test_a_mirror_whose_unit_is_full_is_named() -> None:
    first, second, *_ = ONE_GROUP.nodes
    disk = Disk(100, 1, DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    mirrored = replace(instance("db", DRBD, first.name, second.name), dsk=228, disks=(disk,))
    # The mirror needs nothing of the volume group that its node lacks.
    units = [unit._replace(free=0) if unit.desired == disk.unit else unit for unit in second.storage or ()]
    second = replace(second, storage=tuple(unit for unit in units if unit.desired.key != "xenvg"))
    cluster = replace(ONE_GROUP, nodes=(first, second, *ONE_GROUP.nodes[2:]), instances=(mirrored,))
    state = derive(cluster)
    found = shortage.remark(state, state.instance(0), Fail.N1, np.arange(4), np.arange(4), PlacementOptions())
    place = f"{second.name} reports 0 MiB free on lvm-vg/ssdvg should {first.name} be lost"
    lost = f"db would not come back after the loss of {first.name}, even now"
    assert found == f"N+1 redundancy; closest: {place}; {lost}"


def test_names_a_pool_known_from_tags() -> None:
    pool, (seeing, *others) = DesiredUnit(StorageType.RADOS, "vms"), ONE_GROUP.nodes
    nodes = (replace(seeing, tags=("htools:storage:rados/vms",)), *others)
    plain = replace(ONE_GROUP, nodes=tuple(replace(node, storage=None) for node in nodes), default_units=())
    row = replace(instance("new", RBD, ""), disks=(Disk(1024, 1, pool),))
    state = derive(plain, [row])
    assert shortage.describe_lack(state, state.requested_instance(row), 0) == ""
    assert shortage.describe_lack(state, state.requested_instance(row), 1) == "does not see rados/vms"
    found = decide(state, Allocate(Placement(row, 1, None), None), PlacementOptions(capacity=False))
    assert isinstance(found.result, tuple)
    assert found.result[0].nodes == (0,)


GPU = "CUSTOM_GPU"


def gpus(*there: Inventory | None) -> Cluster:
    """A group whose nodes have such inventories of GPUs."""
    pairs = zip(ONE_GROUP.nodes, there, strict=True)
    return replace(
        ONE_GROUP,
        nodes=tuple(replace(node, inventories=((GPU, each),) if each else ()) for node, each in pairs),
    )


@pytest.mark.parametrize(
    ("there", "amount", "text"),
    [
        ((Inventory(3), Inventory(2), None, None), 4, "CUSTOM_GPU; closest: node-01-001 lacks 1; counted as"),
        ((None, Inventory(2), None, None), 4, "CUSTOM_GPU; closest: node-02-001 lacks 2; counted as"),
        (
            (Inventory(9, max_unit=3), Inventory(9, max_unit=2), Inventory(9, max_unit=1), Inventory(4)),
            5,
            "CUSTOM_GPU for one instance (max_unit); closest: node-01-001 lacks 2; counted as",
        ),
    ],
)
def test_describes_the_lack_of_a_custom_class(there: tuple[Inventory, ...], amount: int, text: str) -> None:
    row = replace(instance("new", PLAIN, ""), tags=(tags.demand(GPU, amount),))
    state = derive(gpus(*there), [row])
    with pytest.raises(RequestFailed) as failed:
        decide(state, Allocate(Placement(row, 1, None), None), PlacementOptions(capacity=False))
    assert f"most missing: {text} FailResource: 4" in str(failed.value)


def test_describes_refusal_for_a_custom_class() -> None:
    state = derive(gpus(Inventory(3), Inventory(5), None, None))
    row = replace(instance("new", PLAIN, ""), tags=(tags.demand(GPU, 4),))
    found = [
        shortage.describe_lack(state, state.requested_instance(row), node, fail=Fail.RESOURCE)
        for node in range(3)
    ]
    assert found == ["lacks 1 of CUSTOM_GPU", "", "has no CUSTOM_GPU"]


def test_describes_the_lack_of_a_class_after_a_loss() -> None:
    held = (tags.demand(GPU, 2),)
    rows = [instance(name, DRBD, "node-01-001", "node-02-001", tags=held) for name in "ab"]
    described = replace(gpus(Inventory(4), Inventory(3), None, None), instances=tuple(rows))
    state = derive(described)
    with pytest.raises(RequestFailed) as failed:
        decide(state, Allocate(Placement(instance("new", PLAIN, ""), 1, None), None), PlacementOptions())
    words = "N+1 redundancy; closest: node-02-001 lacks 1 of CUSTOM_GPU should node-01-001 be lost, even now"
    assert words in str(failed.value)


def refused(described: Cluster, request: Instance) -> str:
    with pytest.raises(RequestFailed) as failed:
        decide(derive(described, [request]), Allocate(Placement(request, 1, None), None), PlacementOptions())
    return str(failed.value)


def test_names_node_and_instances_that_lose_redundancy_by_the_new_instance() -> None:
    used = {"a": 8_000, "b": 8_500, "c": 200}
    tight = [instance(f"on-{name}", EXT, name, mem=mem) for name, mem in used.items()]
    told = refused(cluster(dict.fromkeys("abc", 10_000), tight), instance("new", EXT, "", mem=1_900))
    lost = "on-a would not come back after the loss of a; without it all would"
    assert f"most missing: N+1 redundancy; with it on c, {lost}; counted as FailN1: 2" in told


def test_says_that_a_node_cannot_be_lost_even_now() -> None:
    crowded = [instance(f"on-{name}", EXT, name, mem=6_000) for name in "abc"]
    told = refused(cluster(dict.fromkeys("abc", 10_000), crowded), instance("new", EXT, "", mem=200))
    lost = "on-a would not come back after the loss of a, even now; nor could b, c be lost"
    assert f"most missing: N+1 redundancy; {lost}; counted as FailN1: 3" in told
