"""A deviation by hand, and updated as computed from nothing."""

import numpy as np
import pytest

from ganeti_htools.engine.rules.deviation import Deviation, in_order


def test_sums_and_variances_are_along_the_last_axis() -> None:
    found = Deviation.of(np.array([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]]))
    assert found.number == 3.0
    assert (found.sum.tolist(), found.variance.tolist()) == ([9.0, 12.0], [14 / 3, 0.0])


def test_leaves_out_values_that_are_not_counted() -> None:
    counted = np.array([[True, True, False], [False, False, False]])
    found = Deviation.of(np.array([[1.0, 3.0, np.inf], [4.0, 4.0, 4.0]]), counted)
    assert [figures.tolist() for figures in found] == [[2.0, 1.0], [4.0, 0.0], [1.0, 0.0]]


def test_no_values_add_up_to_0() -> None:
    assert in_order(np.zeros((2, 0))).tolist() == [0.0, 0.0]
    assert Deviation.of(np.zeros((1, 0))).variance.tolist() == [0.0]


def test_one_value_replaced_is_as_computed_from_nothing() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.5])
    found = Deviation(4.0, values.sum(), values.var()).replaced(values[2], 9.0)
    values[2] = 9.0
    assert found == (4.0, pytest.approx(values.sum()), pytest.approx(values.var()))


def test_several_changes_at_once_are_as_computed_from_nothing() -> None:
    """Two sets of values (rows), three candidates that change two values of each."""
    rng = np.random.default_rng(1)
    before = rng.random((2, 5))
    new = rng.random((2, 3, 2))
    old = before[:, np.newaxis, :2]
    expected = np.repeat(before[:, np.newaxis], 3, axis=1)
    expected[:, :, :2] = new
    start = Deviation.of(before)
    start = Deviation(start.number, start.sum[:, np.newaxis], start.variance[:, np.newaxis])
    found = start.after((new - old).sum(axis=-1), (new * new - old * old).sum(axis=-1))
    assert found.sum == pytest.approx(expected.sum(axis=-1))
    assert found.variance == pytest.approx(expected.var(axis=-1))


def test_a_variance_that_is_no_number_is_0_after_a_replacement() -> None:
    assert Deviation(2.0, np.nan, np.nan).replaced(0.0, 1.0).variance == 0.0
    found = Deviation(2.0, np.array([np.nan, 3.0]), np.array([np.nan, 0.25])).replaced(1.0, 1.0)
    assert found.variance.tolist() == [0.0, 0.25]
