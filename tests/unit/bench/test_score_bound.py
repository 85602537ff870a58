"""What whole instances add to the convex part of the score."""

from dataclasses import replace

import numpy as np
import pytest

from bench.score_bound import best_shares, check, least_deviation
from ganeti_htools.engine.balancing.linear_score import SECONDARY, LinearScore
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT
from ganeti_htools.model.columns import NOWHERE, Bools
from tests.support.linear_scores import NODES, SEEDS, deviation, kept_at, model, values_at


def everywhere(score: LinearScore) -> Bools:
    """All nodes may be primaries of all instances."""
    return np.ones((len(score.rows), len(score.nodes)), np.bool_)


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


def test_refuses_a_sum_whose_least_value_is_unknown() -> None:
    odd = replace(next(each for each in COMPONENTS if each.aggregate is COUNT), name="odd")
    with pytest.raises(ValueError, match="do not know the least value of odd"):
        check([odd])
