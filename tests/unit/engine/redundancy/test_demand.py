"""The demand of instances that lose their node."""

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.redundancy.demand import (
    UNKNOWN,
    Amounts,
    displaced_demand,
    spindles_of,
)
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.clusters import Shape, cluster
from tests.support.text_format import text as text_of


def state(seed: int) -> State:
    shape = Shape(nodes=4, instances=12, templates={"plain": 2, "ext": 1, "file": 1})
    return derive(text.parse(text_of(cluster(seed, shape)), "generated"))


def test_unknown_spindles_are_more_than_any_node_has() -> None:
    assert (spindles_of(3), spindles_of(None)) == (3, UNKNOWN)


@pytest.mark.parametrize("seed", range(5))
def test_joined_demand_equals_demand_of_all(seed: int) -> None:
    whole = state(seed)
    everything = np.ones(len(whole.pnode), np.bool_)
    some = everything.copy()
    some[-1] = False
    last = whole.instance(len(some) - 1)
    if whole.columns.excl_stor.any() or whole.forthcoming.any():
        return
    joined = displaced_demand(whole, some).joined(last, whole.pnode[-1:])
    expected = displaced_demand(whole, everything)
    for name in ("number", "shared", "recreated"):
        assert np.array_equal(getattr(joined, name), getattr(expected, name)), name
    pairs = zip((joined.memory, *joined.disk), (expected.memory, *expected.disk), strict=True)
    for one, other in pairs:
        for name in Amounts.__slots__:
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
