"""The best candidate of a trial: the lowest score; of equal ones the last."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.engine.rules.components import INDEX
from ganeti_htools.engine.rules.score import score
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

NODES = {"a": 10_000, "b": 10_000, "c": 10_000, "d": 10_000}


@pytest.fixture
def state() -> State:
    """Four equal nodes; an instance on the first."""
    return derive(cluster(NODES, [instance("old", DiskTemplate.EXT, "a")]))


def everywhere(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def tried(state: State, mem: int = 1000) -> Trial:
    """A new instance on each node."""
    asked = state.requested_instance(instance("new", DiskTemplate.EXT, "", mem=mem))
    return placements.allocate_one(state, asked, np.arange(len(NODES)), everywhere(state))


def test_the_last_of_equal_candidates_wins(state: State) -> None:
    assert choice.best(state, tried(state), everywhere(state)) == 3


def test_a_candidate_that_does_not_fit_never_wins(state: State) -> None:
    trial = tried(state)
    codes = trial.codes.copy()
    codes[3] = 1
    assert choice.best(state, replace(trial, codes=codes), everywhere(state)) == 2
    assert choice.best(state, tried(state, mem=20_000), everywhere(state)) is None


def test_near_best_keeps_scores_that_differ_by_rounding() -> None:
    assert choice.near_best(np.array([1.0, 1.0 + 1e-12, 1.1])).tolist() == [0, 1]
    assert choice.near_best(np.array([np.nan, 2.0])).tolist() == [1]
    assert choice.near_best(np.array([np.nan, np.nan])).tolist() == [0, 1]


def test_fresh_score_equals_the_score_after_the_placement(state: State) -> None:
    after = derive(
        cluster(NODES, [instance("old", DiskTemplate.EXT, "a"), instance("new", DiskTemplate.EXT, "b")])
    )
    assert choice.fresh_score(state, tried(state), 1, everywhere(state)) == score(after.columns, 0.0)


def test_nodes_out_of_scope_do_not_count(state: State) -> None:
    scope = np.array([True, True, False, False])
    assert choice.restricted(tried(state), scope).changes == ()
    assert choice.base(state, scope).score() != choice.base(state, everywhere(state)).score()


def test_without_online_nodes_the_score_is_0(state: State) -> None:
    state.columns.offline[:] = True
    assert choice.base(state, everywhere(state)).score() == 0.0


def test_base_computes_the_location_exclusion_score_unless_given() -> None:
    """Three instances of one service in one rack are two too many."""
    made = cluster(
        NODES, [instance(f"i{row}", DiskTemplate.EXT, "ab"[row % 2], tags=("service:x",)) for row in range(3)]
    )
    nodes = tuple(replace(node, tags=("rack:1",)) for node in made.nodes)
    state = derive(replace(made, nodes=nodes, tags=("htools:iextags:service", "htools:nlocation:rack")))
    found, without = (choice.base(state, everywhere(state), given) for given in (None, 0.0))
    assert found.sums[INDEX["location_exclusion_score"]] == 2.0
    assert found.score() - without.score() == pytest.approx(2.0)
