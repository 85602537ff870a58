"""Plans to the places that a search finds."""

import numpy as np
import pytest

from ganeti_htools.engine.balancing import place_plans
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.balancing.place_plans import FREE, PlacePlans
from ganeti_htools.engine.balancing.visits import Visit
from ganeti_htools.engine.balancing.ways import exchanged_goals, goals_of
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from tests.support.clusters import Shape
from tests.support.patience import Steps
from tests.support.rows import generated


def test_instances_that_find_no_way_at_the_end_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    state = derive(generated(12, Shape(nodes=7, instances=60, templates={"drbd": 1}, fill=0.9)))
    scope, options = np.ones(len(state.group), np.bool_), BalancingOptions()
    plans = PlacePlans(state, scope, options, CopyingOptions(), None)
    steps, patience = rebalance(state, scope, options, None)[1], Steps(60)
    found = [visit for visit, _ in plans.plans(steps, [1e-3, FREE], patience, lambda visits: visits[-6:])]

    def left(visit: Visit) -> int:
        """Count the instances that a plan does not bring to their places."""
        goals = exchanged_goals(state, plans.home.batches, goals_of(state, visit))
        replay = plans.replay(visit, patience)
        return sum(replay.place(index) != goal for index, goal in goals.items())

    few = sum(map(left, found))
    monkeypatch.setattr(place_plans, "ATTEMPTS", 1)
    assert sum(map(left, found)) > few
