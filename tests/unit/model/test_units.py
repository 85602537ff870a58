from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units import Units, needs_of, spaces_of, with_free
from ganeti_htools.model.units_in_use import nodes_seeing, units_in_use
from tests.support import by_hand

VG = StorageType.LVM_VG
XEN, SSD, HDD = (DesiredUnit(VG, key) for key in ("xenvg", "ssdvg", "hddvg"))
MIRRORED = DesiredUnit(StorageType.DRBD, "xenvg")
FILES = DesiredUnit(StorageType.FILE, "/srv/files")
POOL = DesiredUnit(StorageType.RADOS, "fast")
NAMELESS = DesiredUnit(VG, "")


def unit(desired: DesiredUnit, total: int = 1000, free: int = 400) -> Unit:
    return Unit(desired, total, free)


def node(name: str, *units: Unit, group: str = "uuid-1", tags: tuple[str, ...] = ()) -> Node:
    return by_hand.node(name, group=group, tags=tags, storage=units)


def cluster(*nodes: Node, instances: tuple[Instance, ...] = (), **facts: object) -> Cluster:
    return replace(by_hand.cluster({}, []), nodes=nodes, instances=instances, **facts)  # type: ignore[arg-type]


def instance(template: DiskTemplate, *disks: Disk, dsk: int | None = None) -> Instance:
    meta = 128 if template is DiskTemplate.DRBD else 0
    snode = "node2" if template is DiskTemplate.DRBD else None
    made = by_hand.instance("inst1", template, "node1", snode)
    return replace(made, disks=disks, dsk=sum(disk.size + meta for disk in disks) if dsk is None else dsk)


def units_of(*desired: DesiredUnit) -> Units:
    """The units of a cluster with these on its only node."""
    return units_in_use(cluster(node("node1", *map(unit, desired))))


class TestSurvey:
    """Which units a cluster has."""

    def test_single_nameless_unit_when_nodes_report_none(self) -> None:
        plain = cluster(by_hand.node("node1"), by_hand.node("node2"))
        assert units_in_use(plain) == Units((NAMELESS,))
        assert not units_in_use(plain).reported

    def test_pool_tags_count_when_nodes_report_no_units(self) -> None:
        tagged = by_hand.node("node1", tags=("htools:storage:rados/fast", "htools:storage:lvm-vg/xenvg"))
        found = units_in_use(cluster(tagged, by_hand.node("node2")))
        assert found == Units((NAMELESS,), (POOL,))
        assert units_in_use(cluster(tagged)) == Units((NAMELESS,))
        on_pool = instance(DiskTemplate.RBD, Disk(5, None, POOL))
        assert needs_of(on_pool, found).wants == (False, True)
        assert needs_of(instance(DiskTemplate.PLAIN, Disk(5, None, SSD)), found).wants == (True, False)

    def test_the_first_volume_group_of_most_nodes_is_the_default(self) -> None:
        nodes = (
            node("node1", unit(FILES), unit(SSD), unit(XEN)),
            node("node2", unit(XEN), unit(SSD)),
            node("node3", unit(XEN)),
        )
        units = units_in_use(cluster(*nodes))
        assert units.local == (XEN, FILES, SSD)
        assert units.default(VG) == XEN
        assert units.default(StorageType.FILE) == FILES
        assert units.reported

    def test_of_equally_many_that_of_the_first_node(self) -> None:
        assert units_in_use(cluster(node("node1", unit(SSD)), node("node2", unit(HDD)))).local == (SSD, HDD)

    def test_a_volume_group_for_mirrored_disks_may_be_the_default(self) -> None:
        assert units_of(MIRRORED).local == (XEN, MIRRORED)

    def test_default_of_cluster_wins_over_nodes(self) -> None:
        units = units_in_use(cluster(node("node1", unit(XEN), unit(SSD)), default_units=(SSD,)))
        assert units.local == (SSD, XEN)

    def test_nodes_without_a_volume_group_have_the_nameless_one(self) -> None:
        assert units_of(FILES).local == (NAMELESS, FILES)

    def test_unit_named_only_by_disks_is_in_use(self) -> None:
        placed = instance(DiskTemplate.PLAIN, Disk(10, None, SSD))
        assert units_in_use(cluster(node("node1", unit(XEN)), instances=(placed,))).local == (XEN, SSD)
        assert units_in_use(cluster(node("node1", unit(XEN))), [placed]).local == (XEN, SSD)

    def test_unit_that_no_node_has_is_in_use_unless_ganeti_was_not_asked(self) -> None:
        rows = (instance(DiskTemplate.FILE, Disk(10)), instance(DiskTemplate.DRBD, Disk(10, None, MIRRORED)))
        found = cluster(node("node1", unit(XEN)), instances=rows)
        nameless = DesiredUnit(StorageType.FILE, "")
        assert units_in_use(found).local == (XEN, MIRRORED, nameless)
        asked = replace(found, enabled_templates=(DiskTemplate.PLAIN, DiskTemplate.FILE))
        assert units_in_use(asked).local == (XEN, nameless)
        assert units_in_use(replace(found, enabled_templates=(DiskTemplate.PLAIN,))).local == (XEN,)

    def test_only_pools_that_some_do_not_see_matter(self) -> None:
        seeing = [node("node1", unit(XEN), unit(POOL)), node("node2", unit(POOL))]
        assert units_in_use(cluster(*seeing)).pools == ()
        assert units_in_use(cluster(*seeing, node("node3"))).pools == (POOL,)


class TestNeeds:
    """What instances take of units."""

    def test_a_plain_disk_is_where_it_says_and_else_on_the_default(self) -> None:
        wants = units_of(XEN, SSD).needs(instance(DiskTemplate.PLAIN, Disk(10, None, SSD), Disk(20)))
        assert wants == {SSD: 10, XEN: 20}

    def test_each_drbd_disk_has_metadata(self) -> None:
        disks = (Disk(10, None, SSD), Disk(20), Disk(30))
        assert units_of(XEN, SSD).needs(instance(DiskTemplate.DRBD, *disks)) == {SSD: 138, XEN: 306}

    def test_metadata_may_be_on_another_volume_group(self) -> None:
        disks = (Disk(10, None, SSD, "xenvg"), Disk(20, None, SSD, "ssdvg"), Disk(30, None, SSD))
        assert units_of(XEN, SSD).needs(instance(DiskTemplate.DRBD, *disks)) == {
            SSD: 10 + 148 + 158,
            XEN: 128,
        }

    def test_where_all_is_on_one_unit_ganetis_sum_counts(self) -> None:
        assert units_of(XEN, SSD).needs(instance(DiskTemplate.DRBD, Disk(10, None, SSD), dsk=999)) == {
            SSD: 999
        }

    def test_drbd_disks_take_the_unit_for_mirrored_ones_if_a_node_lists_it(self) -> None:
        units = units_of(XEN, MIRRORED, SSD)
        disks = (Disk(10), Disk(20, None, XEN), Disk(30, None, SSD))
        assert units.needs(instance(DiskTemplate.DRBD, *disks)) == {MIRRORED: 286, SSD: 158}
        assert units.needs(instance(DiskTemplate.PLAIN, *disks)) == {XEN: 30, SSD: 30}

    def test_metadata_is_on_unit_for_mirrored_disks_unless_metavg_differs(self) -> None:
        units = units_of(XEN, MIRRORED, SSD)
        disks = (Disk(10, None, XEN, "xenvg"), Disk(20, None, XEN, "ssdvg"))
        assert units.needs(instance(DiskTemplate.DRBD, *disks)) == {MIRRORED: 10 + 128 + 20, SSD: 128}

    def test_the_unit_for_mirrored_disks_may_be_named(self) -> None:
        disk = Disk(10, None, MIRRORED)
        assert units_of(XEN, MIRRORED).needs(instance(DiskTemplate.DRBD, disk)) == {MIRRORED: 138}

    def test_file_disks_take_the_default_directory(self) -> None:
        assert units_of(XEN, FILES).needs(instance(DiskTemplate.FILE, Disk(10))) == {FILES: 10}

    def test_needs_are_dsk_when_nodes_report_no_units(self) -> None:
        units = units_in_use(cluster(by_hand.node("node1")))
        assert units.needs(instance(DiskTemplate.DRBD, Disk(10, None, SSD))) == {NAMELESS: 138}
        assert units.needs(instance(DiskTemplate.FILE, Disk(10))) == {}
        assert units.needs(instance(DiskTemplate.RBD, Disk(10))) == {}

    def test_amounts_of_units_and_wishes_of_pools(self) -> None:
        units = Units((XEN, SSD), (POOL,), frozenset({VG}), frozenset(), (XEN,))
        assert needs_of(instance(DiskTemplate.PLAIN, Disk(10, None, SSD)), units)[:2] == (
            (0, 10),
            (False, True, False),
        )
        assert needs_of(instance(DiskTemplate.RBD, Disk(10, None, POOL)), units)[:2] == (
            (0, 0),
            (False, False, True),
        )

    def test_spindles_are_those_of_the_default_volume_group(self) -> None:
        units = units_of(XEN, SSD)
        disks = (Disk(10, 2), Disk(20, 3, SSD))
        assert needs_of(instance(DiskTemplate.PLAIN, *disks), units).spindles == 2
        assert needs_of(instance(DiskTemplate.PLAIN, disks[1]), units).spindles == 0
        assert needs_of(instance(DiskTemplate.PLAIN, Disk(10), disks[1]), units).spindles is None


TAG = "htools:storage:rados/fast"


@pytest.mark.parametrize(
    ("nodes", "group_tags", "expected"),
    [
        ((node("node1"), node("node2")), (), [True, True]),
        ((node("node1", unit(POOL)), node("node2", tags=(TAG,))), (TAG,), [True, False]),
        ((node("node1"), node("node2", tags=(TAG,))), (), [False, True]),
        ((node("node1"), node("node2", tags=("htools:storage:rbd/fast",))), (), [False, True]),
        ((node("node1"), node("node2", tags=("htools:storage:ext/fast",))), (), [True, True]),
        ((node("node1"), node("node2", group="uuid-2")), (TAG,), [True, False]),
        ((node("node1"), node("node2", group="uuid-2", tags=(TAG,))), (TAG,), [True, True]),
    ],
)
def test_which_nodes_see_a_pool(
    nodes: tuple[Node, ...], group_tags: tuple[str, ...], expected: list[bool]
) -> None:
    plain = cluster(*nodes)
    groups = (replace(plain.groups[0], tags=group_tags), replace(plain.groups[0], name="b", uuid="uuid-2"))
    assert nodes_seeing(replace(plain, groups=groups), POOL) == expected


@pytest.mark.parametrize("tag", ["htools:storage:zfs/fast", "htools:storage:rados", "htools:storage:rados/"])
def test_other_tags_name_no_pool(tag: str) -> None:
    told = cluster(node("node1", unit(XEN), tags=(tag,)), node("node2"))
    assert units_in_use(told) == units_in_use(cluster(node("node1", unit(XEN)), node("node2")))


class TestSpace:
    """What nodes have of units."""

    mixed = cluster(
        node("node1", unit(XEN, 1000, 400), unit(SSD, 50, -5)), by_hand.node("node2", t_dsk=70.0, f_dsk=7)
    )

    def test_node_without_report_has_the_default_unit(self) -> None:
        units = units_in_use(self.mixed)
        found = [spaces_of(node, units) for node in self.mixed.nodes]
        assert found == [[(1000.0, 400), (50.0, -5)], [(70.0, 7), (0.0, 0)]]

    def test_columns_have_figures_of_each_unit(self) -> None:
        columns = derive(self.mixed).columns
        assert columns.shape.units == ("lvm-vg/xenvg", "lvm-vg/ssdvg")
        assert columns.f_dsk.tolist() == [400, 7]
        assert getattr(columns, "t_dsk_1").tolist() == [50.0, 0.0]  # noqa: B009

    def test_with_free_replaces_reported_free_space(self) -> None:
        units = units_in_use(self.mixed)
        first, second = self.mixed.nodes
        storage = (unit(XEN, 1000, 300), unit(SSD, 50, 6))
        assert with_free(first, units, (300, 6), {POOL: 5}) == {"storage": storage}
        assert with_free(second, units, (300, 0), {POOL: 5}) == {"f_dsk": 300}
