"""What the policy would do that repairs node groups."""

from dataclasses import replace
from typing import Any

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from htoolsd.config.policies import RedistributeSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.redistribute import Redistribute
from htoolsd.policies.remedy import RemedyPlan
from tests.support import policies
from tests.support.policies import needed
from tests.support.worlds import grouped

EAGER = RedistributeSettings(mode="act")


def broken(full: bool = True) -> Cluster:
    """A group of which a node is offline that has an instance on shared storage; the others may be full."""
    cluster = grouped().cluster
    rows = tuple(row for row in cluster.instances if row.name == "shared")

    def node(row: Any) -> Any:
        if row.name == "one":
            return replace(row, offline=True)
        return replace(row, f_mem=500) if full and row.group == "uuid" else row

    return replace(cluster, instances=rows, nodes=tuple(map(node, cluster.nodes)))


def planned(cluster: Cluster, settings: RedistributeSettings = EAGER, **seen: Any) -> RemedyPlan:
    return policies.planned(Redistribute, cluster, settings, **{"quiet": ("second",), **seen})


def test_need_to_redistribute() -> None:
    found = needed(Redistribute, broken(), EAGER)
    assert {name: (need.begin, need.stop) for name, need in found.items()} == {
        "default": (True, False),
        "second": (False, True),
    }
    assert found["default"].why == "the group is unhealthy: offline nodes still have shared"
    assert found["second"].why == "the group needs no repair"


def test_repairs_a_group_with_the_room_of_quiet_ones() -> None:
    found = planned(broken())
    assert found.refusal is None
    (move,) = found.moves_to_json()
    assert (move["instance"], move["from"]) == ("shared", ["one"])
    assert set(move["to"]) <= {"four", "five"}
    assert found.proposal.groups == ("default", "second")
    assert found.moves == 1


def test_uses_no_room_of_busy_groups() -> None:
    refused = planned(broken(), quiet=())
    assert refused.refusal is not None
    assert refused.refusal.startswith("the group cannot be repaired: ")
    assert refused.moves_to_json() == []
    assert planned(broken(full=False), quiet=()).proposal.groups == ("default",)


def test_refuses_repairs_beyond_budget_rests_and_exclusions() -> None:
    assert planned(broken(), room=Budget(5, 100)).refusal is not None
    assert planned(broken(), resting=("shared",)).refusal is not None
    assert planned(broken(), replace(EAGER, exclude_instances=("shared",))).refusal is not None


def test_moves_what_can_be_moved_if_wanted() -> None:
    cluster = broken()
    stuck = replace(cluster.instances[0], name="stuck", template=DiskTemplate.PLAIN)
    cluster = replace(cluster, instances=(*cluster.instances, stuck))
    assert str(planned(cluster).refusal).endswith("instance stuck: its disks are on an offline node")
    found = planned(cluster, replace(EAGER, partial=True))
    assert (found.refusal, [move["instance"] for move in found.moves_to_json()]) == (None, ["shared"])
    [moved] = [replace(row, pnode="four") for row in cluster.instances if row.name == "shared"]
    assert planned(replace(cluster, instances=(moved, stuck)), replace(EAGER, partial=True)).refusal


def test_refuses_when_nothing_is_to_repair() -> None:
    refused = planned(grouped().cluster)
    assert refused.refusal == "the group cannot be repaired: nothing to repair"
