"""What the policy would do that repairs node groups."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from htoolsd.config.policies import RedistributeSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.redistribute import Redistribute
from htoolsd.policies.remedy import RemedyPlan
from tests.support import policies
from tests.support.policies import broken, needed
from tests.support.worlds import grouped

EAGER = RedistributeSettings(mode="act")


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
    plan = planned(broken())
    (move,) = plan.moves_to_json()
    assert (plan.refusal, plan.moves, move["instance"], move["from"]) == (None, 1, "shared", ["one"])
    assert set(move["to"]) <= {"four", "five"}
    assert plan.proposal.groups == ("default", "second")
    assert planned(broken(full=False), quiet=()).proposal.groups == ("default",)


@pytest.mark.parametrize(
    ("cluster", "settings", "seen", "refusal"),
    [
        (broken(), EAGER, {"quiet": ()}, "the group cannot be repaired: "),
        (broken(), EAGER, {"room": Budget(5, 100)}, "the group cannot be repaired: "),
        (broken(), EAGER, {"resting": ("shared",)}, "the group cannot be repaired: "),
        (broken(), replace(EAGER, exclude_instances=("shared",)), {}, "the group cannot be repaired: "),
        (grouped().cluster, EAGER, {}, "the group cannot be repaired: nothing to repair"),
    ],
)
def test_refuses_repairs_beyond_room_budget_rests_and_exclusions(
    cluster: Cluster, settings: RedistributeSettings, seen: dict[str, Any], refusal: str
) -> None:
    plan = planned(cluster, settings, **seen)
    assert (plan.refusal or "").startswith(refusal)
    assert plan.moves_to_json() == []


def test_moves_what_can_be_moved_if_wanted() -> None:
    cluster, partial = broken(), replace(EAGER, partial=True)
    stuck = replace(cluster.instances[0], name="stuck", template=DiskTemplate.PLAIN)
    cluster = replace(cluster, instances=(*cluster.instances, stuck))
    assert str(planned(cluster).refusal).endswith("instance stuck: its disks are on an offline node")
    plan = planned(cluster, partial)
    assert (plan.refusal, [move["instance"] for move in plan.moves_to_json()]) == (None, ["shared"])
    [moved] = [replace(row, pnode="four") for row in cluster.instances if row.name == "shared"]
    assert planned(replace(cluster, instances=(moved, stuck)), partial).refusal
