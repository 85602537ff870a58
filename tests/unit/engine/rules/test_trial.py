"""Scores of a trial's candidates equal those of the resulting states."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.rules import affinity, choice, placements, settling, trial
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

EVERYONE = np.ones(4, np.bool_)
NODES = np.arange(4)
TAGS = ("htools:iextags:service", "htools:nlocation:rack")


def state_of() -> State:
    """Four nodes, two of them in one rack; on the first an instance that others like it are to avoid."""
    here = [
        instance("old", DiskTemplate.DRBD, "a", "b", tags=("service:web",)),
        instance("two", DiskTemplate.PLAIN, "c", mem=4_000),
    ]
    made = cluster(dict.fromkeys("abcd", 10_000), here)
    nodes = tuple(replace(row, tags=("rack:1",)) if row.name in "ab" else row for row in made.nodes)
    return derive(replace(made, nodes=nodes, tags=TAGS))


def one_node(state: State) -> Trial:
    asked = state.requested_instance(instance("new", DiskTemplate.PLAIN, "", tags=("service:web",)))
    return placements.allocate_one(state, asked, NODES, EVERYONE)


def pairs(state: State) -> Trial:
    asked = state.requested_instance(instance("new", DiskTemplate.DRBD, ""))
    rows = NODES[:, np.newaxis]
    return placements.allocate_pairs(state, asked, rows, NODES, state.peers[rows, NODES])


def score_of(state: State) -> float:
    return float(choice.base(state, EVERYONE, affinity.location_exclusion(state, EVERYONE)).score())


def test_each_candidate_has_the_score_of_the_state_it_leads_to() -> None:
    state = state_of()
    tried = one_node(state)
    scores = tried.scores(choice.base(state, EVERYONE, affinity.location_exclusion(state, EVERYONE)))
    assert np.count_nonzero(tried.location_exclusion) == 2  # a and b are the rack with the other service
    for row in NODES.tolist():
        after = state.copy()
        settling.settle(after, tried.only(row))
        assert scores[row] == pytest.approx(score_of(after))


@pytest.mark.parametrize("block", [1, 4, 1 << 15])
def test_pairs_are_scored_in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(trial, "BLOCK", block)
    state = state_of()
    scores = pairs(state).scores(choice.base(state, EVERYONE))
    assert scores.shape == (4, 4)
    for pnode, snode in ((0, 1), (1, 0), (2, 3)):
        after = state.copy()
        asked, p, s = (
            state.requested_instance(instance("new", DiskTemplate.DRBD, "")),
            np.array([pnode]),
            np.array([snode]),
        )
        settling.settle(after, placements.allocate_pairs(state, asked, p, s, state.peers[p, s]))
        assert scores[pnode, snode] == pytest.approx(score_of(after))


def test_single_candidate_becomes_a_trial() -> None:
    tried = one_node(state_of())
    only = tried.only(2)
    assert (only.pnode.tolist(), only.snode.tolist(), only.codes.tolist()) == ([2], [NOWHERE], [0])
    (change,) = only.changes
    assert change.rows.tolist() == [2]
    assert change.new.primaries.tolist() == [tried.changes[0].new.primaries[2]]
    assert only.only(0) is only


def test_values_shared_by_all_candidates_are_kept() -> None:
    """With a new secondary, the primary is one node for all candidates."""
    state = state_of()
    only = move(state, state.instance(0), MoveKind.REPLACE_SECONDARY, np.array([2, 3])).only(1)
    assert (only.pnode.tolist(), only.snode.tolist()) == ([0], [3])
    assert [change.rows.tolist() for change in only.changes] == [[0], [1], [3]]
