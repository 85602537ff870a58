import numpy as np

from ganeti_htools.backends import text
from ganeti_htools.engine.balancing.front import default_price, optimise
from ganeti_htools.engine.balancing.replay import RatedPlan
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape, cluster
from tests.support.patience import Steps
from tests.support.text_format import text as text_of

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT
FREE = CopyingOptions()


def everyone(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def places(state: State, plan: RatedPlan) -> dict[str, list[str]]:
    """Where instances end that move, by name."""
    rows = sorted({step.instance for step in plan.steps})
    return {
        state.cluster.instances[row].name: state.names(
            node for node in (int(plan.after.pnode[row]), int(plan.after.snode[row])) if node != NOWHERE
        )
        for row in rows
    }


def test_two_instances_change_places() -> None:
    # 3 + 3 + 2 GiB against 2 + 2 GiB: moving any one is too much, exchanging a 3 and a 2 is not.
    sizes = {"a": 3000, "b": 3000, "c": 1000, "d": 2000, "e": 2000, "f": 1000}
    rows = [
        instance(name, EXT, "n0" if name in "abc" else "n1", mem=mem, spindle_use=0)
        for name, mem in sizes.items()
    ]
    state = derive(by_hand.cluster({"n0": 20_000, "n1": 20_000}, rows))
    greedy, best = optimise(state, everyone(state), BalancingOptions(min_gain=0), FREE, None, Steps(40))
    assert not greedy.steps
    assert len(best.steps) == 2
    assert {len(nodes) for nodes in places(state, best).values()} == {1}
    assert best.score < greedy.score
    memory = [
        sum(row.mem for row, node in zip(rows, best.after.pnode, strict=True) if node == n) for n in (0, 1)
    ]
    assert memory == [6000, 6000]


def test_with_the_default_price_a_second_plan_comes_to_rest() -> None:
    state = derive(text.parse(text_of(cluster(2, Shape(nodes=5, instances=25, templates={"drbd": 1}))), "x"))
    found = {}
    for price in (0.0, default_price(state, everyone(state))):
        copying, plans, start = CopyingOptions(price=price), [], state
        for _ in range(2):
            plans.append(optimise(start, everyone(state), BalancingOptions(), copying, None, Steps(150)))
            start = plans[-1][1].after
        found[bool(price)] = plans
    (greedy, first), (_, second) = found[True]
    assert not second.steps
    assert first.score < greedy.score
    assert first.volume < found[False][0][1].volume
    assert found[False][1][1].steps


def test_instances_that_move_more_than_once_go_directly() -> None:
    state = derive(text.parse(text_of(cluster(2, Shape(nodes=5, instances=25, templates={"drbd": 1}))), "x"))
    _, best = optimise(state, everyone(state), BalancingOptions(), FREE, None, Steps(20))
    for row in {step.instance for step in best.steps}:
        steps = [step for step in best.steps if step.instance == row]
        before = {int(state.pnode[row]), int(state.snode[row])}
        after = {int(best.after.pnode[row]), int(best.after.snode[row])}
        assert len(steps) == (1 if before & after else 2)
