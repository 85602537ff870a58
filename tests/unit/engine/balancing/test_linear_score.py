"""The convex part of the score at whole placements, and what whole instances add to it."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text as text_backend
from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.linear_score import (
    PRIMARY,
    SECONDARY,
    LinearScore,
    best_shares,
    check,
    least_deviation,
    linear_score,
)
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.clusters import MOVABLE, Shape, cluster
from tests.support.storage_units import with_four_units
from tests.support.text_format import text

SEEDS = range(6)
NODES = 8
LEFT_OUT = {"reserved_mem_cv", "n1_cnt", "pri_tags_score", "location_exclusion_score"}


def model(seed: int) -> tuple[State, LinearScore]:
    """A cluster with its convex score."""
    shape = Shape(NODES, 33 + seed, templates=({"drbd": 1}, MOVABLE)[seed % 2], offline=int(seed % 3 == 2))
    data = cluster(seed, replace(shape, tags=((), ("desired",))[seed % 2]))
    data = with_four_units(data)[0] if seed % 3 == 0 else data
    state = derive(text_backend.parse(text(data), "test"))
    scope = np.ones(NODES, np.bool_)
    score = linear_score(state, scope, candidates(state, scope, None))
    assert score is not None
    return state, score


def everywhere(score: LinearScore) -> Bools:
    """All nodes may be primaries of all instances."""
    return np.ones((len(score.rows), len(score.nodes)), np.bool_)


def values_at(score: LinearScore, pnode: Ints, snode: Ints) -> list[Floats]:
    """The values of each spread once the instances are on these nodes."""
    everyone, mirrored = np.arange(len(pnode)), snode != NOWHERE
    found = []
    for spread in score.spreads:
        values = spread.values.copy()
        np.add.at(values, pnode, spread.effects[PRIMARY, everyone, pnode])
        there = everyone[mirrored], snode[mirrored]
        np.add.at(values, there[1], spread.effects[SECONDARY][there])
        found.append(values)
    return found


def kept_at(score: LinearScore, pnode: Ints, snode: Ints) -> Floats:
    """The memory that nodes keep free once the instances are on these nodes."""
    kept, mirrored = score.kept.copy(), snode != NOWHERE
    np.add.at(kept, (pnode[mirrored], snode[mirrored]), score.memory[mirrored])
    largest: Floats = kept.max(axis=0)
    return largest


def deviation(values: Floats, counted: Bools) -> float:
    return float(values[counted].std())


@pytest.mark.parametrize("seed", SEEDS)
def test_present_places_have_the_score_without_what_is_left_out(seed: int) -> None:
    state, score = model(seed)
    base = choice.base(state, np.ones(NODES, np.bool_))
    expected = sum(
        weight * float(value)
        for name, weight, value in zip(base.names, base.weights, base.components(), strict=True)
        if name not in LEFT_OUT
    )
    everyone, mirrored = np.arange(len(score.rows)), score.snode != NOWHERE
    total = score.rest + float(score.rest_effects[PRIMARY, everyone, score.pnode].sum())
    total += float(score.rest_effects[SECONDARY, everyone[mirrored], score.snode[mirrored]].sum())
    total += float(score.together[score.pnode[mirrored], score.snode[mirrored]].sum())
    total += float(score.per_mib @ kept_at(score, score.pnode, score.snode))
    for spread, values in zip(score.spreads, values_at(score, score.pnode, score.snode), strict=True):
        total += spread.weight * deviation(values, spread.counted)
    assert total == pytest.approx(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_keep_the_shares_of_single_instances(seed: int) -> None:
    _, score = model(seed)
    shares, rng = best_shares(score), np.random.default_rng(seed)
    assert shares.parts.any()
    one = score.spreads[shares.one]
    sign = -1.0 if one.effects.sum() < 0 else 1.0
    # Secondaries of equal memory are together, where a node keeps least; then some of them are elsewhere.
    order = np.argsort(np.argsort(score.memory + rng.random(len(score.memory))))
    together = np.where(score.snode == NOWHERE, NOWHERE, order * NODES // len(order))
    for part in (0.0, 0.0, 0.1, 0.5, 1.0):
        elsewhere = (rng.random(len(order)) < part) & (together != NOWHERE)
        snode = np.where(elsewhere, rng.integers(3, size=len(order)), together)
        pnode = (snode + rng.integers(1, NODES, len(order))) % NODES
        values = values_at(score, pnode, snode)
        combined = sign * values[shares.one]
        if shares.other != NOWHERE:
            combined = combined - shares.factor * values[shares.other]
        above = np.maximum(combined - combined[one.counted].mean(), 0.0)
        mirrored = np.flatnonzero(snode != NOWHERE)
        single = np.zeros(NODES)
        np.add.at(
            single, snode[mirrored], (score.memory[:, np.newaxis] * shares.parts)[mirrored, snode[mirrored]]
        )
        assert (kept_at(score, pnode, snode) >= single - shares.excess * above - 1e-6).all()


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_no_whole_numbers_of_instances_are_more_even_than_the_least_deviation(seed: int) -> None:
    _, score = model(seed)
    rng = np.random.default_rng(seed)
    least = [least_deviation(score, spread, everywhere(score)) for spread in score.spreads]
    assert any(least)
    for _ in range(50):
        pnode = rng.permutation(np.arange(len(score.rows)) % NODES)
        snode = np.where(
            score.snode == NOWHERE, NOWHERE, (pnode + rng.integers(1, NODES, len(pnode))) % NODES
        )
        for spread, low, values in zip(score.spreads, least, values_at(score, pnode, snode), strict=True):
            assert deviation(values, spread.counted) >= low - 1e-9


def of_primaries(score: LinearScore, serving: Bools) -> float:
    """The least deviation of numbers of primaries."""
    least = (
        least_deviation(score, each, serving) for each in score.spreads if not each.effects[SECONDARY].any()
    )
    return min(least, key=lambda low: low == 0)


def test_least_deviation_of_33_equal_primaries_on_8_nodes() -> None:
    _, score = model(0)
    assert of_primaries(score, everywhere(score)) == pytest.approx(np.std([5, 4, 4, 4, 4, 4, 4, 4]))


@pytest.mark.parametrize(
    ("number", "values"), [(21, [6, 5, 5, 5, 3, 3, 3, 3]), (9, [5, 4, 4, 4, 4, 4, 4, 4])]
)
def test_primaries_that_cannot_leave_some_nodes_are_there(number: int, values: list[int]) -> None:
    _, score = model(0)
    serving = everywhere(score)
    serving[:number, 4:] = False
    assert of_primaries(score, serving) == pytest.approx(np.std(values))


def test_a_sum_whose_least_value_is_unknown_is_refused() -> None:
    odd = replace(next(each for each in COMPONENTS if each.aggregate is COUNT), name="odd")
    with pytest.raises(ValueError, match="do not know the least value of odd"):
        check([odd])
