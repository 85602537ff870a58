"""What the policy would do that balances node groups."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.load import HOURS, LoadProfile
from ganeti_htools.model.tags import PINNED
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.balancing import hbal
from htoolsd.config.policies import RebalanceSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.observe import group_facts
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.remedy import RemedyPlan
from tests.support import by_hand, policies
from tests.support.policies import EAGER
from tests.support.worlds import uneven


def planned(cluster: Cluster, settings: RebalanceSettings = EAGER, **seen: Any) -> RemedyPlan:
    return policies.planned(Rebalance, cluster, settings, **seen)


def names(found: RemedyPlan) -> list[str]:
    return [move["instance"] for move in found.moves_to_json()]


def test_plans_the_first_steps_of_hbal() -> None:
    whole = hbal.HBAL.propose(uneven(), hbal.HbalOptions(), lambda _text: None).found["steps"]
    plan = planned(uneven())
    assert plan.refusal is None
    assert names(plan) == [step["instance"] for step in whole[: plan.moves]]
    assert plan.moves == len(whole) == len(set(names(plan)))
    assert plan.mib == sum(row.mem for row in uneven().instances if row.name in names(plan))
    enough = replace(EAGER, stop=whole[0]["score"], start=100.0)
    assert planned(uneven(), enough).moves == 1
    assert planned(uneven(), enough, n1=1).moves == len(whole)


@pytest.mark.parametrize(
    ("room", "moves", "refusal"),
    [
        (Budget(1, 1 << 30), 1, None),
        (Budget(100, 999), 1, None),
        (Budget(100, 10), 0, "no move fits into the budget"),
    ],
)
def test_stops_at_the_budget(room: Budget, moves: int, refusal: str | None) -> None:
    plan = planned(uneven(), room=room)
    assert (plan.moves, len(plan.moves_to_json()), plan.refusal) == (moves, moves, refusal)


@pytest.mark.parametrize("mib", range(400, 3200, 400))
def test_budget_never_ends_within_a_set(mib: int) -> None:
    rows = [
        replace(row, tags=("htools:together:x",)) if row.name in ("web1", "web3", "web4") else row
        for row in uneven().instances
    ]
    moved = names(planned(replace(uneven(), instances=tuple(rows)), room=Budget(100, mib)))
    assert len({"web1", "web3", "web4"}.intersection(moved)) in (0, 3)


@pytest.mark.parametrize(
    "chosen", [{"most_even": True}, {"cheapest_below": 1.0}, {"max_copy": 1500}, {"price": 0.1}]
)
def test_plans_the_chosen_point_of_the_front(chosen: dict[str, Any], short_search: None) -> None:
    usual, plan = planned(uneven()), planned(uneven(), replace(EAGER, **chosen))
    assert plan.refusal is None
    assert len(plan.proposal.found["steps"]) == plan.moves > 0
    assert plan.after is not None
    assert usual.after is not None
    if "max_copy" in chosen:
        assert plan.mib <= 1500 < usual.mib
    else:
        assert plan.mib <= usual.mib or plan.after < usual.after


def test_measured_load_counts_while_it_is_known() -> None:
    """Both instances fit on one node by what is assigned, and are too much for it together."""
    rows = [by_hand.instance(name, DiskTemplate.EXT, "n0", mem=100) for name in ("a", "b")]
    group = (Group("default", "uuid-1"),)
    cluster = replace(by_hand.cluster({"n0": 1000, "n1": 1000}, rows), groups=group)
    hours = np.zeros((4, HOURS))
    hours[0] = cluster.nodes[0].t_cpu * 0.9
    profiles = {name: LoadProfile(hours, hours, hours[:, 0]) for name in ("a", "b")}
    loaded = replace(cluster, load_profiles=profiles)
    settings = replace(EAGER, start=10.0, stop=1.0, load="real")
    remedy = Rebalance(settings)
    (idle,), (busy,) = map(group_facts, (cluster, loaded))
    assert not remedy.need(idle).begin
    assert remedy.need(busy).begin
    assert remedy.need(busy).why.startswith("score with measured load 110.")
    assert planned(loaded, settings).moves == 1
    assert planned(loaded, replace(settings, load="none")).options.view.load == "none"


def test_refuses_two_choices() -> None:
    with pytest.raises(DataError, match="expected only one of the keys"):
        RebalanceSettings(most_even=True, price=1.0)


def test_refuses_a_small_gain() -> None:
    refusal = planned(uneven(), replace(EAGER, min_gain=1000.0)).refusal or ""
    assert refusal.endswith("less than min_gain, 1000")


def test_does_not_move_resting_excluded_or_pinned_instances() -> None:
    first = names(planned(uneven()))[0]
    assert first not in names(planned(uneven(), resting=(first, "gone")))
    assert first not in names(planned(uneven(), replace(EAGER, exclude_instances=(first,))))
    rows = tuple(replace(row, tags=(PINNED,)) for row in uneven().instances)
    assert planned(replace(uneven(), instances=rows)).refusal == "no move improves the score enough"


@pytest.mark.parametrize(("offline", "cause"), [(None, "drift"), ("one", "offline node"), ("two", "drift")])
def test_offline_node_with_instances_is_a_cause_of_its_own(offline: str | None, cause: str) -> None:
    nodes = tuple(replace(each, offline=each.name == offline) for each in uneven().nodes)
    need = policies.needed(Rebalance, replace(uneven(), nodes=nodes), EAGER)["default"]
    assert (need.begin, need.stop, need.cause) == (True, False, cause)
