"""Declarations of the score's components."""

import numpy as np
import pytest

from ganeti_htools.engine.rules.components import (
    COMPONENTS,
    INDEX,
    Aggregate,
    free_disk_share,
)
from ganeti_htools.model.columns import Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance


@pytest.fixture
def columns() -> Columns:
    instances = [
        instance("one", DiskTemplate.DRBD, "a", "b", mem=2_000),
        instance("two", DiskTemplate.EXT, "b", mem=1_000),
    ]
    return derive(cluster({"a": 10_000, "b": 5_000}, instances)).columns


def test_each_node_contributes_what_the_formula_says(columns: Columns) -> None:
    expected = {
        "free_mem_cv": [0.8, 0.8],
        "reserved_mem_cv": [0.0, 0.4],
        "reserved_mem_rtotal": [0.0, 0.4],
        "offline_all_cnt": [1, 2],
        "offline_pri_cnt": [1, 1],
        "vcpu_ratio_cv": [2 / 64, 2 / 64],  # the node itself takes one
        "n1_cnt": [0, 0],
    }
    for name, values in expected.items():
        assert np.broadcast_to(COMPONENTS[INDEX[name]].of(columns), 2).tolist() == pytest.approx(values), name


def test_disk_is_spindles_where_storage_is_exclusive(columns: Columns) -> None:
    changed = columns.changed(
        excl_stor=np.array([True, False]),
        t_spindles=np.array([4, 4]),
        t_dsk=np.array([100.0, 0.0]),
    )
    shares = free_disk_share(changed, np.array([50, 0]), np.array([1, 1]))
    assert shares.tolist() == [0.25, 1.0]  # a node without disk has all of it free


def test_component_names_mark_the_view_with_forthcoming_instances() -> None:
    for component in COMPONENTS:
        if component.name.endswith("_forth"):
            plain = COMPONENTS[INDEX[component.name.removesuffix("_forth")]]
            assert (component.weight, component.aggregate) == (plain.weight, plain.aggregate)
            assert any(name.endswith("_forth") for name in component.figures)


def test_exactly_one_component_is_of_the_whole_cluster() -> None:
    assert [each.name for each in COMPONENTS if each.aggregate is Aggregate.CLUSTER] == [
        "location_exclusion_score"
    ]
