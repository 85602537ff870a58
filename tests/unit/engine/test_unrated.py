"""An online node without CPUs leaves no score that is a number."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.allocation.allocate import best_outcome
from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.solution import GroupOutcome, Solution
from ganeti_htools.engine.balancing.shared_instances import regular
from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

NAMES = ("a", "b", "c", "d")
MOVES = instance("moves", DiskTemplate.EXT, "a")


def state_of(*zero: str, what: str = "t_cpu") -> State:
    """Four nodes, two instances on the first; some nodes have none of something."""
    made = cluster(dict.fromkeys(NAMES, 10_000), [MOVES, instance("stays", DiskTemplate.PLAIN, "a")])
    nothing: dict[str, Any] = {what: 0}
    rows = [replace(row, **nothing) if row.name in zero else row for row in made.nodes]
    return derive(replace(made, nodes=tuple(rows)))


def everyone(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


@pytest.mark.parametrize("what", ["t_cpu", "t_mem", "t_spindles"])
def test_there_is_no_score(what: str) -> None:
    assert choice.base(state_of(), everyone(state_of())).rated
    state = state_of("b", what=what)
    assert not choice.base(state, everyone(state)).rated
    assert not regular(state, everyone(state))


def test_a_new_instance_goes_to_the_first_node() -> None:
    state = state_of("a")
    asked = state.requested_instance(instance("new", DiskTemplate.EXT, ""))
    found = on_nodes(state, asked, np.arange(4), everyone(state), PlacementOptions(), None)
    assert found.nodes == (1,)  # the first has no CPUs, so too few
    assert math.isnan(found.metric)


def test_moving_instance_goes_to_the_last_node() -> None:
    state = state_of("b")
    trial = move(state, state.instance(0), MoveKind.FAILOVER_TO, np.array([1, 2, 3]), everyone(state))
    assert choice.best(state, trial, everyone(state)) == 2
    asked = state.requested_instance(instance("new", DiskTemplate.EXT, ""))
    made_anew = placements.allocate_one(state, asked, np.array([1, 2, 3]), everyone(state))
    assert choice.best(state, made_anew, everyone(state)) == 1


def test_mirrored_instance_gets_last_primary_and_first_secondary() -> None:
    state = state_of("b", what="t_mem")
    asked, rows = state.requested_instance(instance("new", DiskTemplate.DRBD, "")), np.arange(4)
    base = choice.base(state, everyone(state))
    found = on_pairs(state, asked, rows, rows, base, PlacementOptions(), None)
    assert found.nodes == (3, 0)
    assert math.isnan(found.metric)


@pytest.mark.parametrize("metrics", [(math.nan, 3.0, 2.0), (2.0, 3.0, math.nan), (3.0, math.nan, 2.0)])
def test_no_number_never_wins_against_a_number(metrics: tuple[float, ...]) -> None:
    groups = tuple(Group(f"group{row}", f"uuid-{row}") for row in range(3))
    state = derive(Cluster(groups))
    target, scope = np.array([0]), everyone(state_of())
    any_trial = placements.allocate_one(state_of(), state_of().requested_instance(MOVES), target, scope)
    outcomes = [GroupOutcome(row, Solution({}, 1, metric, any_trial)) for row, metric in enumerate(metrics)]
    best = best_outcome(state, outcomes)
    assert best is not None
    assert best.group == metrics.index(2.0)
