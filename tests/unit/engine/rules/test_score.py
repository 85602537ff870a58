"""The score by hand, and updated for one node as computed from nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.cli.report.tables import components
from ganeti_htools.engine.rules.components import AGGREGATES, INDEX, WEIGHTS
from ganeti_htools.engine.rules.score import (
    Statistics,
    distinct_spreads,
    node_values,
    score,
    statistics,
)
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

ON_A = [instance("one", DiskTemplate.EXT, "a"), instance("two", DiskTemplate.EXT, "a")]


def state_of(instances: list[Instance], offline: str = "") -> State:
    made = cluster(dict.fromkeys("abcd", 10_000), instances)
    return derive(replace(made, nodes=tuple(replace(row, offline=row.name == offline) for row in made.nodes)))


def statistics_of(state: State) -> Statistics:
    return statistics(state.columns, node_values(state.columns))


def test_an_even_cluster_has_the_score_0() -> None:
    assert score(state_of([]).columns) == 0.0


def test_a_spread_is_the_standard_deviation_over_the_online_nodes() -> None:
    """Free shares of memory are 0.8 and three times 1, without d 0.8 and twice 1."""
    free_mem = INDEX["free_mem_cv"]
    for offline, shares in (("", [0.8, 1, 1, 1]), ("d", [0.8, 1, 1])):
        found = list(statistics_of(state_of(ON_A, offline)).components())[free_mem]
        assert found == pytest.approx(np.std(shares))


def test_instances_on_offline_nodes_are_counted() -> None:
    values = list(statistics_of(state_of(ON_A, "a")).components())
    assert (values[INDEX["offline_all_cnt"]], values[INDEX["offline_pri_cnt"]]) == (2.0, 2.0)


def test_the_score_is_the_weighted_sum_of_the_components() -> None:
    found = statistics_of(state_of(ON_A, "b"))
    expected = sum(weight * value for weight, value in zip(WEIGHTS, found.components(), strict=True))
    assert found.score() == pytest.approx(expected)
    assert score(state_of(ON_A).columns, exclusion=3.0) == pytest.approx(score(state_of(ON_A).columns) + 3.0)


def test_a_cluster_without_online_nodes_has_the_score_0() -> None:
    columns = state_of(ON_A).columns
    assert score(columns.changed(offline=np.ones(4, np.bool_))) == 0.0


def test_spreads_with_the_same_values_are_put_together() -> None:
    """Without forthcoming instances, their view of the CPUs is the plain one."""
    weights = distinct_spreads(AGGREGATES, WEIGHTS, node_values(state_of(ON_A).columns))
    assert weights[INDEX["vcpu_ratio_cv"]] == 0.5 + 0.5
    assert INDEX["vcpu_ratio_cv_forth"] not in weights
    apart = distinct_spreads(
        AGGREGATES, WEIGHTS, node_values(state_of(ON_A).columns.with_forthcoming_apart())
    )
    assert (apart[INDEX["vcpu_ratio_cv"]], apart[INDEX["vcpu_ratio_cv_forth"]]) == (0.5, 0.5)


def test_a_node_without_memory_leaves_no_score() -> None:
    columns = state_of(ON_A).columns
    t_mem = columns.t_mem.copy()
    t_mem[1] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        found = statistics_of(replace_columns(state_of(ON_A), t_mem))
    assert not found.rated
    assert math.isnan(found.score())
    assert statistics_of(state_of(ON_A)).rated


def replace_columns(state: State, t_mem: object) -> State:
    state.columns = state.columns.changed(t_mem=t_mem)
    return state


def test_unit_that_no_node_of_the_group_has_weighs_nothing() -> None:
    made = simu.parse(["p,3,100g,9g,4;lvm-vg,ssdvg,50g;lvm-vg,hddvg,20g", "p,3,100g,9g,4;lvm-vg,fast,20g"])
    second = made.groups[1].uuid
    nodes = tuple(
        replace(node, storage=tuple(unit for unit in node.storage or () if unit.desired.key == "fast"))
        if node.group == second
        else node
        for node in made.nodes
    )
    state = derive(replace(made, nodes=nodes))
    for group, units in ((0, {"xenvg", "ssdvg", "hddvg"}), (1, {"fast"})):
        found = statistics(
            columns := state.columns.take(np.flatnonzero(state.group == group)), node_values(columns)
        )
        disk = {
            name.split("/")[1]: weight
            for name, weight in zip(found.names, found.weights, strict=True)
            if name.startswith("free_disk_cv:") and weight
        }
        assert disk == pytest.approx(dict.fromkeys(units, 0.5 / len(units)))
        table = components(found)
        assert all((unit in table) is (unit in units) for unit in ("xenvg", "ssdvg", "hddvg", "fast"))
