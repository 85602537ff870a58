import pytest

from ganeti_htools.engine.repair.damage import needed_repair, node_in_maintenance
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.types import DiskTemplate

NODES = {
    "up": Node("up", "g"),
    "down": Node("down", "g", offline=True),
    "drained": Node("drained", "g", offline=True, drained=True),
    "serviced": Node("serviced", "g", tags=("htools:maintenance",)),
}


def instance(template: DiskTemplate, primary: str, secondary: str | None = None) -> Instance:
    return Instance("web1", 512, 1024, (), 1, pnode=primary, snode=secondary, template=template)


@pytest.mark.parametrize(
    ("template", "primary", "secondary", "needs"),
    [
        (DiskTemplate.DRBD, "up", "serviced", None),
        (DiskTemplate.DRBD, "up", "down", RepairType.FIX_STORAGE),
        (DiskTemplate.DRBD, "up", "drained", RepairType.FIX_STORAGE),
        (DiskTemplate.DRBD, "down", "up", RepairType.FAILOVER),
        (DiskTemplate.DRBD, "down", "drained", RepairType.REINSTALL),
        (DiskTemplate.DRBD, "down", None, None),
        (DiskTemplate.PLAIN, "up", None, None),
        (DiskTemplate.PLAIN, "drained", None, RepairType.REINSTALL),
        *((template, "down", None, None) for template in (DiskTemplate.EXT, DiskTemplate.FILE)),
    ],
)
def test_needed_repair(
    template: DiskTemplate, primary: str, secondary: str | None, needs: RepairType | None
) -> None:
    assert needed_repair(instance(template, primary, secondary), NODES) is needs


def test_either_node_may_be_in_maintenance() -> None:
    assert node_in_maintenance(instance(DiskTemplate.DRBD, "down", "serviced"), NODES) == "serviced"
    assert node_in_maintenance(instance(DiskTemplate.DRBD, "serviced", "down"), NODES) == "serviced"
    assert node_in_maintenance(instance(DiskTemplate.DRBD, "up", "down"), NODES) is None
    assert node_in_maintenance(instance(DiskTemplate.PLAIN, "up"), NODES) is None
