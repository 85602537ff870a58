"""Aliases of columns save work and nothing else: copies and columns without aliases get the same answers."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.deciding.decision import state_for
from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.balancing.balance import stepwise
from ganeti_htools.engine.capacity.fill import fill
from ganeti_htools.engine.decide import decide
from ganeti_htools.model.columns import columns_type
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.request import Request
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance
from tests.support.cases import case
from tests.support.rows import any_cluster
from tests.support.seeds import few

OPTIONS = BalancingOptions(min_gain=0.0, min_gain_limit=0.0)


def copied(state: State) -> State:
    """The state with an array of its own for each column."""
    columns = state.columns
    return replace(state, columns=type(columns)._make(map(np.copy, columns)))


def unaliased(state: State) -> State:
    """The state with columns of which none is known to equal another."""
    columns = state.columns
    return replace(state, columns=columns_type(columns.shape)._make(map(np.copy, columns)))


CHANGES = pytest.mark.parametrize("change", [copied, unaliased])
Change = Callable[[State], State]


def answer(state: State, request: Request) -> object:
    """The decision with the cluster afterwards, or why there is none."""
    try:
        decision = decide(state, request, PlacementOptions())
    except RequestFailed as failure:
        return str(failure)
    result = decision.result
    if isinstance(result, Evacuation):
        return result.moved, result.failed, decision.state.to_cluster()
    return [(placed.nodes, placed.metric, placed.info) for placed in result], decision.state.to_cluster()


@CHANGES
@pytest.mark.parametrize("seeds", few(range(12), 40))
def test_decisions_are_the_same(change: Change, seeds: range) -> None:
    decided = 0
    for seed in seeds:
        message = iallocator.read(case(seed).text.encode())
        state = state_for(message.cluster, message.request, PlacementOptions())
        answers = [answer(each, message.request) for each in (state, change(state))]
        assert answers[0] == answers[1], seed
        decided += not isinstance(answers[0], str)
    assert decided > 6


@CHANGES
@pytest.mark.parametrize("seeds", few(range(4), 12))
def test_steps_of_balancing_are_the_same(change: Change, seeds: range) -> None:
    number = 0
    for seed in seeds:
        state = derive(any_cluster(Random(seed)))
        scope = state.group == state.group[0]
        expected = list(islice(stepwise(state.copy(), scope, OPTIONS), 6))
        assert list(islice(stepwise(change(state), scope, OPTIONS), 6)) == expected
        number += len(expected)
    assert number > 16


@CHANGES
@pytest.mark.parametrize("seeds", few(range(3), 8))
@pytest.mark.parametrize("template", [DiskTemplate.DRBD, DiskTemplate.EXT])
def test_bulk_allocation_is_the_same(change: Change, template: DiskTemplate, seeds: range) -> None:
    number = 0
    for seed in seeds:
        state = derive(any_cluster(Random(seed)))
        states, nodes = (state.copy(), change(state)), np.flatnonzero(~state.columns.offline)
        found = [fill(each, instance("new", template, "", mem=128), nodes, limit=12) for each in states]
        assert found[0] == found[1]
        assert states[0].to_cluster() == states[1].to_cluster()
        number += found[0].placed
    assert number > 35
