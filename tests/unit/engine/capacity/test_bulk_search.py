"""Figures of nodes between two of many placements."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.capacity.bulk_one_node import OneNodeSearch
from ganeti_htools.engine.capacity.bulk_search import InstanceNodes, parts
from ganeti_htools.engine.rules.components import INDEX
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.cluster import Cluster, Group, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import instance, node

NEW = instance("new", DiskTemplate.EXT, "")
GROUP = Group("group1", "uuid-1")


def search(
    *nodes: Node, candidates: tuple[int, ...] = (), groups: tuple[Group, ...] = (GROUP,)
) -> OneNodeSearch:
    state = derive(Cluster(groups, nodes, ()))
    with np.errstate(divide="ignore", invalid="ignore"):
        return OneNodeSearch(state, state.requested_instance(NEW), np.array(candidates or range(len(nodes))))


def test_policies_of_groups_refuse_their_nodes() -> None:
    strict = replace(DEFAULT_IPOLICY, disk_templates=(DiskTemplate.DRBD,))
    groups = Group("group1", "uuid-1"), Group("group2", "uuid-2", ipolicy=strict)
    found = search(node("a"), node("b", group="uuid-2"), groups=groups)
    assert found.codes.tolist() == [FITS, CODE[Fail.DISK]]


def test_what_a_node_contributes_now_and_then() -> None:
    found = search(node("a"), node("b", mem=5_000))
    row = found.row_of[INDEX["free_mem_cv"]]
    assert found.now[row].tolist() == [1.0, 1.0]
    assert found.primary.then[row].tolist() == [9_000 / 10_000, 4_000 / 5_000]
    assert np.allclose(found.primary.change[row], [-0.1, -0.2])
    assert np.allclose(found.primary.squares[row], [0.81 - 1, 0.64 - 1])


def test_components_that_are_the_same_are_kept_once() -> None:
    found = search(node("a"))
    assert found.row_of[INDEX["vcpu_ratio_cv"]] == found.row_of[INDEX["vcpu_ratio_cv_forth"]]
    assert len(found.now) == len(set(found.row_of)) < len(INDEX)


def test_offline_nodes_do_not_count_and_others_may_be_no_candidates() -> None:
    found = search(node("a", offline=True), node("b"), node("c"), candidates=(2,))
    assert set(found.sizes.tolist()) == {2.0}
    assert (found.now.shape[1], found.codes.shape) == (2, (1,))
    found.settle(InstanceNodes(2))
    free = found.row_of[INDEX["free_mem_cv"]]
    assert found.now[free].tolist() == [1.0, 0.9]


def test_reasons_are_counted() -> None:
    found = search(node("a"), node("b", mem=500), node("c", mem=600))
    assert {fail: number for fail, number in found.tally(found.codes).items() if number} == {Fail.MEM: 2}


def test_a_placement_changes_a_node() -> None:
    found = search(node("a"), node("b"))
    free = found.row_of[INDEX["free_mem_cv"]]
    foreseen = found.primary.then[free, 1]
    found.settle(InstanceNodes(1))
    assert found.now[free].tolist() == [1.0, foreseen]
    assert found.state.columns.i_mem.tolist() == [0, 1000]
    assert found.state.columns.primaries.tolist() == [0, 1]


def test_a_table_in_parts() -> None:
    table = np.arange(8.0).reshape(4, 2)
    one, two, none = parts(table, (1, 3, 0))
    assert (one.shape, two.shape, none.shape) == ((1, 2), (3, 2), (0, 2))
    table[0, 0] = 99.0
    assert one[0, 0] == 99.0  # they are views
