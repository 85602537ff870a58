import pytest

from ganeti_htools.engine.repair.damage import Damage, RepairScope, damage_of
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.types import DiskTemplate

NODES = {
    "up": Node("up", "g"),
    "down": Node("down", "g", offline=True),
    "gone": Node("gone", "g", offline=True),
    "drained": Node("drained", "g", offline=True, drained=True),
    "silent": Node("silent", "g", offline=True, silent=True),
    "serviced": Node("serviced", "g", tags=("htools:maintenance",)),
}
DRBD, PLAIN, EXT = DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT
FIX, MIGRATE, FAILOVER, REINSTALL = map(Damage, RepairType)
USUAL, WIDEST = RepairScope(), RepairScope(migrate_drained=True, shared=True)


def damage(template: DiskTemplate, places: str, scope: RepairScope, *tags: str) -> Damage | None:
    primary, _, secondary = places.partition(" ")
    row = Instance(
        "web1", 512, 1024, (), 1, tags=tags, pnode=primary, snode=secondary or None, template=template
    )
    return damage_of(row, NODES, scope)


@pytest.mark.parametrize(
    ("template", "places", "usual", "widest"),
    [
        (DRBD, "up serviced", None, None),
        (DRBD, "up down", FIX, FIX),
        (DRBD, "up drained", FIX, FIX),
        (DRBD, "down up", FAILOVER, FAILOVER),
        (DRBD, "down gone", REINSTALL, REINSTALL),
        (DRBD, "drained up", FAILOVER, MIGRATE),
        # A silent node may be up.
        *((template, "silent up", None, None) for template in (DRBD, EXT)),
        (DRBD, "silent down", *[FIX._replace(obstacle="node silent does not report")] * 2),
        # What is on a drained node is not lost.
        (DRBD, "drained down", REINSTALL, FIX),
        (
            DRBD,
            "down drained",
            REINSTALL,
            Damage(RepairType.FAILOVER, "the secondary drained is drained"),
        ),
        (DRBD, "down", None, None),
        (PLAIN, "up", None, None),
        (PLAIN, "down", REINSTALL, REINSTALL),
        (
            *(PLAIN, "drained", REINSTALL),
            Damage(RepairType.MIGRATE, "node drained is drained, which plain disks cannot leave"),
        ),
        (EXT, "up", None, None),
        (EXT, "down", None, Damage(RepairType.FAILOVER, elsewhere=True)),
        (EXT, "drained", None, Damage(RepairType.MIGRATE, elsewhere=True)),
        *((template, "down", None, None) for template in (DiskTemplate.FILE, DiskTemplate.DISKLESS)),
    ],
)
def test_damage(template: DiskTemplate, places: str, usual: Damage | None, widest: Damage | None) -> None:
    assert (damage(template, places, USUAL), damage(template, places, WIDEST)) == (usual, widest)


def test_each_widening_stands_by_itself() -> None:
    assert damage(EXT, "drained", RepairScope(shared=True)) == Damage(RepairType.FAILOVER, elsewhere=True)
    assert damage(EXT, "drained", RepairScope(migrate_drained=True)) is None
    assert damage(DRBD, "drained up", RepairScope(shared=True)) == FAILOVER


def test_either_node_may_be_in_maintenance() -> None:
    obstacle = "node serviced is in maintenance"
    assert damage(DRBD, "down serviced", USUAL) == FAILOVER._replace(obstacle=obstacle)
    assert damage(DRBD, "serviced down", WIDEST) == FIX._replace(obstacle=obstacle)


def test_fixed_instances_are_left_alone() -> None:
    fixed = "htools:fixed"
    assert damage(PLAIN, "down", USUAL, fixed) == REINSTALL._replace(obstacle=f"it has the tag {fixed}")
    assert damage(PLAIN, "up", USUAL, fixed) is None
    assert damage(PLAIN, "down", USUAL, "htools:pinned") == REINSTALL
