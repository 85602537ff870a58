from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.figures import tabulate_needs
from ganeti_htools.model.storage import DesiredUnit, StorageType, holds
from ganeti_htools.model.tags import demand
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.model.units import SINGLE, Units, needs_of

GROUPS = [DesiredUnit(StorageType.LVM_VG, key) for key in ("xenvg", "ssdvg", "hddvg")]
MIRRORED = DesiredUnit(StorageType.DRBD, "xenvg")
POOLS = [DesiredUnit(StorageType.RADOS, key) for key in ("rbd", "fast")]
EVERYWHERE = DesiredUnit(StorageType.EXT, "san")  # has no column
FILES = DesiredUnit(StorageType.FILE, "/srv/files")
DEFAULTS = (GROUPS[0], POOLS[0], EVERYWHERE)
TYPES = frozenset({StorageType.LVM_VG, StorageType.DRBD, StorageType.FILE})

reported = st.builds(
    Units,
    local=st.sampled_from([(GROUPS[0],), tuple(GROUPS), (GROUPS[0], MIRRORED, FILES, GROUPS[1])]),
    pools=st.sampled_from([(), tuple(POOLS)]),
    reported_types=st.just(TYPES),
    mirrored=st.sampled_from([frozenset(), frozenset({"xenvg"})]),
    defaults=st.sampled_from([(), DEFAULTS]),
    classes=st.sampled_from([(), ("CUSTOM_GPU", "CUSTOM_SSD")]),
)
unreported = st.builds(
    SINGLE._replace,
    pools=st.sampled_from([(), tuple(POOLS)]),
    defaults=st.sampled_from([(), DEFAULTS]),
    classes=st.sampled_from([(), ("CUSTOM_GPU",)]),
)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    template = draw(st.sampled_from(DiskTemplate))
    there = [unit for unit in (*GROUPS, MIRRORED, *POOLS, EVERYWHERE, FILES) if holds(unit, template)]
    disks = st.builds(
        Disk,
        size=st.integers(0, 1 << 40),
        spindles=st.one_of(st.none(), st.integers(0, 4)),
        unit=st.sampled_from([None, *there]),
        metavg=st.sampled_from([None, "xenvg", "ssdvg", "othervg"]),
    )
    return Instance(
        "inst",
        512,
        draw(st.integers(0, 1 << 40)),
        tuple(draw(st.lists(disks, max_size=3))),
        1,
        status=draw(st.sampled_from([Status.RUNNING, Status.OFFLINE])),
        tags=draw(st.sampled_from([(), (demand("CUSTOM_GPU", 2),), (demand("CUSTOM_SSD", 1), "other")])),
        auto_balance=draw(st.booleans()),
        template=template,
    )


@given(st.lists(instances(), max_size=6), st.one_of(reported, unreported))
def test_table_has_the_needs_of_each_instance(rows: list[Instance], units: Units) -> None:
    table = tabulate_needs(rows, units)
    for at, row in enumerate(rows):
        needs = needs_of(row, units)
        assert tuple(table.disk[at].tolist()) == needs.disk
        assert tuple(table.wants[at].tolist()) == needs.wants
        assert (table.spindles[at], table.vague[at]) == (needs.spindles or 0, needs.spindles is None)
        assert tuple(table.classes[at].tolist()) == needs.classes
        assert tuple(table.secondary_classes[at].tolist()) == needs.secondary_classes
