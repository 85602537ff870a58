"""What whole instances add to the convex part of the score."""

from dataclasses import replace

import numpy as np
import pytest

from bench.score_bound import check, least_deviation
from ganeti_htools.engine.balancing.linear_score import SECONDARY, LinearScore
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT
from ganeti_htools.model.columns import Bools
from tests.support.linear_scores import model


def everywhere(score: LinearScore) -> Bools:
    """All nodes may be primaries of all instances."""
    return np.ones((len(score.rows), len(score.nodes)), np.bool_)


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
