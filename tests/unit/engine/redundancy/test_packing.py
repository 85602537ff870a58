"""What is found out by trying some ways is what trying all of them says."""

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ganeti_htools.engine.redundancy import packing
from ganeti_htools.engine.redundancy.loss_simulation import Displaced
from ganeti_htools.engine.redundancy.packing import unplaceable

UNUSED: Any = None


def displaced(mem: int, disk: int | None, targets: list[int]) -> Displaced:
    return Displaced(UNUSED, UNUSED, mem, disk, targets)


def stays_free(free: list[int], taken: list[tuple[int, int]]) -> bool:
    return all(
        room > sum(amount for at, amount in taken if at == node)
        for node, room in enumerate(free)
        if any(at == node for at, _ in taken)
    )


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.none() | st.integers(1, 4), st.sets(st.integers(0, 2))), max_size=4
    ),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=3),
)
@example([(2, None, {0, 1}), (2, None, {0})], [(3, 0), (3, 0), (0, 0)])
def test_all_ways_are_tried(
    wanted: list[tuple[int, int | None, set[int]]], free: list[tuple[int, int]]
) -> None:
    instances = [displaced(mem, disk, sorted(targets)) for mem, disk, targets in wanted]
    mem, disk = ([each[which] for each in free] for which in (0, 1))
    possible = any(
        stays_free(mem, [(at, each.mem) for at, each in zip(places, instances, strict=True)])
        and stays_free(
            disk,
            [(at, each.disk) for at, each in zip(places, instances, strict=True) if each.disk is not None],
        )
        for places in product(*(each.targets for each in instances))
    )
    assert unplaceable(instances, mem, disk) is not possible
    assert mem == [each[0] for each in free]


def test_nothing_is_told_if_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    instances = [displaced(2, None, [0, 1, 2])] * 4
    assert unplaceable(instances, [3, 4, 4], [0, 0, 0])
    monkeypatch.setattr(packing, "TRIES", 3)
    assert not unplaceable(instances, [3, 4, 4], [0, 0, 0])
