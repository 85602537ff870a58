"""Free space of storage pools."""

from dataclasses import replace

import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.explaining.explanation import explained
from ganeti_htools.engine.rules.pools import fit, full_pool, pool_room, pool_units
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, MultiAllocate, Placement
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import units_in_use
from tests.support.by_hand import instance

VMS, FAST = (DesiredUnit(StorageType.RADOS, key) for key in ("vms", "fast"))
CLUSTER = simu.parse(["p,2,100g,64g,64;rbd,vms,10g;rbd,fast,3g"])
OPTIONS = PlacementOptions(capacity=False)


def on(*sizes: tuple[int, DesiredUnit], name: str = "new", forthcoming: bool = False) -> Instance:
    disks = tuple(Disk(size, unit=unit) for size, unit in sizes)
    row = instance(name, DiskTemplate.RBD, "node-01-001", forthcoming=forthcoming)
    return replace(row, disks=disks, dsk=sum(disk.size for disk in disks))


def state(cluster: Cluster = CLUSTER) -> State:
    return derive(cluster)


def place(*rows: Instance) -> tuple[Placement, ...]:
    return tuple(Placement(replace(row, pnode=""), 1, None) for row in rows)


def test_lowest_free_space_that_nodes_report_counts() -> None:
    first, second = CLUSTER.nodes
    later = replace(second, storage=(Unit(VMS, 10240, 7000), Unit(FAST, 3072, 3072)))
    cluster = replace(CLUSTER, nodes=(first, later))
    found = pool_units(cluster, units_in_use(cluster))
    assert {pool: unit.free for pool, unit in found.items()} == {VMS: 7000, FAST: 3072}


@pytest.mark.parametrize(("size", "number"), [(1, 10239), (3413, 3), (3414, 2), (10239, 1), (10240, 0)])
def test_pool_is_never_filled_completely(size: int, number: int) -> None:
    here = state()
    left = pool_room(here).free_after(here)
    assert fit(left, here, on((size, VMS))) == number
    assert (full_pool(left, here, on((size, VMS))) is None) == (number > 0)


def test_scarcest_of_several_pools_counts() -> None:
    here = state()
    left, row = pool_room(here).free_after(here), on((1024, VMS), (1024, FAST))
    assert fit(left, here, row) == 2
    assert full_pool(left, here, on((1024, VMS), (3072, FAST))) == "space in rados/fast, which lacks 1 MiB"


def test_pool_of_unknown_size_has_no_limit() -> None:
    here = state()
    left = pool_room(here).free_after(here)
    for row in (instance("new", DiskTemplate.PLAIN, ""), on((1, DesiredUnit(StorageType.EXT, "san")))):
        assert (fit(left, here, row), full_pool(left, here, row)) == (None, None)


def test_forthcoming_instances_reduce_free_space() -> None:
    rows = (on((1000, VMS), name="waits", forthcoming=True), on((500, VMS), name="runs"))
    here = state(replace(CLUSTER, instances=rows))
    assert pool_room(here).free_after(here) == {VMS: 9240, FAST: 3072}


def test_cluster_figure_is_reduced_by_the_instances() -> None:
    san = DesiredUnit(StorageType.EXT, "san")
    row = replace(on((300, san), name="i"), template=DiskTemplate.EXT)
    waiting = replace(row, name="waits", forthcoming=True)
    pools = (Pool(san, 1000, 100), Pool(VMS, 1, 0))
    here = state(replace(CLUSTER, instances=(row, waiting), pools=pools))
    assert pool_room(here).free_after(here) == {VMS: 10240, FAST: 3072, san: 300}


def test_a_new_instance_needs_room_in_its_pool() -> None:
    here = state()
    assert decide(here, Allocate(place(on((10239, VMS)))[0], None), OPTIONS)
    with pytest.raises(RequestFailed, match=r"most missing: space in rados/vms, which lacks 1 MiB$"):
        decide(here, Allocate(place(on((10240, VMS)))[0], None), OPTIONS)


def test_instances_of_one_request_share_a_pool() -> None:
    rows = [on((4096, VMS), name=name) for name in "abc"]
    request = MultiAllocate(tuple(replace(each, group="group-01") for each in place(*rows)))
    result = decide(state(), request, OPTIONS).result
    assert isinstance(result, tuple)
    assert [bool(each.nodes) for each in result] == [True, True, False]


def test_request_without_group_ends_when_no_pool_has_room() -> None:
    request = MultiAllocate(place(*(on((4096, VMS), name=name) for name in "abc")))
    with pytest.raises(RequestFailed, match=r"rados/vms, which lacks 2049 MiB$"):
        decide(state(), request, OPTIONS)
    heard = list(explained(state(), request, OPTIONS))
    assert [bool(each.nodes) for each in heard] == [True, True, False]
    assert "rados/vms, which lacks 2049 MiB" in heard[-1].why


def test_pool_limits_instances_when_no_node_reports_units() -> None:
    """Disks that do not tell their unit are on the default one."""
    here = simu.parse(["p,2,100g,64g,64"])
    waiting = on((1000, FAST), name="waits", forthcoming=True)
    rows = (
        replace(on((300, VMS), name="i"), disks=(Disk(300),)),
        waiting,
        instance("drbd", DiskTemplate.PLAIN, ""),
    )
    known = replace(
        here, instances=rows[:2], default_units=(VMS,), pools=(Pool(VMS, 4000, 100), Pool(FAST, 1500))
    )
    start = state(known)
    assert not start.units.reported
    left = pool_room(start).free_after(start)
    assert left == {VMS: 3600, FAST: 500}
    new = place(
        replace(on((3599, VMS)), disks=(Disk(3599),)), replace(on((3600, VMS)), disks=(Disk(3600),)), rows[2]
    )
    assert fit(left, start, new[0].instance) == 1
    for each in (new[0], new[2]):
        assert decide(start, Allocate(each), OPTIONS)
    with pytest.raises(RequestFailed, match=r"most missing: space in rados/vms, which lacks 1 MiB$"):
        decide(start, Allocate(new[1]), OPTIONS)
    with pytest.raises(RequestFailed, match=r"space in rados/vms, which lacks 3599 MiB$"):
        decide(start, MultiAllocate((new[0], new[0])), OPTIONS)


SIZE = "a size that rados/vms gives to one instance"
LIMITED = replace(CLUSTER, pool_settings=((VMS, Inventory(10240, 0, 5120, 40960, 1024)),))


@pytest.mark.parametrize(
    ("size", "refusal"),
    [
        (5120, None),
        (6144, None),
        (4096, f"{SIZE}: at least 5120 (min_unit) MiB, not 4096 MiB"),
        (6000, f"{SIZE}: a multiple of 1024 (step_size) MiB, not 6000 MiB"),
        (50_000, "space in rados/vms, which lacks 39761 MiB"),
    ],
)
def test_pool_limits_the_size_that_one_instance_takes(size: int, refusal: str | None) -> None:
    here = state(LIMITED)
    left = pool_room(here).free_after(here)
    assert full_pool(left, here, on((size, VMS))) == refusal
    assert (fit(left, here, on((size, VMS))) == 0) == (refusal is not None)
    assert fit(left, here, on((size, VMS)), limited=False) == 10239 // size


def test_limit_holds_for_a_pool_of_unknown_size() -> None:
    unknown = replace(LIMITED, nodes=tuple(replace(node, storage=None) for node in CLUSTER.nodes))
    (new,) = place(on((50_000, VMS)))
    with pytest.raises(RequestFailed) as failed:
        decide(derive(unknown, [new.instance]), Allocate(new, None), OPTIONS)
    assert f"most missing: {SIZE}: at most 40960 (max_unit) MiB, not 50000 MiB" in str(failed.value)


def test_reserved_space_of_a_reported_pool_is_not_free() -> None:
    reserved = replace(CLUSTER, pool_settings=((VMS, Inventory(10240, 1000)),))
    found = pool_units(reserved, units_in_use(reserved))
    assert {pool: unit.free for pool, unit in found.items()} == {VMS: 9240, FAST: 3072}


def test_capacity_of_a_configured_pool_has_its_overcommit_factor() -> None:
    nas = DesiredUnit(StorageType.EXT, "nas")
    pool = Pool(nas, 1000, 100, allocation_ratio=2.0, taken=300)
    cluster = replace(CLUSTER, pools=(pool,), pool_settings=((nas, Inventory(0, 50)),))
    assert pool_units(cluster, units_in_use(cluster))[nas] == Unit(nas, 1400, 1400)  # 2 * 850 - 300
