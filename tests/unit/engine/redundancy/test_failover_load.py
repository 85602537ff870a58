import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.engine.redundancy.demand import FailoverLoad

SIZE = 4
nodes = st.integers(0, SIZE - 1)


@given(st.lists(st.tuples(nodes, nodes, st.integers(0, 1 << 40)), max_size=12))
def test_adds_up_the_memory_of_each_pair(instances: list[tuple[int, int, int]]) -> None:
    table = np.zeros((SIZE, SIZE), np.int64)
    for lost, partner, memory in instances:
        table[lost, partner] += memory
    first, second, amounts = np.array(instances, np.int64).reshape(-1, 3).T
    load, everyone = FailoverLoad.of(first, second, amounts, SIZE), np.arange(SIZE)
    assert np.array_equal(load.between(everyone[:, np.newaxis], everyone), table)
    assert np.array_equal(load.between(2, everyone), table[2])
    expected = sorted({(lost, partner, int(table[lost, partner])) for lost, partner, _ in instances})
    assert [*zip(*(each.tolist() for each in load.pairs), strict=True)] == expected
