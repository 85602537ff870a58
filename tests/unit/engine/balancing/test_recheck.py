from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.balancing.recheck import named, retrace
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import BalancingOptions
from tests.support.clusters import Shape
from tests.support.rows import generated

STATE = derive(generated(2, Shape(nodes=5, instances=25, templates={"drbd": 2, "ext": 1})))
EVERYONE = np.ones(len(STATE.pnode), np.bool_)
STEPS = rebalance(STATE, np.ones(len(STATE.group), np.bool_), BalancingOptions(min_gain=0.0))[1]


def test_retraces_an_equal_plan() -> None:
    named_steps = zip(named(STATE, STEPS), (step.score for step in STEPS), strict=True)
    assert len(STEPS) > 2
    assert list(retrace(STATE.copy(), EVERYONE, named_steps)) == STEPS


@pytest.mark.parametrize("wrong", [{"instance": "nobody"}, {"node": "nowhere"}, {"node": None}])
def test_a_plan_for_another_cluster_is_refused(wrong: dict[str, str | None]) -> None:
    step = next(step for step in named(STATE, STEPS) if step.node is not None)
    broken = replace(step, **wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"which cannot be moved like that$"):
        list(retrace(STATE.copy(), EVERYONE, [(broken, 0.0)]))
