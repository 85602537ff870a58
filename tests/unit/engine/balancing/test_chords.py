"""Linear bounds of deviations, by hand-made changes of values."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.chords import Chords, Span
from ganeti_htools.model.columns import Floats


def baseline_of(values: Floats) -> Baseline:
    """The statistics of one spread with these values, with a weight of 1."""
    totals = SimpleNamespace(
        numbers=np.array([float(len(values))]),
        sums=np.array([values.sum()]),
        squares=np.array([(values * values).sum()]),
        values=values[np.newaxis],
        heights=values[np.newaxis],
        rest=0.0,
    )
    table = SimpleNamespace(weights=np.ones(1), location_exclusion=0)
    parts: Any = SimpleNamespace(weights=np.ones(1), centre=np.zeros(1), totals=lambda: totals, table=table)
    return Baseline(parts, 0.0)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_with_slopes_of_other_values_stay_below(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, others = rng.normal(rng.choice([0.0, 3.0]), rng.choice([1e-3, 1.0]), (2, rng.integers(2, 9)))
    size = rng.choice([1e-3, 0.3, 3.0])
    ends = np.sort(rng.uniform(-size, size, (2, 2)), axis=1).tolist()
    own, new = (rng.uniform(low, high, 12) for low, high in ends)
    left, right = values[0], values[-1]
    then, now = baseline_of(others), baseline_of(values)

    def parts(chords: Chords, changes: Floats, value: float) -> tuple[Floats, Span]:
        """The parts of bounds, and their range, for changes of a node with a value."""
        squares = chords.squares(changes[np.newaxis], (changes * (changes + 2 * value))[np.newaxis])
        span = Span.of(squares, changes[np.newaxis])
        return chords.slopes[0] * squares[0], Span(*(each[np.newaxis] for each in span))

    level = Chords(np.zeros(1), then.means, then.numbers)
    chords = then.chords(*(parts(level, *each)[1] for each in ((own, others[0]), (new, others[-1]))))
    (base, span), (line, span_of_new) = parts(chords, own, left), parts(chords, new, right)
    start = now.starts(chords, span, span_of_new)[0]
    for change, part in zip(own, base, strict=True):
        for arrival, other in zip(new, line, strict=True):
            after = values.copy()
            after[0] += change
            after[-1] += arrival
            assert start + part + other <= after.std() + 1e-9 * (1 + abs(start))


def test_fresh_bound_of_one_change_is_its_score() -> None:
    values, change = np.array([1.0, 2.0, 4.0]), np.array([[0.5]])
    now, nothing = baseline_of(values), Span(*np.zeros((4, 1, 1)))
    level = Chords(np.zeros(1), now.means, now.numbers)
    squares = level.squares(change, change * (change + 2 * values[0]))
    span = Span(*(each[np.newaxis] for each in Span.of(squares, change)))
    chords = now.chords(span, nothing)
    bound = now.starts(chords, span, nothing)[0] + chords.slopes[0] * squares[0, 0]
    assert bound == pytest.approx(np.array([1.5, 2.0, 4.0]).std())


def test_range_of_no_parts_changes_no_other() -> None:
    span = Span(*np.arange(4.0)[:, np.newaxis])
    assert span.covering(Span.none(1)) == span
