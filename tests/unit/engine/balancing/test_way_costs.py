"""Costs of places, and prices of moves."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.way_costs import Homes, Weights
from ganeti_htools.engine.balancing.ways import shortest
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support import by_hand
from tests.support.by_hand import instance


def state_of(lost: bool = False) -> State:
    rows = [
        instance("a", DiskTemplate.DRBD, "n0", "n1", mem=700),
        replace(instance("b", DiskTemplate.DRBD, "n0", "n1"), status=Status.DOWN),
        instance("c", DiskTemplate.EXT, "n0", mem=300, tags=("htools:price:2.5",)),
    ]
    made = by_hand.cluster({f"n{number}": 10_000 for number in range(4)}, rows)
    nodes = tuple(replace(node, offline=lost and node.name == "n0") for node in made.nodes)
    return derive(replace(made, nodes=nodes))


@pytest.mark.parametrize("lost", [False, True])
def test_costs_are_those_of_the_shortest_way(lost: bool) -> None:
    state = state_of(lost)
    homes = Homes(state, Weights(1.0, 1.0, 0.0))
    places = [(row, *pair) for row in (0, 1) for pair in itertools.permutations(range(4), 2)]
    places += [(2, node, NOWHERE) for node in range(4)]
    for row, pnode, snode in places:
        costs = homes.costs(np.array([row]), np.array([pnode]), np.array([snode]))
        volume, length = shortest(state, {row: (pnode, snode)})
        assert (costs.copied[0], costs.moves[0]) == (volume, length), (row, pnode, snode)
        assert costs.charge[0] == volume * (2.5 if row == 2 else 1)


def test_failovers_of_stopped_instances_have_a_weight() -> None:
    homes = Homes(state_of(), Weights(1.0, 1.0, 5.0))
    costs = homes.costs(np.array([1, 1]), np.array([1, 0]), np.array([0, 2]))
    assert costs.copied.tolist() == [0, state_of().cluster.instances[1].dsk]
    assert costs.charge.tolist() == [5, costs.copied[1]]


def test_places_out_of_reach_cost_infinitely_much() -> None:
    reachable = np.ones((3, 3, 3), np.bool_)
    reachable[0, 2, 1] = False
    homes = Homes(state_of(), Weights(), reachable)
    rows, primaries = np.array([0, 0, 1]), np.array([2, 0, 2])
    assert np.isinf(homes.charge(rows, primaries, np.array([1, 2, 1]))).tolist() == [True, False, False]


def test_nodes_to_which_an_instance_must_not_migrate_from_home_cost_infinitely_much() -> None:
    state = state_of()
    state.allowed_migrations = np.ones((4, 4), np.bool_)
    state.allowed_migrations[0, 2] = False
    charge = Homes(state, Weights()).charge(np.array([2, 2, 2]), np.array([0, 2, 3]), np.full(3, NOWHERE))
    assert np.isinf(charge).tolist() == [False, True, False]


def test_a_place_out_of_reach_is_free_to_leave() -> None:
    reachable = np.ones((3, 3, 3), np.bool_)
    reachable[0, 2, 1] = False
    homes, row = Homes(state_of(), Weights(), reachable), np.array([0])
    far, near, home = ((np.array([p]), np.array([s])) for p, s in ((2, 1), (0, 2), (0, 1)))
    assert homes.added_charge(row, far, far) == np.inf
    assert homes.added_charge(row, far, near) == homes.charge(row, *near)
    assert homes.added_charge(row, near, home) == -homes.charge(row, *near)
    assert homes.change(row, far, home).charge == 0
    assert homes.change(row, near, home).copied == -homes.costs(row, *near).copied
