"""What the policy would do that balances node groups."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.tags import PINNED
from ganeti_htools.planning.balancing import hbal
from htoolsd.config.policies import RebalanceSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.observe import group_facts, needs
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.remedy import RemedyPlan
from tests.support import policies
from tests.support.worlds import uneven

EAGER = RebalanceSettings(mode="act", start=0.02, stop=0.001, min_gain=1e-6)


def planned(cluster: Cluster, settings: RebalanceSettings = EAGER, **seen: Any) -> RemedyPlan:
    return policies.planned(Rebalance, cluster, settings, **seen)


def names(found: RemedyPlan) -> list[str]:
    return [move["instance"] for move in found.moves_to_json()]


def test_measures_each_group() -> None:
    ((facts, need),) = needs(Rebalance(EAGER), group_facts(uneven()))
    assert (facts.group, facts.n1) == ("default", 0)
    assert facts.score > 0
    assert (need.begin, need.stop) == (True, False)


def test_plans_the_first_steps_of_hbal() -> None:
    whole = hbal.HBAL.propose(uneven(), hbal.HbalOptions(), lambda _text: None).found["steps"]
    found = planned(uneven())
    assert found.refusal is None
    assert names(found) == [step["instance"] for step in whole[: found.moves]]
    assert found.moves == len(whole) == len(set(names(found)))
    assert found.mib == sum(row.mem for row in uneven().instances if row.name in names(found))


def test_stops_at_the_score_of_stop() -> None:
    whole = planned(uneven()).proposal.found["steps"]
    enough = replace(EAGER, stop=whole[0]["score"], start=100.0)
    assert planned(uneven(), enough).moves == 1
    assert planned(uneven(), enough, n1=1).moves == len(whole)


@pytest.mark.parametrize("room", [Budget(1, 1 << 30), Budget(100, 999)])
def test_stops_at_the_budget(room: Budget) -> None:
    assert planned(uneven(), room=room).moves == 1


@pytest.mark.parametrize("mib", range(400, 3200, 400))
def test_budget_never_ends_within_a_set(mib: int) -> None:
    rows = [
        replace(row, tags=("htools:together:x",)) if row.name in ("web1", "web3", "web4") else row
        for row in uneven().instances
    ]
    moved = names(planned(replace(uneven(), instances=tuple(rows)), room=Budget(100, mib)))
    assert len({"web1", "web3", "web4"}.intersection(moved)) in (0, 3)


def test_refuses_when_no_move_fits_into_the_budget() -> None:
    assert planned(uneven(), room=Budget(100, 10)).refusal == "no move fits into the budget"
    assert planned(uneven(), room=Budget(100, 10)).moves_to_json() == []


@pytest.mark.parametrize(
    "chosen", [{"most_even": True}, {"cheapest_below": 1.0}, {"max_copy": 1500}, {"price": 0.1}]
)
def test_plans_the_chosen_point_of_the_front(chosen: dict[str, Any]) -> None:
    usual, found = planned(uneven()), planned(uneven(), replace(EAGER, **chosen))
    assert found.refusal is None
    assert len(found.proposal.found["steps"]) == found.moves > 0
    assert found.after is not None
    assert usual.after is not None
    if "max_copy" in chosen:
        assert found.mib <= 1500 < usual.mib
    else:
        assert found.mib <= usual.mib or found.after < usual.after


def test_refuses_two_choices() -> None:
    with pytest.raises(DataError, match="expected only one of the keys"):
        RebalanceSettings(most_even=True, price=1.0)


def test_refuses_a_small_gain() -> None:
    found = planned(uneven(), replace(EAGER, min_gain=1000.0))
    assert found.refusal is not None
    assert found.refusal.endswith("less than min_gain, 1000")


def test_does_not_move_resting_excluded_or_pinned_instances() -> None:
    first = names(planned(uneven()))[0]
    assert first not in names(planned(uneven(), resting=(first, "gone")))
    assert first not in names(planned(uneven(), replace(EAGER, exclude_instances=(first,))))
    rows = tuple(replace(row, tags=(PINNED,)) for row in uneven().instances)
    assert planned(replace(uneven(), instances=rows)).refusal == "no move improves the score enough"


def test_offline_node_with_instances_is_a_cause_of_its_own() -> None:
    cluster = uneven()
    down = replace(cluster, nodes=tuple(replace(each, offline=each.name == "one") for each in cluster.nodes))
    empty = replace(cluster, nodes=tuple(replace(each, offline=each.name == "two") for each in cluster.nodes))
    causes = [policies.needed(Rebalance, each, EAGER)["default"].cause for each in (cluster, down, empty)]
    assert causes == ["drift", "offline node", "drift"]
