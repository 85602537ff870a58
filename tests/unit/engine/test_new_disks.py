"""Disks of new instances are where their group wants them, so each group is tried with its own defaults."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.decide import Decision, decide
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, AllocateSecondary, ChangeGroup, MultiAllocate, Placement
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

VG, META, SSD = (DesiredUnit(StorageType.LVM_VG, key) for key in ("vg", "meta", "ssd"))
FAST, SLOW = (DesiredUnit(StorageType.RADOS, key) for key in ("fast", "slow"))
OPTIONS = PlacementOptions(capacity=False)


def instance(
    template: DiskTemplate = DiskTemplate.DRBD, pnode: str = "", snode: str | None = None
) -> Instance:
    return by_hand.instance("new", template, pnode, snode)


def group(number: int, metavg: str | None = None, pool: str | None = None) -> Group:
    return Group(f"group{number}", f"uuid-{number}", metavg=metavg, rbd_pool=pool)


def nodes(number: int, meta: int = 9000, exclusive: bool = False) -> tuple[Node, ...]:
    """Two nodes of a group whose volume group for metadata has so much free."""
    params = (True,) * exclusive
    storage = Unit(VG, 90000, 50000, params), Unit(META, 9000, meta, params), Unit(SSD, 9000, 100, params)
    return tuple(
        by_hand.node(
            f"{name}{number}", group=f"uuid-{number}", storage=storage, excl_stor=exclusive, f_spindles=9
        )
        for name in "ab"
    )


def state(groups: tuple[Group, ...], *members: tuple[Node, ...], asked: Instance, **more: object) -> State:
    rows = tuple(node for some in members for node in some)
    return derive(Cluster(groups, rows, default_units=(VG, FAST), **more), [asked])  # type: ignore[arg-type]


def where(decision: Decision) -> set[str]:
    assert isinstance(decision.result, tuple)
    return {decision.state.cluster.nodes[row].name for each in decision.result for row in each.nodes}


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("first", "second"), [("meta", "vg"), ("vg", "meta")])
def test_metadata_is_where_the_group_wants_it(first: str, second: str, exclusive: bool) -> None:
    """The volume group ``meta`` has no room for it, so the new instance goes where that is not wanted."""
    new = replace(instance(), disks=(Disk(1024, 1),))
    start = state(
        (group(1, first), group(2, second)), nodes(1, 128, exclusive), nodes(2, 128, exclusive), asked=new
    )
    better = {"a1", "b1"} if first == "vg" else {"a2", "b2"}
    assert where(decide(start, Allocate(Placement(new, 2)), OPTIONS)) == better
    for name, metavg in (("group1", first), ("group2", second)):
        decision = decide(start, MultiAllocate((Placement(new, 2, name),)), OPTIONS)
        assert where(decision) == (set() if metavg == "meta" else better)


def test_names_the_unit_that_the_first_group_lacks() -> None:
    new = instance()
    start = state((group(1, "meta"), group(2, "ssd")), nodes(1, 128), nodes(2, 128), asked=new)
    with pytest.raises(
        RequestFailed, match=r"most missing: disk space on lvm-vg/meta; closest: .1 lacks 1 MiB"
    ):
        decide(start, Allocate(Placement(new, 2)), OPTIONS)


def test_new_disks_are_counted_afterwards() -> None:
    new = instance()
    start = state((group(1, "meta"),), nodes(1), asked=new)
    settled = decide(start, Allocate(Placement(new, 2)), OPTIONS).state.to_cluster()
    for node in settled.nodes:
        assert [unit.free for unit in node.storage or ()] == [50000 - 1024, 9000 - 128, 100]
    full = state((group(1, "ssd"),), nodes(1), asked=new)
    with pytest.raises(RequestFailed, match=r"disk space on lvm-vg/ssd; closest: .* lacks 29 MiB"):
        decide(full, Allocate(Placement(new, 2)), OPTIONS)


@pytest.mark.parametrize("metavg", ["meta", "ssd"])
def test_an_instance_that_becomes_mirrored(metavg: str) -> None:
    row = instance(DiskTemplate.PLAIN, "a1")
    start = state((group(1, metavg),), nodes(1), asked=row, instances=(row,))
    if metavg == "meta":
        assert where(decide(start, AllocateSecondary("new"), OPTIONS)) == {"b1"}
    else:
        with pytest.raises(RequestFailed, match="lvm-vg/ssd"):
            decide(start, AllocateSecondary("new"), OPTIONS)


def test_existing_instance_keeps_its_metadata() -> None:
    row = instance(DiskTemplate.DRBD, "a1", "b1")
    start = state((group(1, "ssd"), group(2, "ssd")), nodes(1), nodes(2), asked=row, instances=(row,))
    assert decide(start, ChangeGroup(("new",), ()), OPTIONS)
    moved = decide(start, ChangeGroup(("new",), ()), OPTIONS).state
    assert {moved.cluster.nodes[row].name for row in (*moved.pnode, *moved.snode)} == {"a2", "b2"}


@pytest.mark.parametrize(("first", "second"), [("fast", "slow"), ("slow", "fast")])
def test_each_group_has_its_pool(first: str, second: str) -> None:
    new = instance(DiskTemplate.RBD)
    pools = Pool(FAST, 1024), Pool(SLOW, 1025)
    groups = group(1, None, first), group(2, None, second)
    start = state(groups, nodes(1), nodes(2), asked=new, pools=pools)
    (chosen,) = where(decide(start, Allocate(Placement(new, 1)), OPTIONS))
    assert chosen[1] == ("1" if first == "slow" else "2")
    with pytest.raises(RequestFailed, match=f"space in rados/{first}, which lacks"):
        decide(start, MultiAllocate((Placement(new, 1), Placement(replace(new, name="other"), 1))), OPTIONS)
