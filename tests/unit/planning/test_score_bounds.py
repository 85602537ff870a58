"""Bounds of balancing plans, and the plans that get them."""

import numpy as np
import pytest

from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import CopyingOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.hbal import GroupPlan, HbalOptions, balance_group
from ganeti_htools.planning.score_bounds import with_bounds
from tests.support.by_hand import cluster, instance

ROWS = [instance(name, DiskTemplate.EXT, "a", mem=1000) for name in "opqrst"]
STATE = derive(cluster({"a": 10_000, "b": 10_000, "c": 10_000}, ROWS))
SCOPE = np.ones(3, np.bool_)


def planned(options: HbalOptions) -> GroupPlan:
    plan = balance_group(STATE, "group", SCOPE, options, lambda _news: None)
    return with_bounds(plan, options)


def test_each_plan_of_a_front_has_a_bound_and_the_picked_one_has_its_own() -> None:
    shown = planned(HbalOptions(copying=CopyingOptions(front=4))).front
    assert len(shown) == 5
    for row in shown:
        if row["bound"]:
            assert row["bound"]["score"] <= row["score"]
            assert row["score"] == pytest.approx(row["bound"]["score"] * (1 + row["bound"]["percent"] / 100))
    assert shown[0]["bound"]["percent"] < 0.1  # all stays where it is
    picked = planned(HbalOptions(copying=CopyingOptions(front=4, pick=2)))
    assert picked.bound == picked.front[2]["bound"]
    assert picked.front == shown


def test_limited_plan_has_the_bound_of_what_it_copies() -> None:
    plan = planned(HbalOptions(copying=CopyingOptions(max_copy=1000)))
    assert len(plan.moves) == 1
    assert plan.bound is not None
    assert plan.bound["score"] <= plan.score_after
    assert plan.bound["percent"] > 0  # parts of instances could go to both other nodes


def test_best_plan_of_all_may_have_no_bound() -> None:
    plan = planned(HbalOptions(copying=CopyingOptions(most_even=True)))
    assert plan.moves
    assert plan.bound is None
    assert not plan.front
