from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.figures import Figures, tabulate
from ganeti_htools.model.policy import IPolicy, ISpec

INSTANCE = Instance("i", 128, 256, (Disk(128, 2),), 1, pnode="n")


def readable(figures: Figures) -> list[object]:
    """The values of every row, and its demand itself."""
    demands = {position: demand for demand, position in figures.demands.items()}
    names = [name for name in figures.values.dtype.names or () if name != "demand"]
    columns = [figures.values[name].tolist() for name in names]
    return [
        (values, demands[position])
        for *values, position in zip(*columns, figures.values["demand"].tolist(), strict=True)
    ]


def test_record_has_figures_of_row() -> None:
    figures = tabulate([INSTANCE])
    (row,) = figures.values
    assert (row["mem"], row["dsk"], row["vcpus"], row["spindles"]) == (128, 256, 1, 2)
    assert (figures.disk.tolist(), figures.wants.tolist()) == ([[256]], [[True]])
    assert figures.demands == {INSTANCE.demand: 0}


@settings(max_examples=50)
@given(st.lists(st.integers(0, 1 << 30), min_size=2, max_size=6))
def test_copied_figures_equal_new_ones(seeds: list[int]) -> None:
    rows, known = [replace(INSTANCE, name=f"i{i}") for i in range(10)], None
    for seed in seeds:
        rng = Random(seed)
        rows = rng.sample(rows, rng.randint(5, 10))
        while len(rows) < 10:
            rows.insert(0, replace(INSTANCE, name=f"j{rng.random()}", mem=rng.choice((64, 128, 256))))
        known = tabulate(rows, known)
        assert readable(known) == readable(tabulate(rows))
        assert known.rows == tuple(rows)


def test_known_rows_are_not_read_again() -> None:
    known = tabulate([INSTANCE])
    known.values["mem"] = 99
    again = tabulate([replace(INSTANCE, vcpus=2), replace(INSTANCE)], known)
    assert again.values["mem"].tolist() == [128, 99]


def test_demands_of_instances_long_gone_are_forgotten() -> None:
    known = tabulate([INSTANCE])
    for mem in range(100):
        known = tabulate([replace(INSTANCE, mem=mem)], known)
    assert len(known.demands) < 5
    assert np.array_equal(known.values["mem"], [99])


def test_verdicts_of_policies_that_are_gone_are_forgotten() -> None:
    policies = [IPolicy((), ISpec(size, 1, 1, 1, 1, 1), (), 4.0, 32.0) for size in range(100)]
    known = tabulate([INSTANCE])
    for policy in policies:
        known.verdicts[policy, False] = {0: True}
        known = tabulate([INSTANCE], known, [policy, policies[0]])
        assert known.verdicts.keys() == {(policy, False), (policies[0], False)}
    assert tabulate([INSTANCE], known, policies).verdicts[policies[0], False] == {0: True}
