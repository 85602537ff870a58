"""A new mirrored instance goes to the pair that leaves the lowest score, if the cluster stays redundant."""

import numpy as np
import pytest

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import affinity, choice, settling
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

NODES = np.arange(4)
EVERYONE = np.ones(4, np.bool_)


class Keeping(Reporter):
    """A reporter that records the judged pairs."""

    pairs: CandidatePairs
    admitted: int

    def judged_pairs(self, pairs: CandidatePairs) -> None:
        self.pairs, self.admitted = pairs, int(pairs.admitted.sum())


def given() -> tuple[State, RequestedInstance]:
    """Four nodes, one of them full, and two of which share an instance."""
    here = [
        instance("both", DiskTemplate.DRBD, "a", "b"),
        instance("large", DiskTemplate.PLAIN, "c", mem=9_500),
    ]
    state = derive(cluster(dict.fromkeys("abcd", 10_000), here))
    return state, state.requested_instance(instance("new", DiskTemplate.DRBD, ""))


def test_pairs_as_judged() -> None:
    state, asked = given()
    base, kept = choice.base(state, EVERYONE, affinity.location_exclusion(state, EVERYONE)), Keeping()
    found = on_pairs(state, asked, NODES, NODES, base, PlacementOptions(), None, kept)
    pairs = kept.pairs
    assert not pairs.fits[NODES, NODES].any()
    assert (pairs.codes[2, [0, 1, 3]] == CODE[Fail.MEM]).all()
    assert np.array_equal(np.isfinite(pairs.scores), pairs.fits)
    assert kept.admitted == pairs.fits.sum()
    chosen = pairs.scores[tuple(found.nodes)]
    assert chosen == pairs.scores.min() == found.metric


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (3, 0)])
def test_the_score_is_that_of_the_cluster_afterwards(pair: tuple[int, int]) -> None:
    state, asked = given()
    base, kept = choice.base(state, EVERYONE), Keeping()
    on_pairs(state, asked, NODES, NODES, base, PlacementOptions(), None, kept)
    trial = kept.pairs.trial(np.array([pair[0]]), np.array([pair[1]]))
    assert trial.codes[0] == FITS
    after = state.copy()
    settling.settle(after, trial)
    assert kept.pairs.scores[pair] == pytest.approx(float(choice.base(after, EVERYONE).score()), abs=1e-9)


class Only(Check):
    """Takes a cluster to be redundant with the instance on one pair; rules out its secondary as primary."""

    def __init__(self, pair: tuple[int, int]) -> None:
        self.pair = pair

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        return np.asarray(primaries[:, np.newaxis] != self.pair[1])

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        return NOWHERE if (primary, secondary) == self.pair else primary


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (3, 1)])
def test_only_a_redundant_pair_is_chosen(pair: tuple[int, int]) -> None:
    state, asked = given()
    base, kept = choice.base(state, EVERYONE), Keeping()
    found = on_pairs(state, asked, NODES, NODES, base, PlacementOptions(), Only(pair), kept)
    assert found.nodes == pair
    assert kept.admitted == kept.pairs.fits.sum() - kept.pairs.fits[pair[1]].sum()
    assert found.successes + found.failures.get(Fail.N1, 0) == kept.pairs.fits.sum()


def test_none_if_none_is_redundant() -> None:
    state, asked = given()
    found = on_pairs(
        state, asked, NODES, NODES, choice.base(state, EVERYONE), PlacementOptions(), Only((2, 0))
    )
    assert (found.nodes, found.successes) == ((), 0)
    assert found.failures[Fail.N1] > 0
