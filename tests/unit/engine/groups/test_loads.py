"""The load of groups by hand."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.groups.levelling import DYNAMIC, STATIC, GroupLoads, group_loads
from ganeti_htools.model.cluster import Cluster, Group, Load
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance, node

EXT, DRBD = DiskTemplate.EXT, DiskTemplate.DRBD


def loads(*loads: Load) -> GroupLoads:
    """Three racks of one node each, the first of twice the size; an instance on each by turns."""
    nodes = [
        node(f"node{at}", 20_000 if at == 0 else 10_000, group=f"uuid-{at}", t_cpu=8.0) for at in range(3)
    ]
    nodes[0] = replace(nodes[0], cpu_speed=2.0)
    rows = [replace(instance(f"inst{at}", EXT, f"node{at % 3}"), load=load) for at, load in enumerate(loads)]
    groups = tuple(Group(f"rack{at}", f"uuid-{at}") for at in range(3))
    state = derive(Cluster(groups, tuple(nodes), tuple(rows)))
    return group_loads(state, frozenset(range(3)))


def test_loads_in_proportion_to_capacity_are_even() -> None:
    found = loads(Load(4, 2, 0, 0), Load(2, 1, 0, 0), Load(2, 1, 0, 0))
    assert found.names == DYNAMIC
    assert found.relative[:2] == pytest.approx(np.ones((2, 3)))
    assert found.score == 0
    assert found.outliers == []


def test_the_score_is_the_mean_spread_of_what_is_loaded() -> None:
    # CPU: capacities 16, 8, 8 and loads 8, 0, 0; network: capacities 1, 1, 1 and loads 3, 2, 1.
    found = loads(Load(8, 0, 0, 3), Load(0, 0, 0, 2), Load(0, 0, 0, 1))
    assert found.relative[0] == pytest.approx([2, 0, 0])
    assert found.relative[3] == pytest.approx([1.5, 1, 0.5])
    cpu, net = 1.0, np.sqrt((0.25 + 0.25) / 3)
    assert found.score == pytest.approx((cpu + net) / 2)
    assert found.overall == pytest.approx([1.75, 0.5, 0.25])
    assert set(found.outliers) == {(0, "cpu"), (1, "cpu"), (2, "cpu"), (0, "net"), (2, "net")}


def test_the_gain_of_a_move() -> None:
    found = loads(Load(8, 0, 0, 0), Load(0, 0, 0, 0), Load(0, 0, 0, 0), Load(8, 0, 0, 0))
    gains = found.gains(np.array([3]), 0)
    # 16 on rack0 of half the capacity; then 8 there and 8 on one of a quarter.
    after = np.sqrt(0.25 * 1 + 0.25 * 1)
    assert gains == pytest.approx(np.array([[0, 1 - after, 1 - after]]))


def test_without_dynamic_load_it_is_virtual_cpus_and_memory() -> None:
    found = loads(Load(), Load(), Load())
    assert found.names == STATIC
    assert found.relative == pytest.approx(np.array([[2 / 3, 4 / 3, 4 / 3]] * 2))


def test_disks_of_mirrored_instances_count_on_both_nodes() -> None:
    nodes = tuple(node(f"{rack}{at}", group=rack) for rack in "ab" for at in range(2))
    rows = (
        replace(instance("one", DRBD, "a0", "a1"), load=Load(1, 1, 3, 1)),
        instance("two", EXT, "b0"),
    )
    state = derive(Cluster((Group("a", "a"), Group("b", "b")), nodes, rows))
    found = group_loads(state, frozenset((0, 1)))
    assert found.loads[2] == pytest.approx([6, 1])
    assert found.mine[2] == pytest.approx([6, 1])


def test_groups_without_online_node_are_left_out() -> None:
    nodes = (node("a0", group="a"), node("b0", group="b", offline=True))
    rows = (instance("one", EXT, "a0"), instance("two", EXT, "b0"))
    state = derive(Cluster((Group("a", "a"), Group("b", "b")), nodes, rows))
    found = group_loads(state, frozenset((0, 1)))
    assert (found.groups, found.score) == ((0,), 0)
