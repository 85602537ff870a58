"""Plans by what they copy."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.front import default_price, priced_plans
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move, MoveKind
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support import by_hand
from tests.support.by_hand import instance

STEPS = [
    Move(0, MoveKind.REPLACE_SECONDARY.parts(2), (0, 2), 4.0),
    Move(0, MoveKind.FAILOVER.parts(NOWHERE), (2, 0), 3.0),
    Move(1, MoveKind.FAILOVER.parts(NOWHERE), (1, 0), 2.0),
]


def state_of() -> State:
    rows = [
        instance("a", DiskTemplate.DRBD, "n0", "n1", mem=1000, tags=("htools:price:3",)),
        replace(instance("b", DiskTemplate.DRBD, "n0", "n1"), status=Status.DOWN),
    ]
    return derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows))


def test_each_plan_is_the_steps_so_far() -> None:
    state = state_of()
    plans = list(priced_plans(state, CopyingOptions(), 5.0, STEPS))
    assert [list(plan.steps) for plan in plans] == [STEPS[:length] for length in range(4)]
    assert [plan.score for plan in plans] == [5, 4, 3, 2]
    disk = state.cluster.instances[0].dsk
    assert [(plan.disk, plan.memory) for plan in plans] == [(0, 0), (disk, 0), (disk, 1000), (disk, 1000)]
    assert [plan.weighted for plan in plans] == [0, 3 * disk, 3 * (disk + 1000), 3 * (disk + 1000)]
    assert [plan.charge - plan.weighted for plan in plans] == [0, 0, 0, 1024]


def test_time_is_that_of_one_copy_after_the_other() -> None:
    for rate in (100, 1000):
        *_, last = priced_plans(state_of(), CopyingOptions(bandwidth=rate), 5.0, STEPS)
        assert last.seconds == pytest.approx(8 * last.copied / rate)


def test_measured_speed_of_a_template_counts_unless_a_bandwidth_is_given() -> None:
    state = state_of()
    [template] = {row.template.value for row in state.cluster.instances}
    measured = CopyingOptions(measured={template: 800, "none of these": 1})
    *_, last = priced_plans(state, measured, 5.0, STEPS)
    assert last.seconds == pytest.approx(8 * last.copied / 800)
    *_, given = priced_plans(state, replace(measured, bandwidth=400), 5.0, STEPS)
    assert given.seconds == pytest.approx(2 * last.seconds)


def test_prices_have_weights() -> None:
    state, tib = state_of(), 1 << 20
    disk = state.cluster.instances[0].dsk
    *_, same = priced_plans(state, CopyingOptions(price=2.0), 5.0, STEPS)
    assert same.charge == pytest.approx((3 * (disk + 1000) + 1024) * 2 / tib)
    *_, other = priced_plans(
        state, CopyingOptions(price=2.0, price_memory=0.0, price_failover=0.5), 5.0, STEPS
    )
    assert other.charge == pytest.approx(3 * disk * 2 / tib + 0.5)


def test_limits() -> None:
    *_, plan = priced_plans(state_of(), CopyingOptions(), 5.0, STEPS)
    for name, figure in (("max_copy", plan.copied), ("max_moves", 3), ("max_time", np.ceil(plan.seconds))):
        for more, kept in ((0, True), (-1, False)):
            copying = CopyingOptions(**{name: figure + more})  # type: ignore[arg-type]
            assert plan.within(copying, BalancingOptions()) is kept
    assert not plan.within(CopyingOptions(), BalancingOptions(max_length=2))


def test_all_data_has_the_same_price_in_clusters_of_all_sizes() -> None:
    state = state_of()
    mib = sum(row.dsk + row.mem for row in state.cluster.instances)
    assert default_price(state, np.ones(3, np.bool_)) * mib == pytest.approx(0.15 * 1024 * 1024, rel=0.005)
    assert default_price(state, np.array([False, False, True])) == 0
