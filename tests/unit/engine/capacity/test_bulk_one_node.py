"""Where the next of many instances with one node goes."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.capacity.bulk_one_node import OneNodeSearch
from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.model.cluster import Cluster, Group, Instance, Load, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import instance, node

NEW = instance("new", DiskTemplate.EXT, "")


def search(*nodes: Node, instances: tuple[Instance, ...] = (), row: Instance = NEW) -> OneNodeSearch:
    state = derive(Cluster((Group("group1", "uuid-1"),), nodes, instances))
    with np.errstate(divide="ignore", invalid="ignore"):
        return OneNodeSearch(state, state.requested_instance(row), np.flatnonzero(~state.columns.offline))


def chosen(*nodes: Node, instances: tuple[Instance, ...] = (), row: Instance = NEW) -> list[int]:
    """Where so many instances go, one after the other, until none fits or there are eight."""
    found, places = search(*nodes, instances=instances, row=row), list[int]()
    with np.errstate(divide="ignore", invalid="ignore"):
        while len(places) < 8 and (best := found.best()) is not None:
            found.settle(best)
            places.append(best.primary)
    return places


def test_each_goes_to_the_emptiest_node() -> None:
    busy = instance("busy", DiskTemplate.EXT, "a", mem=2_000), instance("more", DiskTemplate.EXT, "a")
    places = chosen(node("a", used=3_000), node("b"), node("c"), instances=busy)
    assert places[:3] == [2, 1, 2]  # of equal nodes the last
    assert 0 in places


def test_where_they_tie_the_last_node_gets_it() -> None:
    assert chosen(node("a"), node("b"), node("c"))[:6] == [2, 1, 0, 2, 1, 0]


def test_until_nothing_fits() -> None:
    found = search(node("a", mem=2_500), node("b", mem=1_000))
    for _ in range(2):
        best = found.best()
        assert best == (0, -1)
        found.settle(best)
    assert found.best() is None
    assert {fail: number for fail, number in found.failures().items() if number} == {Fail.MEM: 2}


def test_where_no_score_is_a_number_the_first_node_gets_it() -> None:
    """A node that is no candidate reports no memory at all."""
    nodes = node("a"), node("b"), node("c")
    assert chosen(*nodes, node("d", mem=0))[0] == 0
    assert chosen(*nodes)[0] == 2


def test_instances_on_a_node_that_is_not_n1_count() -> None:
    """Node b has more room than a, but less than it keeps free for a; else they are much alike."""
    mirrored = instance("a-b", DiskTemplate.DRBD, "a", "b", mem=4_000)
    others = (
        instance("a", DiskTemplate.EXT, "a", mem=5_500, load=Load(dsk=2.0)),
        *(instance(f"b{row}", DiskTemplate.EXT, "b", mem=20_750) for row in range(2)),
    )
    nodes = node("a", used=9_500), node("b", mem=45_000, used=41_500)
    small = replace(NEW, mem=200)
    assert search(*nodes, instances=(mirrored, *others), row=small).best() == (0, -1)
    apart = replace(mirrored, mem=3_000), *others
    assert search(*nodes, instances=apart, row=small).best() == (1, -1)


@pytest.mark.parametrize("where", ["", "b"])
def test_the_same_as_for_one_alone(where: str) -> None:
    """By the plain rules: the trial of all nodes, and those near the best computed afresh."""
    others = tuple(instance(f"i{row}", DiskTemplate.EXT, where, mem=700) for row in range(3) if where)
    nodes = node("a", mem=9_000), node("b", used=700 * len(others)), node("c", t_cpu=32.0)
    found = search(*nodes, instances=others)
    every = np.ones(3, np.bool_)
    for _ in range(5):
        state = found.state
        trial = placements.allocate_one(state, state.requested_instance(NEW), np.arange(3), every)
        fresh = [choice.fresh_score(state, trial, candidate, every) for candidate in range(3)]
        assert found.afresh(np.arange(3)).tolist() == fresh
        best = found.best()
        assert best is not None
        assert best.primary == choice.best(state, trial, every)
        found.settle(best)
