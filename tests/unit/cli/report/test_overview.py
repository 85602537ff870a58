from ganeti_htools.cli.report import overview
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

DESCRIBED = Cluster(
    (Group("one", "uuid-1"), Group("two", "uuid-2"), Group("empty", "uuid-3")),
    (by_hand.node("n0", used=1000), by_hand.node("n1", group="uuid-2")),
    (by_hand.instance("across", DiskTemplate.DRBD, "n0", "n1"),),
)
STATE = derive(DESCRIBED)


def test_the_size() -> None:
    assert overview.size(STATE) == "Loaded 2 nodes, 1 instance, 3 node groups"


def test_groups_without_nodes_are_left_out() -> None:
    groups = overview.groups(STATE)
    assert [(group.name, group.nodes, group.instances) for group in groups] == [("one", 1, 1), ("two", 1, 0)]
    header, *rows = overview.group_table(groups).splitlines()
    assert header.split()[0] == "Group"
    assert [row.split()[0] for row in rows] == ["one", "two"]


def test_instances_across_groups_are_named() -> None:
    assert overview.split_names(STATE) == ["across"]
    document = overview.as_json(STATE)
    assert document["split_instances"] == ["across"]
    assert document["n1_happy"] is True
