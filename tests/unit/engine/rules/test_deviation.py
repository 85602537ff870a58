"""A deviation by hand, and updated as computed from nothing."""

import numpy as np

from ganeti_htools.engine.rules.deviation import Deviation, sum_in_order


def test_sums_and_variances_are_along_the_last_axis() -> None:
    found = Deviation.of(np.array([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]]))
    assert found.number == 3.0
    assert (found.sum.tolist(), found.variance.tolist()) == ([9.0, 12.0], [14 / 3, 0.0])


def test_leaves_out_values_that_are_not_counted() -> None:
    counted = np.array([[True, True, False], [False, False, False]])
    found = Deviation.of(np.array([[1.0, 3.0, np.inf], [4.0, 4.0, 4.0]]), counted)
    assert [figures.tolist() for figures in found] == [[2.0, 1.0], [4.0, 0.0], [1.0, 0.0]]


def test_no_values_add_up_to_0() -> None:
    assert sum_in_order(np.zeros((2, 0))).tolist() == [0.0, 0.0]
    assert Deviation.of(np.zeros((1, 0))).variance.tolist() == [0.0]


def test_a_variance_that_is_no_number_is_0_after_a_replacement() -> None:
    assert Deviation(2.0, np.nan, np.nan).replaced(0.0, 1.0).variance == 0.0
    found = Deviation(2.0, np.array([np.nan, 3.0]), np.array([np.nan, 0.25])).replaced(1.0, 1.0)
    assert found.variance.tolist() == [0.0, 0.25]
