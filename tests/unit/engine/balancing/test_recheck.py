from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.options import BalancingOptions
from tests.support.clusters import Shape
from tests.support.rows import generated

STATE = derive(generated(2, Shape(nodes=5, instances=25, templates={"drbd": 2, "ext": 1})))
EVERYONE = np.ones(len(STATE.pnode), np.bool_)
STEPS = rebalance(STATE, np.ones(len(STATE.group), np.bool_), BalancingOptions(min_gain=0.0))[1]


def test_retraces_an_equal_plan() -> None:
    assert len(STEPS) > 2
    assert list(retrace(STATE.copy(), EVERYONE, named(STATE, STEPS))) == STEPS


def with_node(move: NamedMove, node: str | None) -> NamedMove:
    return replace(move, parts=tuple((each, node if each.takes_node else None) for each, _ in move.parts))


@pytest.mark.parametrize(
    "changed",
    [
        lambda move: replace(move, instance="nobody"),
        lambda move: with_node(move, "nowhere"),
        lambda move: with_node(move, None),
    ],
)
def test_a_plan_for_another_cluster_is_refused(changed: Callable[[NamedMove], NamedMove]) -> None:
    step = next(step for step in named(STATE, STEPS) if step.node is not None)
    with pytest.raises(DataError, match=r"which cannot be moved like that$"):
        list(retrace(STATE.copy(), EVERYONE, [changed(step)]))
