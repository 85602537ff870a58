"""A plan made from the start."""

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.replay import Replay, plan_of
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD = DiskTemplate.DRBD
NODES = {f"n{number}": 10_000 for number in range(4)}
# An instance that went to a new secondary, and then changed roles.
MADE = [
    Move(0, MoveKind.REPLACE_SECONDARY.parts(2), (0, 2)),
    Move(0, MoveKind.FAILOVER.parts(NOWHERE), (2, 0)),
]


def two() -> State:
    return derive(by_hand.cluster(NODES, [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n0", "n1")]))


def everyone(state: State) -> tuple[Bools, Bools]:
    return np.ones(len(state.group), np.bool_), np.ones(len(state.pnode), np.bool_)


def replaying(state: State, options: BalancingOptions | None = None) -> Replay:
    scope, concerned = everyone(state)
    return Replay(state, scope, options or BalancingOptions(), concerned)


def test_moves_are_made_on_a_copy() -> None:
    state = two()
    replay = replaying(state)
    assert all(replay.remake(move) for move in MADE)
    assert replay.place(0) == (2, 0)
    assert [step.nodes for step in replay.steps] == [(0, 2), (2, 0)]
    assert replay.steps[-1].score == score_of(replay.state, everyone(state)[0])
    assert (state.pnode[0], state.snode[0]) == (0, 1)


def test_replay_refuses_impossible_moves() -> None:
    state = two()
    state.columns.i_mem[2] += 9800
    replay = replaying(state)
    assert not replay.make(0, MoveKind.REPLACE_PRIMARY, 2)
    assert not replaying(state, BalancingOptions(disk_moves=False)).make(0, MoveKind.REPLACE_SECONDARY, 3)
    assert not replay.steps


def test_an_instance_is_led_to_its_place() -> None:
    replay = replaying(two())
    assert replay.lead(0, (2, 3))
    assert replay.place(0) == (2, 3)
    assert len(replay.steps) == 2


def test_a_plan_goes_the_shortest_way() -> None:
    state = two()
    scope, concerned = everyone(state)
    plan = plan_of(state, scope, BalancingOptions(), concerned, MADE, {0: (2, 0)})
    assert plan is not None
    assert [step.kind for step in plan.steps] == [MoveKind.REPLACE_AND_FAILOVER]
    assert plan.volume == 1024 + 1000
    assert plan.rank == (round(plan.score, 8), plan.volume, 1)
