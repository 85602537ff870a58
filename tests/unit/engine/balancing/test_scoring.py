"""Scores of moves computed from their changes."""

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import Search, score_of
from ganeti_htools.engine.balancing.scoring import PER_LOCATION, ScoredMoves, relocations
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.components import INDEX, WEIGHTS
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.searches import all_candidates, baseline_of, searching

DRBD = DiskTemplate.DRBD
CLOSE = 1e-7
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def score_after(search: Search, found: ScoredMoves, which: int) -> float:
    """The score once one of the moves has been made on a copy of the state."""
    space, after = search.space, search.state.copy()
    batch, member, node = found.batch, int(found.members[which]), int(found.new[which])
    trial = try_move(space.facts, batch, member, found.kind, node, space.force)
    assert trial.codes.tolist() == [FITS]
    settling.settle(after, trial)
    return score_of(after, space.scope)


def test_weight_of_a_shared_location() -> None:
    assert WEIGHTS[INDEX["location_score"]] == PER_LOCATION


@pytest.mark.parametrize(("largest", "doubted"), [(3000, False), (2000, True)])
def test_memory_kept_for_the_primary_is_in_doubt_unless_more_is_kept_for_others(
    largest: int, doubted: bool
) -> None:
    rows = [
        instance("moves", DRBD, "n0", "n2", mem=1000),
        instance("beside", DRBD, "n0", "n1", mem=1500),
        instance("large", DRBD, "n2", "n1", mem=largest),
    ]
    state = derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 20_000), rows))
    search = searching(state)
    (each,) = (each for each in all_candidates(search) if each.kind is MoveKind.REPLACE_SECONDARY)
    found, doubtful = relocations(search.space, baseline_of(search.space), each, np.array([0]), np.array([1]))
    assert doubtful.tolist() == [doubted]
    exactly = found.scores[0] == pytest.approx(score_after(search, found, 0), abs=CLOSE)
    assert exactly is not doubted


def test_instances_that_exclude_each_other_in_a_location() -> None:
    racks = {"n0": "rack:1", "n1": "rack:1", "n2": "rack:2", "n3": "rack:2"}
    nodes = tuple(by_hand.node(name, tags=(rack,)) for name, rack in racks.items())
    pairs = (("n0", "n2"), ("n1", "n3"))
    rows = tuple(instance(f"i{row}", DRBD, *pair, tags=("a:1",)) for row, pair in enumerate(pairs))
    tags = ("htools:iextags:a", "htools:nlocation:rack")
    state = derive(Cluster((Group("group1", "uuid-1"),), nodes, rows, tags))
    search = searching(state)
    baseline, kinds = baseline_of(search.space), set[MoveKind]()
    for each in all_candidates(search):
        assert each.location_exclusion is not None
        members, places = (indices.ravel() for indices in np.indices((2, 4)))
        found, doubtful = relocations(search.space, baseline, each, members, places)
        fits = found.trial(search.space).codes == FITS
        for which in np.flatnonzero(fits & ~doubtful).tolist():
            assert found.scores[which] == pytest.approx(score_after(search, found, which), abs=CLOSE)
            kinds.add(each.kind)
    assert {MoveKind.REPLACE_AND_FAILOVER, MoveKind.FAILOVER_AND_REPLACE} <= kinds
