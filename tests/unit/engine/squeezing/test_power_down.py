"""Sets in the order of their costs."""

from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.engine.squeezing.power_down import ascending


@given(costs=st.lists(st.integers(0, 9), max_size=7), size=st.integers(0, 8))
def test_each_set_comes_once_the_cheapest_first(costs: list[int], size: int) -> None:
    found = list(ascending(costs, size))
    assert sorted(tuple(sorted(chosen)) for _, chosen in found) == list(combinations(range(len(costs)), size))
    assert [total for total, _ in found] == sorted(total for total, _ in found)
    assert all(total == sum(costs[position] for position in chosen) for total, chosen in found)


@pytest.mark.parametrize("size", [1, 30, 60])
def test_first_sets_are_found_without_building_all(size: int) -> None:
    costs = [(row * 37) % 60 for row in range(60)]
    (total, chosen), *_ = islice(ascending(costs, size), 5)
    assert total == sum(range(size)) == sum(costs[position] for position in chosen)
