"""Better places than those where a greedy plan ends."""

import itertools

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.better_places import TentativeMoves, improvements
from ganeti_htools.engine.balancing.relocate import try_move
from ganeti_htools.engine.balancing.replay import MoveRows
from ganeti_htools.model.columns import Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.searches import searching

EXT = DiskTemplate.EXT
EVERYWHERE = np.ones(2, np.bool_)


def stuck() -> State:
    """Nodes with 3 + 3 + 1 and 2 + 2 + 1 GiB: moving any one is too much, exchanging a 3 and a 2 is not."""
    sizes = {"a": 3000, "b": 3000, "c": 1000, "d": 2000, "e": 2000, "f": 1000}
    rows = [
        instance(name, EXT, "n0" if name in "abc" else "n1", mem=mem, spindle_use=0)
        for name, mem in sizes.items()
    ]
    return derive(by_hand.cluster({"n0": 20_000, "n1": 20_000}, rows))


def test_failed_attempt_restores_the_state() -> None:
    state = stuck()
    before, search = state.copy(), searching(state)
    moves = TentativeMoves(search)
    for member, node in ((0, 1), (3, 0), (0, 0)):
        trial = try_move(search.space.facts, search.batches[0], member, MoveKind.FAILOVER_TO, node, False)
        assert moves.make(trial, MoveKind.FAILOVER_TO, node)
    assert moves.made[:2] == [MoveRows(0, MoveKind.FAILOVER_TO, 1), MoveRows(3, MoveKind.FAILOVER_TO, 0)]
    assert state.pnode.tolist() == [0, 0, 0, 0, 1, 1]
    moves.take_back()
    assert state.pnode.tolist() == before.pnode.tolist()
    for name, ours, theirs in zip(Columns._fields, state.columns, before.columns, strict=True):
        assert ours.tolist() == theirs.tolist(), name


def test_two_instances_change_places() -> None:
    state = stuck()
    found, counter, score = state.copy(), itertools.count(), score_of(state, EVERYWHERE)
    options = BalancingOptions(min_gain=0.0)
    more = improvements(
        state, found, EVERYWHERE, options, np.ones(6, np.bool_), lambda _score: next(counter) < 60
    )
    (made,) = list(more)
    assert {move.instance in (0, 1, 2) for move in made} == {True, False}
    assert score_of(found, EVERYWHERE) < score


def test_no_improvement_without_time() -> None:
    state = stuck()
    found = improvements(
        state, state.copy(), EVERYWHERE, BalancingOptions(), np.ones(6, np.bool_), lambda _score: False
    )
    assert list(found) == []
