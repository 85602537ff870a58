"""Plans that copy little."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.balancing.front import Front, PricedPlan, choose, front, priced_plans, spread
from ganeti_htools.engine.balancing.recheck import obstacle
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.patience import Steps
from tests.support.rows import generated

OPTIONS, FREE = BalancingOptions(), CopyingOptions()
DRBD = Shape(nodes=6, instances=30, templates={"drbd": 1})


def state_of(shape: Shape = DRBD) -> State:
    return derive(generated(1, shape))


def found_in(
    state: State,
    options: BalancingOptions = OPTIONS,
    copying: CopyingOptions = FREE,
    number: int = 40,
) -> Front:
    return front(state, np.ones(len(state.group), np.bool_), options, copying, None, Steps(number))


def plan(weighted: float, score: float, length: int = 1) -> PricedPlan:
    return PricedPlan((), length, score, weighted=weighted, charge=weighted)


def test_the_usual_plan_is_beaten_or_there() -> None:
    state = state_of()
    usual = rebalance(state, np.ones(6, np.bool_), OPTIONS)[1]
    for number in (0, 40):
        found = found_in(state, number=number)
        assert list(found.usual.steps) == usual
        assert any(
            each.copied <= found.usual.copied and each.score <= found.usual.score for each in found.plans
        )
    assert found.plans[0].length == 0


def test_more_is_found_with_the_search() -> None:
    found = found_in(state_of())
    usual = found.usual
    assert min(each.score for each in found.plans if each.copied <= usual.copied) < usual.score
    assert min(each.copied for each in found.plans if each.score <= usual.score) < usual.copied


@pytest.mark.parametrize(
    "copying",
    [
        CopyingOptions(max_copy=60_000),
        CopyingOptions(max_moves=4),
        CopyingOptions(max_time=3600.0),
        CopyingOptions(max_copy=0),
    ],
)
def test_limits_hold(copying: CopyingOptions) -> None:
    found = found_in(state_of(), copying=copying, number=30)
    assert all(each.within(copying, OPTIONS) for each in found.plans)
    assert not found.usual.within(copying, OPTIONS)
    if copying.max_copy:
        assert choose(found, copying).length


def test_length_of_the_options_holds() -> None:
    found = found_in(state_of(), replace(OPTIONS, max_length=5))
    assert max(each.length for each in found.plans) <= 5


def test_lost_nodes_are_left_by_steps_that_a_review_accepts() -> None:
    rows = [instance(f"i{i}", DiskTemplate.DRBD, "n0", f"n{1 + i % 3}", mem=500 + 300 * i) for i in range(6)]
    described = by_hand.cluster({f"n{i}": 20_000 for i in range(5)}, rows)
    lost = tuple(replace(node, offline=node.name == "n0") for node in described.nodes)
    state, options = derive(replace(described, nodes=lost)), replace(OPTIONS, evacuation=True)
    scope, everyone = np.ones(5, np.bool_), np.ones(6, np.bool_)
    for each in found_in(state, options, number=30).plans:
        assert obstacle(state.copy(), scope, list(named(state, each.steps)), options, everyone) is None


def test_dear_instances_stay() -> None:
    state = state_of()
    rows = tuple(
        replace(row, tags=("htools:price:1000",)) if number % 2 else row
        for number, row in enumerate(state.cluster.instances)
    )
    found = found_in(derive(replace(state.cluster, instances=rows)))
    middle = found.plans[len(found.plans) // 2]
    assert middle.length
    assert all(step.instance % 2 == 0 for step in middle.steps)
    assert found.plans[-1].weighted > found.plans[-1].copied


def test_a_price_chooses_the_lowest_sum() -> None:
    state = state_of()
    for price in (0.01, 1.0, 100.0):
        copying = CopyingOptions(price=price)
        found = found_in(state, copying=copying, number=20)
        chosen = choose(found, copying)
        # A failover of a stopped instance counts like 1 GiB.
        failovers = (chosen.charge / price * (1 << 20) - chosen.copied) / 1024
        assert failovers == pytest.approx(round(failovers), abs=1e-6)
        assert all(chosen.score + chosen.charge <= each.score + each.charge + 1e-7 for each in found.plans)


@pytest.mark.parametrize(
    "copying",
    [
        CopyingOptions(price=0.0, price_memory=100.0),
        CopyingOptions(price=0.0, price_failover=1.0),
        CopyingOptions(price=1.0, price_memory=0.0),
    ],
)
def test_free_kinds_of_copying_do_not_count(copying: CopyingOptions) -> None:
    state = state_of(replace(DRBD, down=0.5))
    found = found_in(state, copying=copying, number=20)
    chosen = choose(found, copying)
    usual = priced_plans(state, copying, found.plans[0].score, found.usual.steps)
    assert chosen.score + chosen.charge <= min(each.score + each.charge for each in usual) + 1e-7
    costs = [each.charge for each in found.plans]
    assert costs == sorted(costs)


def test_nothing_moves_where_no_node_is_online() -> None:
    described = state_of().cluster
    nodes = tuple(replace(node, offline=True) for node in described.nodes)
    found = found_in(derive(replace(described, nodes=nodes)))
    assert [each.length for each in found.plans] == [0]


def test_choice_by_score() -> None:
    plans = [plan(0, 9.0, 0), plan(1, 5.0), plan(2, 3.0), plan(9, 2.0)]
    found = Front(plans[-1], plans)
    assert choose(found, CopyingOptions(most_even=True)) is plans[3]
    assert choose(found, CopyingOptions(cheapest_below=4.0)) is plans[2]
    assert choose(found, CopyingOptions(cheapest_below=9.0)) is plans[0]
    assert choose(found, CopyingOptions(cheapest_below=1.0)) is plans[3]


def test_spread_has_the_plans_that_beat_the_usual_one() -> None:
    plans = [plan(0, 100.0, 0), *(plan(cost, 100.0 / cost) for cost in range(1, 100))]
    found = Front(plan(50, 100.0 / 20), plans)
    for number in (3, 5, 10):
        shown = spread(found, number)
        assert len(shown) == number
        assert {20, 50, 99} <= {each.weighted for each in shown}
        assert [each.weighted for each in shown] == sorted({each.weighted for each in shown})
    assert [each.weighted for each in spread(found, 1)] == [99]
    assert spread(found, 1000) == plans[1:]


@pytest.mark.parametrize(
    ("usual", "least", "score"),
    [
        (plan(0.1, 0.8), 0.01, 0.5),
        (plan(0.1, 0.45), 0.01, 0.4),  # the best by score and price is less even than the usual plan
        (plan(0.9, 0.45), 0.01, 0.5),  # but the usual plan is not worth its price
        (plan(0.9, 0.45), 0.6, 1.0),
    ],
)
def test_a_price_that_nobody_has_set_needs_a_gain(usual: PricedPlan, least: float, score: float) -> None:
    plans = [plan(0.0, 1.0, 0), plan(0.1, 0.8), plan(0.2, 0.5), plan(0.4, 0.4), plan(0.9, 0.3)]
    chosen = choose(Front(usual, plans), CopyingOptions(price=1.0), least)
    assert chosen.score == score
