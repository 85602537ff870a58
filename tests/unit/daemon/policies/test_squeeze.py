"""What the policy would do that powers nodes down and up."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Review
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.tags import PINNED
from ganeti_htools.model.types import DiskTemplate
from htoolsd.config.policies import SqueezeSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.remedy import RemedyPlan
from htoolsd.policies.squeeze import NO_STANDBY, PowerDown, PowerUp
from tests.support import policies
from tests.support.policies import WIDE, asleep, needed, racks
from tests.support.worlds import instance, node

EAGER = SqueezeSettings(mode="act", max_nodes=3)


def down(cluster: Cluster, settings: SqueezeSettings = EAGER, **seen: Any) -> RemedyPlan:
    return policies.planned(PowerDown, cluster, settings, **seen)


def up(cluster: Cluster, settings: SqueezeSettings = EAGER, **seen: Any) -> RemedyPlan:
    return policies.planned(PowerUp, cluster, settings, **seen)


@pytest.mark.parametrize(
    ("cluster", "up_needed", "down_needed"),
    [
        (racks(1, 1, 1, 1), False, True),
        (asleep(racks(6, 6, 6, 0), "d"), False, False),
        (asleep(racks(7, 7, 7, 0), "d"), True, False),
        # Each node has room for one instance; with a node less the others would not keep room for two.
        (racks(6, 6, 6), False, False),
    ],
)
def test_need_to_power_up_or_down(cluster: Cluster, up_needed: bool, down_needed: bool) -> None:
    for remedy, begin in ((PowerUp, up_needed), (PowerDown, down_needed)):
        need = needed(remedy, cluster, EAGER)["default"]
        assert (need.begin, need.stop) == (begin, not begin)
    lacking = "some nodes have less than the minimal resources free"
    assert (need.why == lacking) is up_needed


def test_moves_only_what_empties_nodes() -> None:
    found = down(racks(3, 1, 1, 1))
    assert found.refusal is None
    assert {move["instance"][0] for move in found.moves_to_json()} == set(found.nodes) <= {*"bcd"}
    assert found.moves == len(found.nodes) == 2
    assert found.mib == 1000
    assert found.proposal.groups == ("default",)


def test_plans_each_group_by_itself() -> None:
    """The other one has no room at all, which would keep hsqueeze from powering anything down."""
    full = tuple(replace(row, f_mem=10) if row.group == "uuid-2" else row for row in racks(1, 1, 1).nodes)
    cluster = replace(racks(1, 1, 1), nodes=full)
    assert down(cluster).nodes
    found = needed(PowerUp, cluster, EAGER)
    assert {name: need.begin for name, need in found.items()} == {"default": False, "second": True}


@pytest.mark.parametrize(
    ("cluster", "changes", "room", "nodes", "refusal"),
    [
        (racks(2, 1, 1, 1), {}, WIDE, 2, ""),
        (racks(2, 1, 1, 1), {}, Budget(1, 1 << 30), 1, ""),
        (racks(2, 1, 1, 1), {}, Budget(9, 999), 1, ""),
        (racks(2, 1, 1, 1), {"min_nodes": 2}, Budget(1, 1 << 30), 0, "would exceed the budget"),
        (racks(3, 3, 3), {"min_nodes": 3}, WIDE, 0, "fewer than 3 nodes can be powered down"),
    ],
)
def test_powers_as_many_nodes_down_as_budget_and_settings_allow(
    cluster: Cluster, changes: dict[str, Any], room: Budget, nodes: int, refusal: str
) -> None:
    plan = down(cluster, replace(EAGER, **changes), room=room)
    assert len(plan.nodes) == nodes
    assert refusal in (plan.refusal or "")
    assert (plan.refusal is None) is bool(nodes)


@pytest.mark.parametrize(
    ("changes", "seen", "nodes"),
    [
        ({"never": ("a", "role:old", "c")}, {}, {"d"}),
        ({"never": ("y",)}, {}, {"c", "d"}),
        ({}, {"switched": ("a", "b", "c", "gone")}, {"d"}),
        ({}, {"claimed": ("a", "b", "d", "gone")}, {"c"}),
        ({"prefer": ("d",), "max_nodes": 1}, {}, {"d"}),
    ],
)
def test_keeps_certain_nodes_up(changes: dict[str, Any], seen: dict[str, Any], nodes: set[str]) -> None:
    assert set(down(racks(3, 1, 1, 1), replace(EAGER, **changes), **seen).nodes) == nodes


def test_resting_or_pinned_instances_keep_their_nodes_up() -> None:
    cluster = racks(3, 1, 1, 1)
    assert "b" in down(cluster).nodes + down(cluster, replace(EAGER, prefer=("b",))).nodes
    assert "b" not in down(cluster, replace(EAGER, prefer=("b",)), resting=("b0", "gone")).nodes
    assert "b" not in down(cluster, replace(EAGER, prefer=("b",), exclude_instances=("b0",))).nodes
    rows = tuple(replace(row, tags=(PINNED,)) for row in cluster.instances)
    assert down(replace(cluster, instances=rows)).refusal == "no node can be powered down"


def test_moves_local_disks_only_when_allowed() -> None:
    def with_disks(template: DiskTemplate) -> Cluster:
        cluster = racks(3, 1, 1, 1)
        mirror = "a" if template is DiskTemplate.DRBD else None
        rows = [
            replace(row, template=template, snode=mirror, dsk=1024, disks=(Disk(1024),))
            for row in cluster.instances
            if row.pnode != "a"
        ]
        return replace(cluster, instances=tuple(rows))

    plain, drbd = with_disks(DiskTemplate.PLAIN), with_disks(DiskTemplate.DRBD)
    some = replace(EAGER, never=("a",))
    few = "no node can be powered down"
    assert [down(each, some).refusal for each in (plain, drbd)] == [few, few]
    mirrored = replace(some, allow_drbd=True)
    assert (down(plain, mirrored).refusal, down(drbd, mirrored).refusal) == (few, None)
    found = down(plain, replace(some, allow_all=True))
    assert found.refusal is None
    assert found.stops == found.moves > 0
    assert found.summary.endswith(f", stops {found.stops} instances")
    assert found.mib == sum(row.dsk for row in plain.instances if row.pnode in found.nodes)


def test_ignores_a_group_that_shares_instances_with_another() -> None:
    row = instance("split", DiskTemplate.DRBD, "a", "y")
    cluster = racks(1, 1, 1)
    cluster = replace(cluster, instances=(*cluster.instances, row))
    need = needed(PowerDown, cluster, EAGER)["default"]
    assert (need.begin, need.why) == (False, "instance split is in group default and in another one")


TIGHT = asleep(racks(7, 7, 7, 0, 0), "d", "e")


def test_powers_up_as_many_nodes_as_needed() -> None:
    found = up(TIGHT)
    assert (found.refusal, found.nodes) == (None, ("d",))
    assert found.moves == len({move["instance"] for move in found.moves_to_json()}) > 0
    assert all(move["to"] == ["d"] for move in found.moves_to_json())


def test_leaves_moves_beyond_the_budget_to_later_plans() -> None:
    found = up(TIGHT, room=Budget(1, 1 << 30))
    assert (found.nodes, found.moves) == (("d",), 1)
    assert up(TIGHT, room=Budget(0, 0)).nodes == ("d",)
    awake = replace(
        TIGHT,
        nodes=tuple(node("d", t_cpu=16.0) if row.name == "d" else row for row in TIGHT.nodes),
    )
    later = up(awake, room=Budget(1, 1 << 30))
    assert (later.refusal, later.nodes, later.moves) == (None, (), 1)
    assert up(awake, room=Budget(1, 10)).refusal == "no move fits into the budget"


def test_resting_instances_wake_no_more_nodes() -> None:
    every = tuple(row.name for row in TIGHT.instances)
    found = up(TIGHT, resting=every)
    assert (found.refusal, found.nodes, found.moves) == (None, ("d",), 0)


def test_refuses_moves_when_no_node_can_be_powered_up() -> None:
    full = racks(7, 8, 7)
    assert up(full).refusal == NO_STANDBY == "no node is left that could be powered up"
    assert up(racks(1, 1, 1)).refusal == "every node has the minimal resources free"


def reviewed(found: RemedyPlan, cluster: Cluster, rest: Jobsets | None = None) -> Review:
    check = found.proposal.review("stop", lambda *_lines: None)
    return check(cluster, found.proposal.jobs if rest is None else rest, 0)


@pytest.mark.parametrize(("plan", "cluster"), [(down, racks(3, 1, 1, 1)), (up, TIGHT)])
def test_plan_of_a_group_is_reviewed_on_the_whole_cluster(plan: Any, cluster: Cluster) -> None:
    found = plan(cluster)
    assert reviewed(found, cluster).obstacle is None
    first = found.moves_to_json()[0]["instance"]
    gone = tuple(row for row in cluster.instances if row.name != first)
    assert reviewed(found, replace(cluster, instances=gone)).obstacle == f"instance {first} is gone"


def test_review_refuses_to_power_down_a_node_with_a_new_instance() -> None:
    cluster = racks(3, 1, 1, 1)
    found = down(cluster)
    new: Instance = replace(instance("new", DiskTemplate.EXT, found.nodes[0]), mem=100)
    obstacle = reviewed(found, replace(cluster, instances=(*cluster.instances, new))).obstacle
    assert obstacle == "instance new would be left on a node that is powered down"


def test_says_which_instances_keep_all_nodes_up() -> None:
    made = racks(3, 1, 1)
    rows = tuple(replace(row, template=DiskTemplate.PLAIN) for row in made.instances)
    need = needed(PowerDown, replace(made, instances=rows), EAGER)["default"]
    assert not need.begin
    why = "a, b, c: has instances on its own storage: a0, a1, a2 and 2 more; --allow-all moves them"
    assert need.why == f"no node can be spared: {why}"
