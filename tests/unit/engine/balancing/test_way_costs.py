"""Costs of places, and prices of moves."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Pricing, Weights
from ganeti_htools.engine.balancing.ways import shortest
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import KINDS, MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, MirrorType, Status
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.searches import searching

UNLIMITED = Costs(np.inf, np.inf, np.inf)


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


def test_price_of_a_move_is_the_difference_of_costs() -> None:
    state = state_of()
    homes = Homes(state, Weights())
    state.pnode[0], state.snode[0] = 2, 1  # a has left its home
    search = searching(state)
    pricing = Pricing(homes, state)
    for batch, kind in itertools.product(search.batches, KINDS[MirrorType.INTERNAL]):
        if kind not in KINDS[batch.mirror]:
            continue
        prices = pricing.at(0.5, UNLIMITED)(batch, kind)
        for member, row in enumerate(batch.rows.tolist()):
            place = int(state.pnode[row]), int(state.snode[row])
            for node in range(4) if kind.takes_node else [NOWHERE]:
                if node in place:
                    continue
                now, then = (
                    homes.costs(np.array([row]), *(np.array([each]) for each in nodes)).charge[0]
                    for nodes in (place, kind.nodes(*place, node))
                )
                price = prices.of(np.array([member]), np.array([node]))[0]
                assert price == 0.5 * (then - now)
                assert prices.lowest[member] <= price


def test_moves_beyond_the_limits_are_priceless() -> None:
    state = state_of()
    homes, search = Homes(state, Weights()), searching(state)
    (batch,) = (batch for batch in search.batches if batch.mirror is MirrorType.EXTERNAL)
    for limits, price in ((Costs(300, np.inf, 1), 750.0), (Costs(299, np.inf, 1), np.inf)):
        prices = Pricing(homes, state).at(1.0, limits)(batch, MoveKind.FAILOVER_TO)
        assert prices.anywhere.tolist() == [price]
    prices = Pricing(homes, state).at(1.0, Costs(np.inf, np.inf, 0))(batch, MoveKind.FAILOVER_TO)
    assert prices.anywhere.tolist() == [np.inf]
