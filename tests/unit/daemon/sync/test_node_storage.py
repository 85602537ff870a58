from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.known_storage import UnitSpace
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from htoolsd.sync.node_storage import (
    KnownStorage,
    StorageReport,
    add_reports,
    names_other_units,
    revise_storage,
    used_storage,
    with_current_storage,
)
from tests.support.worlds import node

LVM = StorageType.LVM_VG
HDD, SSD, FILES = DesiredUnit(LVM, "hdd"), DesiredUnit(LVM, "ssd"), DesiredUnit(StorageType.FILE, "/srv")
TEMPLATES = (DiskTemplate.DRBD, DiskTemplate.FILE)
DISKS = {"web": (Disk(500, unit=HDD), Disk(300, unit=SSD, metavg="hdd")), "mail": (Disk(100, unit=SSD),)}


def mirrored(name: str, *sizes: int) -> Instance:
    disks = tuple(Disk(size) for size in sizes)
    return Instance(name, 100, sum(sizes) + 128 * len(sizes), disks, 1, pnode="one", snode="two")


def cluster(*rows: Instance) -> Cluster:
    nodes = (node("one"), node("two"), node("three"))
    return Cluster((), nodes, rows, default_units=(HDD, FILES), enabled_templates=TEMPLATES)


def report(hdd: int, ssd: int, hdd_taken: int = 0, ssd_taken: int = 0) -> StorageReport:
    rooms = {
        HDD: UnitSpace(9000, hdd),
        SSD: UnitSpace(9000, ssd),
        DesiredUnit(LVM, "system"): UnitSpace(9, 9),
    }
    return StorageReport(rooms, {HDD: hdd_taken, SSD: ssd_taken}, 0.0)


def test_used_storage_is_by_node_and_unit() -> None:
    known = with_current_storage(
        cluster(mirrored("web", 500, 300), mirrored("mail", 100)), KnownStorage(DISKS)
    )
    web, mail = {HDD: 500 + 128 + 128, SSD: 300}, {SSD: 228}
    both = {HDD: web[HDD], SSD: web[SSD] + mail[SSD]}
    assert used_storage(known) == {"one": both, "two": both}
    coming = replace(known, instances=tuple(replace(row, forthcoming=True) for row in known.instances))
    assert used_storage(coming) == {}


def test_free_space_follows_the_disks() -> None:
    known = KnownStorage(DISKS, {"one": report(8000, 8000, hdd_taken=756, ssd_taken=300)}, complete=True)
    web, mail = mirrored("web", 500, 300), mirrored("mail", 100)

    def storage(*rows: Instance) -> tuple[Unit, ...] | None:
        found = with_current_storage(cluster(*rows), known).nodes
        assert [row.storage for row in found[1:]] == [None, None]
        return found[0].storage

    assert storage(web) == (Unit(HDD, 9000, 8000), Unit(SSD, 9000, 8000))
    assert storage(web, mail) == (Unit(HDD, 9000, 8000), Unit(SSD, 9000, 8000 - 228))
    assert storage(mail) == (Unit(HDD, 9000, 8756), Unit(SSD, 9000, 8000 + 300 - 228))
    assert storage() == (Unit(HDD, 9000, 8756),)  # nothing names the other one
    asked_for = with_current_storage(cluster(), known, {SSD}).nodes[0].storage
    assert asked_for == (Unit(HDD, 9000, 8756), Unit(SSD, 9000, 8300))


def test_free_space_never_exceeds_the_size() -> None:
    known = KnownStorage(DISKS, {"one": report(8900, 100, hdd_taken=500)}, complete=True)
    nodes = with_current_storage(cluster(mirrored("mail", 100)), known).nodes
    assert nodes[0].storage == (Unit(HDD, 9000, 9000), Unit(SSD, 9000, 100 - 228))


def test_reports_count_when_complete() -> None:
    known = KnownStorage({}, {"one": report(1, 1)})
    assert with_current_storage(cluster(), known) == cluster()


def test_reports_count_when_nodes_were_asked_for_all_enabled_types() -> None:
    known = KnownStorage({}, {"one": report(1, 1)}, complete=True, kinds={LVM})
    assert with_current_storage(cluster(), known) == cluster()
    only_volumes = replace(cluster(), enabled_templates=TEMPLATES[:1])
    assert with_current_storage(only_volumes, known).nodes[0].storage == (Unit(HDD, 9000, 1),)


def test_silent_node_has_no_units() -> None:
    known = KnownStorage({}, {"one": report(1, 1), "gone": report(1, 1)}, complete=True)
    start = cluster()
    down = replace(start, nodes=(replace(start.nodes[0], t_mem=0.0), *start.nodes[1:]))
    assert with_current_storage(down, known) == down


def test_disk_changed_during_the_poll_leaves_too_little_rather_than_too_much() -> None:
    found = {"one": {HDD: UnitSpace(9000, 8000)}}
    for before, after in ((0, 500), (500, 0)):
        taken = {"one": {HDD: before}}, {"one": {HDD: after}}
        known = KnownStorage(reports=add_reports(KnownStorage(), ["one"], found, taken, 7.0))
        assert known.reports["one"].used == {HDD: 0}
        assert (known.asked, replace(known, complete=True).asked) == (None, 7.0)


def test_node_without_answer_loses_its_report() -> None:
    known = KnownStorage({}, {"one": report(1, 1), "two": report(2, 2), "three": report(3, 3)}, generation=4)
    found = {"one": {HDD: UnitSpace(5, 5)}}
    new = revise_storage(known, reports=add_reports(known, ["one", "two"], found, ({}, {}), 1.0))
    assert (set(new.reports), new.generation) == ({"one", "three"}, 5)


def test_generation_rises_only_with_a_change() -> None:
    known = revise_storage(KnownStorage(), disks=DISKS, reports={"one": report(1, 1)})
    assert known.generation == 1
    later = replace(report(1, 1), asked=9.0)
    again = revise_storage(known, disks=dict(DISKS), reports={"one": later})
    assert (again.generation, again.reports["one"].asked) == (1, 9.0)
    assert revise_storage(known, complete=True).generation == 2
    assert revise_storage(known, reports={"one": report(1, 2)}).generation == 2


@pytest.mark.parametrize(
    ("disk", "needed"),
    [
        (Disk(1), False),
        (Disk(1, unit=HDD), False),
        (Disk(1, unit=SSD), True),
        (Disk(1, unit=HDD, metavg="ssd"), True),
        (Disk(1, unit=FILES), True),
        (Disk(1, unit=DesiredUnit(StorageType.EXT, "vendor")), False),
    ],
)
def test_other_units_are_named_by_disks_pools_and_tags(disk: Disk, needed: bool) -> None:
    start = cluster(replace(mirrored("web"), disks=(disk,)))
    assert names_other_units(start) is needed
    tagged = replace(cluster(), nodes=(node("one", tags=("htools:storage:rbd/vms",)),))
    assert names_other_units(tagged)


class TestMeasuredPools:
    """Probes measure the space of pools."""

    FAST = DesiredUnit(StorageType.RADOS, "fast")

    def row(self, name: str, size: int) -> Instance:
        disks = (Disk(size, unit=self.FAST),)
        return Instance(name, 100, size, disks, 1, pnode="one", template=DiskTemplate.RBD)

    def pools(
        self, pool: Pool, probes: dict[DesiredUnit, StorageReport], *rows: Instance
    ) -> tuple[Pool, ...]:
        return with_current_storage(cluster(*rows), KnownStorage(pools=(pool,), probes=probes)).pools

    def test_measured_space_follows_the_disks(self) -> None:
        pool, old = Pool(self.FAST, 5000, 10, probe=("x",)), self.row("old", 100)
        probes = {self.FAST: StorageReport({self.FAST: UnitSpace(900, 600)}, {self.FAST: 100}, 0.0)}
        measured = pool._replace(total=900)
        assert self.pools(pool, probes, old) == (measured._replace(free=600),)
        assert self.pools(pool, probes, old, self.row("new", 250)) == (measured._replace(free=350),)
        assert self.pools(pool, probes) == (measured._replace(free=700),)
        assert self.pools(pool, {}, old) == (pool,)

    def test_pool_of_unknown_size_limits_nothing_until_it_is_measured(self) -> None:
        pool = Pool(self.FAST, 0, probe=("x",))
        assert self.pools(pool, {}) == ()
        probes = {self.FAST: StorageReport({self.FAST: UnitSpace(0, 0)}, {}, 0.0)}
        assert self.pools(pool, probes) == (pool._replace(free=0),)
