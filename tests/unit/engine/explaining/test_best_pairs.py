"""The best secondary for each primary, by the rules of the algorithms."""

import numpy as np

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.explaining import explanation
from ganeti_htools.engine.explaining.places import ExplainedPlace
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.relocate import move_pairs
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

STATE = derive(
    cluster(
        {"a": 10_000, "b": 20_000, "c": 500, "d": 20_000, "e": 10_000},
        [instance("here", DiskTemplate.DRBD, "a", "b")],
    )
)
EVERYONE = np.ones(5, np.bool_)
BASE = choice.base(STATE, EVERYONE)
NODES = np.arange(5)


class Never(Check):
    """Takes no cluster to be redundant with the instance on some primaries."""

    def __init__(self, *primaries: int) -> None:
        self.primaries = primaries

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        return np.ones((len(primaries), len(primaries)), np.bool_)

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        return primary if primary in self.primaries else NOWHERE


class PlaceCollector(Reporter):
    """A reporter that explains judged pairs at once."""

    places: list[ExplainedPlace]
    scores: Floats

    def judged_pairs(self, pairs: CandidatePairs) -> None:
        self.places, self.scores = list(explanation.for_new(pairs, BASE)), pairs.scores.copy()


def explained_pairs(redundancy: Check | None) -> PlaceCollector:
    asked, reporter = STATE.requested_instance(instance("new", DiskTemplate.DRBD, "")), PlaceCollector()
    on_pairs(STATE, asked, NODES, NODES, BASE, PlacementOptions(), redundancy, reporter)
    return reporter


def test_each_primary_with_the_secondary_of_the_lowest_score() -> None:
    found = explained_pairs(None)
    assert [place.pnode for place in found.places] == NODES.tolist()
    assert [place.why for place in found.places] == ["", "", "FailMem", "", ""]
    for place in found.places:
        if not place.why:
            assert found.scores[place.pnode, place.snode] == found.scores[place.pnode].min()


def test_a_primary_that_is_never_redundant() -> None:
    first, second, third, *_ = explained_pairs(Never(0, 2)).places
    assert (first.snode, first.why) == (NOWHERE, "FailN1")
    assert (second.why, third.why) == ("", "FailMem")


def test_pairs_instead_of_both_nodes() -> None:
    targets = np.array([2, 3, 4])
    trial, _ = move_pairs(STATE, STATE.instance(0), targets, EVERYONE)
    found = list(explanation.for_exchange(trial, targets, BASE))
    assert [(place.pnode, place.snode) for place in found] == [(2, NOWHERE), (3, 4), (4, 3)]
    assert [bool(place.why) for place in found] == [True, False, False]
