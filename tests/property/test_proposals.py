"""A plan that was handed over as JSON leads to where it led its maker, and is told in the same figures."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import numpy as np
import orjson
import pytest

from ganeti_htools.engine.balancing.balance import score_of, stepwise
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.squeezing.power_group import with_power
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.planning import steps as steps_json
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.view import View, state_of
from tests.support.clusters import MOVABLE, Shape
from tests.support.rows import any_cluster, with_master
from tests.support.seeds import parts

BALANCING = BalancingOptions(max_length=12, min_gain=0.0)
OPTIONS = hbal.HbalOptions(balancing=BALANCING)


def handed_over(propose: Callable[..., Proposal], cluster: Cluster, options: object) -> Proposal:
    """A proposal whose JSON parts went over the wire."""
    found = propose(cluster, options, ignore)
    return replace(found, found=orjson.loads(orjson.dumps(found.found)))


def ignore(_text: str) -> None:
    """Progress that nobody looks at."""


def same(one: State, other: State) -> None:
    for name, expected, value in zip(Columns._fields, one.columns, other.columns, strict=True):
        assert np.array_equal(expected, value), name
    assert one.pnode.tolist() == other.pnode.tolist()
    assert one.snode.tolist() == other.snode.tolist()


@pytest.mark.parametrize("seeds", parts(30, 5))
def test_described_plan_is_hbals_plan(seeds: range) -> None:
    steps = 0
    for seed in seeds:
        cluster = any_cluster(random.Random(seed))
        if len(cluster.groups) > 1:
            continue
        found = handed_over(hbal.HBAL.propose, cluster, OPTIONS)
        state = state_of(cluster, View())
        scope, movable = np.ones(len(state.group), np.bool_), np.ones(len(state.pnode), np.bool_)
        expected, again = state.copy(), state.copy()
        usual = list(stepwise(expected, scope, BALANCING, movable))
        assert list(steps_json.retrace(again, movable, found.found["steps"])) == usual
        same(expected, again)
        assert score_of(again, scope) == score_of(expected, scope)
        steps += len(usual)
    assert steps > 6


@pytest.mark.parametrize("seeds", parts(24, 4))
def test_plans_of_several_groups_are_those_of_each_group(seeds: range) -> None:
    several = 0
    for seed in seeds:
        cluster = any_cluster(random.Random(seed))
        state, everywhere = state_of(cluster, View()), replace(OPTIONS, all_groups=True)
        order = [name for name, _ in hbal.select_groups(state, everywhere)]
        balancing = replace(BALANCING, max_length=-1)
        alone = {
            name: hbal.HBAL.propose(cluster, hbal.HbalOptions(balancing=balancing, group=name), ignore)
            for name in order
        }
        scores = [alone[name].score["before"] for name in order]
        assert scores == sorted(scores, key=lambda score: (math.isnan(score), -score))
        found = handed_over(hbal.HBAL.propose, cluster, replace(everywhere, balancing=balancing))
        assert found.jobs == [jobs for name in order for jobs in alone[name].jobs]
        assert (found.groups, list(found.found["groups"])) == (tuple(order), order)
        worst = hbal.HBAL.propose(cluster, replace(OPTIONS, balancing=balancing, worst_group=True), ignore)
        first = next((name for name in order if alone[name].jobs), order[0])
        assert (worst.groups, worst.jobs) == ((first,), alone[first].jobs)
        # What is carried out leads to where it led those who planned it, and a rest of it fits there.
        assert not found.jobs or found.review("stop", ignore)(cluster, found.jobs, 0).obstacle is None

        groups = hbal.select_groups(state, everywhere)
        last = hbal.restore(state, everywhere, found.found).parts[-1]
        limited = hbal.HBAL.propose(
            cluster, replace(everywhere, balancing=replace(balancing, max_length=3)), ignore
        )
        assert list(chain(*limited.jobs)) == list(chain(*found.jobs))[:3]
        for name, scope in groups:
            after = found.found["groups"][name]["steps"]
            expected = float(after[-1]["score"]) if after else alone[name].score["before"]
            assert score_of(last.after, scope) == expected or math.isnan(expected)
        several += len([name for name in order if alone[name].jobs]) > 1
    assert several > 1


def test_described_plan_is_hsqueezes_plan() -> None:
    cluster = with_master(4, Shape(nodes=6, instances=12, templates={"ext": 1}, fill=0.05, down=0))
    found = handed_over(hsqueeze.HSQUEEZE.propose, cluster, hsqueeze.SqueezeOptions())
    state = state_of(cluster, View())
    assert found.found["action"] == "offline"
    assert found.found["steps"]
    rows = [state.nodes[name] for name in found.found["nodes"]]
    again = with_power(state, rows, True)
    movable = np.ones(len(state.pnode), np.bool_)
    assert len(list(steps_json.retrace(again, movable, found.found["steps"]))) == len(found.found["steps"])
    assert not np.isin(again.pnode, rows).any()


@pytest.mark.parametrize(
    "damage",
    [
        {"instance": "nobody"},
        {"node": "nowhere"},
        {"move": "levitate"},
        {"from": None},
        {"score": "high"},
    ],
)
def test_damaged_description_is_refused(damage: dict[str, object]) -> None:
    cluster = with_master(3, Shape(nodes=6, instances=30, templates=MOVABLE))
    step = hbal.HBAL.propose(cluster, OPTIONS, ignore).found["steps"][0]
    state = derive(cluster)
    with pytest.raises(DataError):
        list(steps_json.retrace(state, np.ones(len(state.pnode), np.bool_), [{**step, **damage}]))


def test_planning_ends_when_progress_raises() -> None:
    class EnoughError(Exception):
        pass

    def heed(_text: str) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        hbal.HBAL.propose(with_master(3, Shape(nodes=6, instances=30, templates=MOVABLE)), OPTIONS, heed)
    with pytest.raises(EnoughError):
        hsqueeze.HSQUEEZE.propose(
            with_master(4, Shape(nodes=5, instances=6, templates={"ext": 1})), hsqueeze.SqueezeOptions(), heed
        )


def test_optimised_plan_is_described_with_the_greedy_one() -> None:
    heeded: list[str] = []
    cluster = with_master(3, Shape(nodes=6, instances=30, templates=MOVABLE))
    greedy = hbal.HBAL.propose(cluster, OPTIONS, ignore)
    found = hbal.HBAL.propose(cluster, replace(OPTIONS, optimise=0.1), heeded.append)
    assert found.found["greedy"] == greedy.found["steps"]
    assert len(heeded) > len(found.found["steps"])


def test_refuses_several_groups_without_a_name() -> None:
    cluster = with_master(3, Shape(nodes=8, instances=32, groups=2, templates={"drbd": 1}))
    with pytest.raises(HtoolsError, match=r"^Found multiple node groups: group1, group2$"):
        hbal.HBAL.propose(cluster, OPTIONS, ignore)
    assert hbal.HBAL.propose(cluster, hbal.HbalOptions(group="group2"), ignore).groups == ("group2",)


@pytest.mark.parametrize("score", [math.inf, -math.inf, math.nan, 0.1 + 0.2, -0.0])
def test_scores_that_are_not_finite_survive_json(score: float) -> None:
    state = derive(with_master(3, Shape(nodes=6, instances=30, templates=MOVABLE)))
    everyone = np.ones(len(state.group), np.bool_), np.ones(len(state.pnode), np.bool_)
    steps = list(stepwise(state.copy(), everyone[0], BALANCING, everyone[1]))
    told = steps_json.to_json(named(state, (replace(step, score=score) for step in steps)))
    again = list(steps_json.retrace(state.copy(), everyone[1], orjson.loads(orjson.dumps(told))))
    assert [repr(step.score) for step in again] == [repr(score)] * len(steps) != []
