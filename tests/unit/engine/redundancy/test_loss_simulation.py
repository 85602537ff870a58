"""The quicker simulation of a lost node says what the rule itself says."""

import random

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.redundancy.loss_simulation import Arrivals, lost_node
from ganeti_htools.engine.redundancy.node_loss import can_be_lost
from ganeti_htools.model.derive import derive
from tests.support.clusters import Shape, cluster
from tests.support.text_format import text as text_of


@pytest.mark.parametrize("seed", range(40))
def test_simulations_agree_where_room_is_scarce(seed: int) -> None:
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(3, 7),
        instances=rng.randint(10, 40),
        groups=rng.choice((1, 2)),
        templates=rng.choice(
            ({"plain": 1}, {"ext": 1}, {"plain": 2, "sharedfile": 1}, {"drbd": 1, "plain": 1})
        ),
        fill=rng.choice((0.6, 0.7, 0.85)),
        tags=rng.choice(((), ("exclusion", "location"), ("migration",), ("desired",))),
        exclusive_storage=rng.random() < 0.2,
    )
    state = derive(text.parse(text_of(cluster(seed, shape)), "generated"))
    everyone, known = np.ones(len(state.group), np.bool_), Arrivals()
    for node in range(len(state.group)):
        for scope in (everyone, state.group == state.group[node]):
            assert can_be_lost(state, node, scope, known) == can_be_lost(state, node, scope)


def test_nothing_is_left_to_do_without_instances() -> None:
    state = derive(text.parse(text_of(cluster(1, Shape(nodes=3, instances=0))), "generated"))
    lost = lost_node(Arrivals(), state, 0, [], np.ones(3, np.bool_))
    assert lost is not None
    assert lost.survived()
