"""What sums tell of the room for instances that a lost node displaces."""

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.redundancy.displaced import (
    ROUNDING,
    UNKNOWN,
    displaced_by_node,
    largest_sum,
    shares,
    spindles_of,
    usable,
)
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.clusters import Shape, cluster
from tests.support.text_format import text as text_of


def state(seed: int) -> State:
    shape = Shape(nodes=4, instances=12, templates={"plain": 2, "ext": 1, "file": 1})
    return derive(text.parse(text_of(cluster(seed, shape)), "generated"))


def test_multiples_of_a_unit_leave_something_free() -> None:
    assert [int(usable(free, 64)) for free in (64, 65, 128, 129)] == [0, 64, 64, 128]
    assert int(usable(10, 0)) == 9


def test_what_is_too_small_for_the_largest_takes_no_share() -> None:
    assert shares(np.array([100]), 300, 200, 100).tolist() == [0.0]
    assert shares(np.array([401]), 300, 200, 100)[0] == pytest.approx(3.0)


def test_the_largest_sum_counts_parts_of_a_value() -> None:
    values, weights = np.array([[4.0, 3.0, 9.0]]), np.array([[0.5, 1.0, 2.0]])
    assert largest_sum(values, weights)[0] == pytest.approx(4.0 + 1.5, abs=10 * ROUNDING)


def test_spindles_that_nobody_says_are_more_than_any_node_has() -> None:
    assert (spindles_of(3), spindles_of(None)) == (3, UNKNOWN)


@pytest.mark.parametrize("seed", range(5))
def test_one_more_is_as_if_it_had_been_there(seed: int) -> None:
    whole = state(seed)
    everything = np.ones(len(whole.pnode), np.bool_)
    some = everything.copy()
    some[-1] = False
    last = whole.instance(len(some) - 1)
    if whole.columns.excl_stor.any() or whole.forthcoming.any():
        return
    joined = displaced_by_node(whole, some).joined(last, int(whole.pnode[-1]))
    expected = displaced_by_node(whole, everything)
    for name in ("number", "mem_total", "mem_largest", "mem_least", "mem_unit", "dsk_total", "dsk_largest"):
        assert np.array_equal(getattr(joined, name), getattr(expected, name)), name
    for name in ("dsk_least", "dsk_unit", "shared", "recreated"):
        assert np.array_equal(getattr(joined, name), getattr(expected, name)), name
