"""What the policy would do that takes load off hot nodes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.execution.review import Review
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.load import HOURS, LoadProfile, PresentLoad
from ganeti_htools.model.tags import PINNED
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.config.policies import RebalanceSettings, RelieveSettings, SqueezeSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.relieve import Relieve
from htoolsd.policies.remedy import RemedyPlan
from htoolsd.policies.squeeze import PowerDown
from tests.support import by_hand, policies

SETTINGS = RelieveSettings(mode="act", hold=1)
CPUS = 64.0  # of each node


def ext(name: str, pnode: str, mem: int = 1000, **facts: Any) -> Instance:
    return by_hand.instance(name, DiskTemplate.EXT, pnode, mem=mem, **facts)


def drbd(name: str, pnode: str, snode: str, mem: int = 1000) -> Instance:
    return by_hand.instance(name, DiskTemplate.DRBD, pnode, snode, mem=mem)


def loaded(
    rows: list[Instance], share: dict[str, float], worst: dict[str, float] | None = None, **present: Any
) -> Cluster:
    """Three nodes; instances use this share of a node's CPUs now, and in their worst hour."""
    cluster = replace(
        by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows), groups=(Group("default", "uuid-1"),)
    )
    profiles = {}
    for name, now in share.items():
        hours = np.full((4, HOURS), 0.01)
        hours[0, 7] = CPUS * (worst or {}).get(name, now)
        profiles[name] = LoadProfile(hours, hours, hours[:, 0])
    cores = {name: CPUS * now for name, now in share.items()}
    return replace(
        cluster,
        load_profiles=profiles,
        present_load=PresentLoad(cores, **{"nodes": {}, "pressure": {}} | present),
    )


def planned(cluster: Cluster, hot: tuple[str, ...] = ("n0",), **bounds: Any) -> RemedyPlan:
    return policies.planned(Relieve, cluster, SETTINGS, hot=hot, **bounds)


def moves(plan: RemedyPlan) -> list[tuple[str, str]]:
    return [(move["instance"], move["to"][0]) for move in plan.moves_to_json()]


HOT = [ext("small", "n0", mem=500), ext("large", "n0", mem=3000), ext("idle", "n0", mem=100)]
SHARES = {"small": 0.3, "large": 0.55, "idle": 0.02}


def why(cluster: Cluster) -> str:
    return policies.needed(Relieve, cluster, SETTINGS)["default"].why


def test_nodes_above_the_start_are_hot_by_use_or_pressure() -> None:
    cluster = loaded(HOT, SHARES, pressure={"n0": 0.1, "n1": 0.9})
    need = policies.needed(Relieve, cluster, SETTINGS)["default"]
    assert (need.begin, need.nodes) == (True, ("n1", "n0"))
    assert need.why == "above the start, 80 %: n1 90 %, n0 87 %; without pressure: n2"
    assert why(loaded(HOT, SHARES, nodes={"n0": CPUS / 2})) == "no node is above the start, 80 %"
    assert why(replace(cluster, present_load=None)) == "measured load is not used: it is not measured"
    unused = PresentLoad({}, {}, {}, "MonD measures the load of instances on Xen only")
    assert why(replace(cluster, present_load=unused)).startswith("measured load is not used: MonD")


def test_cheapest_instance_leaves_that_brings_the_node_down_to_stop() -> None:
    plan = planned(loaded(HOT, SHARES))
    assert (moves(plan)[0][0], plan.mib, plan.refusal) == ("small", 500, None)
    assert [job.opcodes[0]["OP_ID"] for jobs in plan.proposal.jobs for job in jobs] == ["OP_INSTANCE_MIGRATE"]
    # Without it the node stays above the stop: the larger one is the first that suffices.
    assert moves(planned(loaded(HOT, {"small": 0.14, "large": 0.6, "idle": 0.12})))[0][0] == "large"
    # None suffices alone: the one leaves that helps most.
    many = [ext(name, "n0") for name in "abc"]
    assert (
        moves(planned(loaded(many, {"a": 0.2, "b": 0.3, "c": 0.25, "d": 0.2}, nodes={"n0": 1.5 * CPUS})))[0][
            0
        ]
        == "b"
    )


@pytest.mark.parametrize(
    ("worst", "present", "target"),
    [
        ({}, {}, "n1"),
        ({"other": 0.5}, {}, "n2"),  # its worst hour with the instance would be above the stop
        ({}, {"nodes": {"n0": 56.0, "n1": 30.0}}, "n2"),  # it is warm now
        ({}, {"pressure": {"n1": 0.75}}, "n2"),
    ],
)
def test_target_stays_below_stop(worst: dict[str, float], present: dict[str, Any], target: str) -> None:
    rows = [*HOT, ext("other", "n1"), ext("more", "n2")]
    shares = SHARES | {"other": 0.05, "more": 0.1}
    assert moves(planned(loaded(rows, shares, worst, **present))) == [("small", target)]


def test_hot_nodes_do_not_swap() -> None:
    rows = [*HOT, *(replace(row, name=f"{row.name}1", pnode="n1") for row in HOT)]
    cluster = loaded(rows, SHARES | {f"{name}1": share for name, share in SHARES.items()})
    both = planned(cluster, hot=("n0", "n1"))
    assert [target for _, target in moves(both)] == ["n2", "n2"] or len(moves(both)) == 1
    full = [*rows, ext("third", "n2")]
    shares = {row.name: SHARES.get(row.name.rstrip("1"), 0.6) for row in full}
    assert planned(loaded(full, shares), hot=("n0", "n1")).refusal == (
        "no live migration off n0 leaves the other node below the stop, 70 %;"
        " no live migration off n1 leaves the other node below the stop, 70 %"
    )


def test_drbd_instance_goes_to_its_secondary_only() -> None:
    rows = [drbd("small", "n0", "n1", 500), ext("large", "n0"), ext("other", "n1")]
    shares = {"small": 0.3, "large": 0.55, "other": 0.3}
    assert moves(planned(loaded(rows, shares))) == [("small", "n1")]
    assert moves(planned(loaded(rows, shares | {"other": 0.5}))) == [("large", "n2")]


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.DOWN},
        {"tags": (PINNED,)},
        {"auto_balance": False},
        {"template": DiskTemplate.PLAIN},
    ],
)
def test_only_migrations_that_may_be(change: dict[str, Any]) -> None:
    rows = [replace(HOT[0], **change), *HOT[1:]]
    assert moves(planned(loaded(rows, SHARES)))[0][0] == "large"


def test_resting_instances_and_budgets_are_heeded() -> None:
    assert moves(planned(loaded(HOT, SHARES), resting=("small",)))[0][0] == "large"
    assert planned(loaded(HOT, SHARES), room=Budget(1, 50)).refusal == "no move fits into the budget"
    assert planned(loaded(HOT, SHARES), hot=()).refusal == "no node is hot"
    assert planned(loaded(HOT, SHARES, nodes={"n0": CPUS / 2})).refusal == "no node is hot"


def test_reports_an_instance_that_would_make_any_node_hot() -> None:
    refusal = planned(loaded(HOT, {"small": 0.05, "large": 0.85, "idle": 0.02})).refusal
    assert refusal == "n0 is hot because of instance large, which would make any node hot"


def test_review_stops_a_plan_whose_target_has_become_warm() -> None:
    cluster = loaded([*HOT, ext("other", "n1"), ext("more", "n2")], SHARES | {"other": 0.05, "more": 0.1})
    plan = planned(cluster)
    check = plan.proposal.review("stop", lambda *_lines: None)
    assert check(cluster, plan.proposal.jobs, 0) == Review()
    warm = loaded([*HOT, ext("other", "n1"), ext("more", "n2")], SHARES | {"other": 0.6, "more": 0.1})
    assert check(warm, plan.proposal.jobs, 0).obstacle == "node n1 would not stay below 70 %"
    with pytest.raises(HtoolsError, match="the policy makes another plan"):
        plan.proposal.review("replan", lambda *_lines: None)(warm, plan.proposal.jobs, 0)


def test_rebalance_and_squeeze_make_no_node_hot() -> None:
    rows = [ext(name, "n0") for name in ("a", "b", "c", "d")]
    cluster = loaded(
        [*rows, ext("e", "n1"), ext("f", "n2")], dict.fromkeys("abcd", 0.1) | {"e": 0.65, "f": 0.65}
    )
    even = RebalanceSettings(mode="act", start=0.02, stop=0.001, min_gain=1e-6)
    assert policies.planned(Rebalance, cluster, even).moves
    held = policies.planned(Rebalance, cluster, even, cool=0.7)
    assert held.refusal == "the next move would make a node hot (the stop of [relieve])"
    squeeze = SqueezeSettings(mode="act", minimal_resources=0.1, target_resources=0.1)
    assert policies.planned(PowerDown, cluster, squeeze).nodes
    refusal = policies.planned(PowerDown, cluster, squeeze, cool=0.7).refusal or ""
    assert refusal.endswith("would make a node hot (the stop of [relieve])")


def test_refuses_a_stop_above_the_start() -> None:
    with pytest.raises(DataError, match="stop: expected at most start, which is 60"):
        RelieveSettings(start=60.0)
