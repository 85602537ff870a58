"""Plans hold on their own cluster, and on no cluster that prevents them."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.balancing.balance import rebalance, score_of
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind, NamedMove
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from tests.support.clusters import MOVABLE, Shape
from tests.support.rows import any_cluster, with_master
from tests.support.seeds import few

OPTIONS = BalancingOptions(min_gain=0.0, min_gain_limit=0.0, max_length=12)


def everything(state: State) -> tuple[Bools, Bools]:
    """All nodes, all instances."""
    return np.ones(len(state.group), np.bool_), np.ones(len(state.pnode), np.bool_)


def planned(state: State, options: BalancingOptions = OPTIONS) -> tuple[State, list[NamedMove]]:
    """Return the state after a plan, and its steps."""
    scope, movable = everything(state)
    after, steps = rebalance(state, scope, options, movable)
    return after, list(named(state, steps))


def obstacle(cluster: Cluster, steps: list[NamedMove]) -> str | None:
    state = derive(cluster)
    scope, movable = everything(state)
    return recheck.obstacle(state, scope, steps, OPTIONS, movable)


@pytest.mark.parametrize("seeds", few(range(15), 30))
@pytest.mark.parametrize("force", [False, True])
def test_a_plan_holds_where_it_was_made(seeds: range, force: bool) -> None:
    made = 0
    for seed in seeds:
        state = derive(any_cluster(random.Random(seed)))
        options = replace(OPTIONS, ignore_soft_errors=force, restricted_migration=seed % 5 == 0)
        after, steps = planned(state, options)
        made += len(steps)
        again = state.copy()
        scope, movable = everything(state)
        assert recheck.obstacle(again, scope, steps, options, movable) is None
        assert again.pnode.tolist() == after.pnode.tolist()
        assert again.snode.tolist() == after.snode.tolist()
        assert score_of(again, scope) == pytest.approx(score_of(after, scope), abs=1e-12)
    assert made > 20


@pytest.fixture(name="plan")
def some_plan() -> tuple[Cluster, list[NamedMove]]:
    rows = with_master(3, Shape(nodes=6, instances=30, templates=MOVABLE, drained=1))
    steps = planned(derive(rows))[1]
    assert len(steps) > 3
    return rows, steps


Plan = tuple[Cluster, list[NamedMove]]


def test_obstacle_when_an_instance_is_gone(plan: Plan) -> None:
    rows, steps = plan
    gone = steps[2].instance
    left = tuple(row for row in rows.instances if row.name != gone)
    assert obstacle(replace(rows, instances=left), steps) == f"instance {gone} is gone"


def test_obstacle_when_somebody_moved_an_instance(plan: Plan) -> None:
    rows, steps = plan
    moved = steps[1]
    other = next(node.name for node in rows.nodes if node.name not in moved.was)
    there = tuple(replace(row, pnode=other) if row.name == moved.instance else row for row in rows.instances)
    expected = f"instance {moved.instance} is on {', '.join((other, *moved.was[1:]))}, not on"
    assert str(obstacle(replace(rows, instances=there), steps)).startswith(expected)


def test_obstacle_when_an_instance_grew(plan: Plan) -> None:
    rows, steps = plan
    grown = steps[0].instance
    more = tuple(replace(row, mem=10**6) if row.name == grown else row for row in rows.instances)
    reason = obstacle(replace(rows, instances=more), steps)
    assert str(reason).startswith(f"instance {grown} does not fit on ")
    assert "FailMem" in str(reason)


def test_obstacle_when_an_instance_must_not_be_balanced(plan: Plan) -> None:
    rows, steps = plan
    kept = steps[0].instance
    left = tuple(replace(row, auto_balance=row.name != kept) for row in rows.instances)
    assert obstacle(replace(rows, instances=left), steps) == f"instance {kept} must not be moved"


def on_node(plan: Plan, spoil: Callable[[State, Bools, int], None]) -> tuple[NamedMove, str | None]:
    """A step to a new node, and why it cannot be made once something is wrong with the node."""
    rows, steps = plan
    step = next(step for step in steps if step.kind is MoveKind.REPLACE_SECONDARY)
    state = derive(rows)
    scope, movable = everything(state)
    spoil(state, scope, state.nodes[str(step.node)])
    return step, recheck.obstacle(state, scope, [step], OPTIONS, movable)


def test_obstacle_when_a_node_is_drained(plan: Plan) -> None:
    def drain(state: State, _scope: Bools, node: int) -> None:
        state.columns.offline[node] = True

    step, reason = on_node(plan, drain)
    assert reason == f"node {step.node} is offline or drained"


def test_obstacle_when_a_node_changed_its_group(plan: Plan) -> None:
    def leave(_state: State, scope: Bools, node: int) -> None:
        scope[node] = False

    step, reason = on_node(plan, leave)
    assert reason == f"node {step.node} is in another group"


def test_obstacle_when_a_node_is_gone(plan: Plan) -> None:
    def vanish(state: State, _scope: Bools, node: int) -> None:
        state.nodes = {name: row for name, row in state.nodes.items() if row != node}

    step, reason = on_node(plan, vanish)
    assert reason == f"node {step.node} is gone"
