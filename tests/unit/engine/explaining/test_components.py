"""Components of the score of each candidate."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.explaining.places import scored
from ganeti_htools.engine.rules import choice, placements, settling
from ganeti_htools.engine.rules.components import COMPONENTS, INDEX, LOCATION_EXCLUSION, WEIGHTS
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

HERE = [instance("here", DiskTemplate.PLAIN, "c")]
STATE = derive(cluster({"a": 10_000, "b": 500, "c": 20_000}, HERE))
EVERYONE = np.ones(3, np.bool_)


def tried(state: State) -> Trial:
    """A new instance on each node."""
    asked = state.requested_instance(instance("new", DiskTemplate.PLAIN, ""))
    return placements.allocate_one(state, asked, np.arange(3), EVERYONE)


def test_components_are_those_of_the_state_afterwards() -> None:
    trial = tried(STATE)
    scores, parts = scored(choice.base(STATE, EVERYONE), trial.changes, trial.location_exclusion, (3,))
    assert len(parts) == len(COMPONENTS)
    assert scores == pytest.approx(np.dot(WEIGHTS, parts))
    after = STATE.copy()
    settling.settle(after, trial.only(2))
    expected = choice.base(after, EVERYONE)
    assert scores[2] == pytest.approx(float(expected.score()))
    found = [float(part[2]) for part in parts]
    assert found == pytest.approx([float(value) for value in expected.components()], abs=1e-6)


def test_the_location_exclusion_score_changes_by_what_is_given() -> None:
    base = choice.base(STATE, EVERYONE, exclusion=2.0)
    scores, parts = scored(base, (), np.array([0.0, 1.0, -2.0]), (3,))
    assert parts[LOCATION_EXCLUSION].tolist() == [2.0, 3.0, 0.0]
    assert scores - scores[0] == pytest.approx(WEIGHTS[LOCATION_EXCLUSION] * np.array([0.0, 1.0, -2.0]))


def test_a_component_that_is_no_number_stays_none() -> None:
    """Node b reports no CPUs: the ratio of CPUs is no number, all other components are."""
    nodes = tuple(replace(row, t_cpu=0.0) if row.name == "b" else row for row in STATE.cluster.nodes)
    state = derive(replace(STATE.cluster, nodes=nodes))
    trial = tried(state)
    scores, parts = scored(choice.base(state, EVERYONE), trial.changes, trial.location_exclusion, (3,))
    assert np.isnan(scores).all()
    assert np.isnan(parts[INDEX["vcpu_ratio_cv"]]).all()
    assert np.isfinite(parts[INDEX["free_mem_cv"]]).all()
