"""Which nodes hspace may put instances on, and what it looks at there."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.capacity.scope import (
    AllocationScope,
    allocable_groups,
    bad_groups,
    chosen_scope,
    on_all_pairs,
    online_nodes,
    positions_by_group,
)
from ganeti_htools.model.cluster import Group, Instance
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import AllocPolicy, DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

# Node b keeps 4000 MiB free in case a is lost, and has less: it is not N+1.
TIGHT = [instance("a-b", DiskTemplate.DRBD, "a", "b", mem=4_000)]
# Nothing else takes what runs on c if c is lost.
BIG = [instance("big", DiskTemplate.EXT, "c", mem=9_000)]


def two_groups(instances: list[Instance], second: AllocPolicy = AllocPolicy.PREFERRED) -> State:
    """Nodes a and b in one group, c and d in another; b and d have little memory."""
    made = by_hand.cluster({"a": 10_000, "b": 3_000, "c": 10_000, "d": 3_000}, instances)
    nodes = tuple(replace(node, group="uuid-2" if node.name in "cd" else "uuid-1") for node in made.nodes)
    groups = *made.groups, Group("group2", "uuid-2", second)
    return derive(replace(made, groups=groups, nodes=nodes))


def test_groups_that_take_no_instances_and_nodes_that_are_offline_are_left_out() -> None:
    state = two_groups([], AllocPolicy.UNALLOCABLE)
    assert allocable_groups(state).tolist() == [True, False]
    state.columns.offline[0] = True
    assert online_nodes(state, np.array([True, True])).tolist() == [1, 2, 3]
    assert chosen_scope(state, PlacementOptions()).nodes.tolist() == [1]


def test_groups_that_are_not_redundant_are_bad() -> None:
    assert bad_groups(two_groups([]), PlacementOptions()).tolist() == [False, False]
    assert bad_groups(two_groups(TIGHT), PlacementOptions()).tolist() == [True, False]
    assert bad_groups(two_groups(BIG), PlacementOptions()).tolist() == [False, True]


@pytest.mark.parametrize(
    ("accept", "apart", "nodes", "ignored", "closed"),
    [
        (False, None, [2, 3], [], True),
        (True, None, [0, 1, 2, 3], [], False),
        (False, [True, False], [2, 3], [0, 1], False),
        (False, [True, True], [], [], True),
        (True, [True, False], [2, 3], [0, 1], False),
    ],
)
def test_a_node_that_is_not_n1(
    accept: bool, apart: list[bool] | None, nodes: list[int], ignored: list[int], closed: bool
) -> None:
    site = chosen_scope(
        two_groups(TIGHT),
        PlacementOptions(accept_existing=accept),
        None if apart is None else np.array(apart),
    )
    assert site.nodes.tolist() == nodes
    assert np.flatnonzero(site.ignored).tolist() == ignored
    assert site.closed is closed


def test_losses_that_do_not_count_are_not_looked_at() -> None:
    state = two_groups(BIG)
    assert chosen_scope(state, PlacementOptions()).assess(state).bounds.checked.all()
    apart = chosen_scope(state, PlacementOptions(), np.array([False, True]))
    assert apart.assess(state).holds()
    assert np.flatnonzero(apart.assess(state).bounds.checked).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "mirrored", "others"),
    [
        (PlacementOptions(), True, True),
        (PlacementOptions(accept_existing=True), False, True),
        (PlacementOptions(capacity=False), False, False),
    ],
)
def test_when_redundancy_is_looked_at(options: PlacementOptions, mirrored: bool, others: bool) -> None:
    site = AllocationScope(np.arange(2), np.zeros(2, np.bool_), options)
    assert (site.guards(True), site.guards(False)) == (mirrored, others)


def test_groups_of_one_node_have_no_pair() -> None:
    def at(nodes: Ints) -> list[list[int]]:
        return [each.tolist() for each in positions_by_group(two_groups([]), nodes)]

    assert at(np.array([0, 1, 2, 3])) == [[0, 1], [2, 3]]
    assert at(np.array([1, 2, 3])) == [[1, 2]]


def test_pairs_are_tried_group_by_group() -> None:
    state = two_groups([])
    new = replace(instance("new", DiskTemplate.DRBD, ""), mem=2_500)
    site = chosen_scope(state, PlacementOptions())
    found = on_all_pairs(state, state.requested_instance(new), site, site.assess(state))
    assert [sorted(each.nodes) for each in found] == [[0, 1], [2, 3]]
