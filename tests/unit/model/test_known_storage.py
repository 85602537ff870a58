"""Disks where they are, and nodes with the units that they were found to have."""

from dataclasses import replace

from ganeti_htools.model import known_storage
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.known_storage import UnitSpace, with_disk_units
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate

LVM, FILE = StorageType.LVM_VG, StorageType.FILE
HDD, SSD = DesiredUnit(LVM, "hdd"), DesiredUnit(LVM, "ssd")


def row(name: str, *disks: Disk) -> Instance:
    return Instance(name, 100, 600, disks, 1)


def test_disks_get_their_units() -> None:
    cluster = Cluster(instances=(row("one", Disk(500), Disk(100, 3)), row("grown", Disk(71)), row("new")))
    disks = {"one": (Disk(500, None, SSD, "hdd"), Disk(100, None, SSD)), "new": (Disk(5, None, SSD),)}
    changed = known_storage.with_disks(cluster, {**disks, "grown": (Disk(70, None, HDD),)})
    assert changed.instances[0].disks == (Disk(500, None, SSD, "hdd"), Disk(100, 3, SSD))
    assert all(new is old for new, old in zip(changed.instances[1:], cluster.instances[1:], strict=True))
    assert known_storage.with_disks(changed, disks) is changed


def test_ignores_locations_that_cannot_hold_the_disks() -> None:
    mirrored = row("one", Disk(500))
    assert with_disk_units(mirrored, (Disk(500, None, DesiredUnit(FILE, "/srv")),)) is mirrored


def test_disks_keep_their_own_units() -> None:
    told = row("one", Disk(500, None, HDD), Disk(100))
    assert with_disk_units(told, (Disk(500, None, SSD), Disk(100, None, SSD))).disks == (
        Disk(500, None, HDD),
        Disk(100, None, SSD),
    )


def test_only_units_that_are_named_count() -> None:
    nodes = (Node("one", "g", t_dsk=900.0, f_dsk=700), Node("silent", "g", t_dsk=900.0, f_dsk=700))
    templates = (DiskTemplate.PLAIN,)
    files = DesiredUnit(FILE, "/srv")  # a default, but of no type that is enabled
    cluster = Cluster((), nodes, (row("a", Disk(1, None, SSD)),), default_units=(HDD, files))
    cluster = replace(cluster, enabled_templates=templates)
    assert known_storage.queryable_types(cluster) == (LVM,)
    assert known_storage.units_to_query(cluster) == {SSD, HDD}
    found = {
        "one": {DesiredUnit(LVM, "system"): UnitSpace(9, 9), HDD: UnitSpace(900, 800), SSD: UnitSpace(90, 80)}
    }
    changed = known_storage.with_storage(cluster, found, known_storage.units_to_query(cluster))
    assert changed.nodes[0].storage == (Unit(HDD, 900, 800), Unit(SSD, 90, 80))
    assert changed.nodes[1] is nodes[1]
    exclusive = replace(cluster, nodes=(replace(nodes[0], excl_stor=True),))
    changed = known_storage.with_storage(exclusive, found, {HDD, SSD})
    assert changed.nodes[0].storage == (Unit(HDD, 900, 700, (True,)), Unit(SSD, 90, 80, (True,)))


def test_the_metadata_of_new_and_old_disks_names_its_group() -> None:
    groups = Group("a", "a", metavg="new"), Group("b", "b")
    cluster = Cluster(groups, (), (row("a", Disk(1, None, SSD, "old")),))
    assert known_storage.units_to_query(cluster) == {SSD, DesiredUnit(LVM, "old"), DesiredUnit(LVM, "new")}
