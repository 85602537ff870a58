import random
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.balancing.balance import rebalance, score_of
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import MIXED, MOVABLE, Shape, cluster
from tests.support.rows import any_cluster
from tests.support.storage_units import with_units
from tests.support.text_format import text as text_of

DRBD, EXT, DISKLESS, PLAIN = (
    DiskTemplate.DRBD,
    DiskTemplate.EXT,
    DiskTemplate.DISKLESS,
    DiskTemplate.PLAIN,
)


def everyone(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def large(seed: int) -> State:
    """A cluster so large that most moves are never scored."""
    tags: tuple[str, ...] = ((), ("exclusion", "location"), ("migration",), ("desired",))[seed % 4]
    shape = Shape(
        nodes=17,
        instances=30,
        templates=(MIXED, MOVABLE)[seed % 2],
        offline=seed % 3 % 2,
        forthcoming=0.2 * (seed % 5 == 0),
        tags=tags,
    )
    data = cluster(seed, shape)
    data = with_units(data, random.Random(seed)) if seed % 4 == 3 else data
    return derive(text.parse(text_of(data), "generated"))


def small(seed: int) -> State:
    return derive(any_cluster(random.Random(seed)))


@pytest.mark.parametrize("seed", range(2))
def test_figures_of_each_step_describe_the_state_after_it(seed: int) -> None:
    state = large(seed)
    after, steps = rebalance(state, everyone(state), BalancingOptions(max_length=6))
    assert len(steps) > 1
    for step in steps:
        assert score_of(after, everyone(state)) <= step.score + 1e-9
    assert score_of(after, everyone(state)) == steps[-1].score
    last = {step.instance: step for step in steps}
    assert all(after.nodes_of(row) == step.nodes for row, step in last.items())


@pytest.mark.parametrize("seed", range(2))
def test_a_plan_started_in_the_middle_continues_the_same_way(seed: int) -> None:
    state = large(seed)
    _, plan = rebalance(state, everyone(state), BalancingOptions(max_length=6))
    middle, first = rebalance(state, everyone(state), BalancingOptions(max_length=2))
    _, rest = rebalance(middle, everyone(state), BalancingOptions(max_length=4))
    assert first + rest == plan


def test_input_state_is_unchanged() -> None:
    state = large(1)
    before = state.pnode.tolist(), score_of(state, everyone(state))
    assert rebalance(state, everyone(state), BalancingOptions())[1]
    assert (state.pnode.tolist(), score_of(state, everyone(state))) == before


def two_on_one_node(**facts: object) -> State:
    rows = [instance("a", DRBD, "n0", "n1", **facts), instance("b", EXT, "n0", **facts)]  # type: ignore[arg-type]
    return derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, rows))


def test_instances_without_auto_balance_stay() -> None:
    state = two_on_one_node()
    assert rebalance(state, everyone(state), BalancingOptions())[1]
    state = two_on_one_node(auto_balance=False)
    assert not rebalance(state, everyone(state), BalancingOptions())[1]


def test_only_the_movable_move() -> None:
    state = two_on_one_node()
    _, steps = rebalance(state, everyone(state), BalancingOptions(), np.array([False, True]))
    assert {step.instance for step in steps} == {1}


def test_no_step_gains_less_than_asked_for() -> None:
    state = large(1)
    _, steps = rebalance(state, everyone(state), BalancingOptions(min_gain=0.2, min_gain_limit=100))
    scores = [score_of(state, everyone(state)), *(step.score for step in steps)]
    gains = -np.diff(scores)
    assert len(gains) > 1
    assert (gains >= 0.2).all()


def test_no_online_node() -> None:
    rows = [instance("a", DRBD, "n0", "n1")]
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, rows, offline=True))
    assert score_of(state, everyone(state)) == 0
    assert not rebalance(state, everyone(state), BalancingOptions())[1]


@pytest.mark.parametrize("seed", range(2))
def test_disks_are_copied_only_where_that_gains_much(seed: int) -> None:
    state = small(seed)
    for factor in (0.0, 1.5, 4.0):
        scope, now = everyone(state), state
        options = BalancingOptions(min_gain=0, max_length=1)
        for _ in range(3):
            current = score_of(now, scope)
            after, steps = rebalance(now, scope, replace(options, disk_moves_factor=factor))
            _, best = rebalance(now, scope, options)
            _, cheap = rebalance(now, scope, replace(options, disk_moves=False))
            if not steps:
                assert not best
                break
            gains = [current - each[0].score if each else 0.0 for each in (best, cheap)]
            much = gains[0] > factor * gains[1]
            assert steps == (best if much or not cheap else cheap)
            now = derive(after.to_cluster())


def test_only_a_gainful_move_without_copying_prevents_one_that_copies() -> None:
    rows = [instance(name, DRBD, "n0", "n1") for name in "abcd"]
    state = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, rows))
    kinds = []
    for factor in (None, 1.0, 1e6):
        _, steps = rebalance(state, everyone(state), BalancingOptions(disk_moves_factor=factor))
        kinds.append([step.kind for step in steps])
    assert kinds[0][0].copies_disks
    assert kinds[2][0] is MoveKind.FAILOVER
    # Once no failover gains, disks are copied whatever the factor.
    assert any(kind.copies_disks for kind in kinds[2])


def test_a_move_that_the_first_step_makes_possible_is_found() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", PLAIN, "n0")]
    described = by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, rows)
    lost = tuple(replace(node, offline=node.name == "n1") for node in described.nodes)
    state = derive(replace(described, nodes=lost))
    # With its secondary offline, the instance cannot be failed over before it has a new one.
    _, steps = rebalance(state, everyone(state), BalancingOptions(restricted_migration=True))
    assert [step.kind for step in steps] == [MoveKind.REPLACE_SECONDARY, MoveKind.FAILOVER]
