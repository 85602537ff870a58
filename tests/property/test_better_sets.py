"""The set of nodes that is powered down is no worse than that of the design's greedy order, and on small
clusters as good as any.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest

from ganeti_htools.engine.squeezing import power_down
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_down import data_moved, least_moved, rank
from ganeti_htools.engine.squeezing.power_group import PowerGroup, power_group
from ganeti_htools.engine.squeezing.power_plan import AllowedMoves, PowerPlan, Wishes
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support.clusters import Shape
from tests.support.rows import with_master
from tests.support.seeds import few

pytestmark = pytest.mark.slow

TEMPLATES = {
    AllowedMoves.POOLS: {"ext": 6, "sharedfile": 2, "drbd": 1},
    AllowedMoves.DRBD: {"drbd": 3, "ext": 3},
    AllowedMoves.ALL: {"ext": 4, "drbd": 2, "plain": 1, "file": 1},
}


def group_of(seed: int, most: int) -> PowerGroup:
    """A group of up to so many nodes, and what is to stay free on them."""
    rng = random.Random(seed)
    allowed = rng.choice([AllowedMoves.POOLS, *AllowedMoves])
    shape = Shape(
        nodes=rng.randint(3, most),
        instances=rng.randint(1, 14),
        templates=TEMPLATES[allowed],
        fill=rng.choice((0.2, 0.4, 0.6)),
        down=rng.choice((0.0, 0.3)),
        tags=rng.choice(((), (), ("exclusion",))),
    )
    state = derive(with_master(seed, shape))
    memory = rng.choice((0, 128, 1024))
    room = Instance("wanted", memory, 0, (), 0, auto_balance=False, template=DiskTemplate.EXT)
    everyone = np.ones(len(state.pnode), np.bool_)
    return power_group(state, state.group == state.group[0], everyone, room, room, allowed)


def possible(group: PowerGroup) -> Iterator[PowerPlan]:
    """All plans that set some nodes offline and balance the rest."""
    candidates = group.within(offline_candidates(group.state, group.allowed))
    for size in range(1, len(candidates) + 1):
        for nodes in combinations(candidates, size):
            plan = group.plan_without(nodes)
            if group.obstacle(plan.state) is None and group.executable(plan):
                yield plan


@pytest.mark.parametrize("seeds", few(range(2), 80))
def test_found_set_is_no_worse_than_greedy_one(seeds: range) -> None:
    better = 0
    for seed in seeds:
        group = group_of(seed, 9)
        greedy = power_down.greedily(group)
        found = power_down.power_down(group)
        assert rank(group.state, found) <= rank(group.state, greedy)
        better += rank(group.state, found) < rank(group.state, greedy)
        assert group.obstacle(found.state) is None or not found.nodes
    assert better


# Some plans that join sets one after the other cannot really be made.
JOINED = (60, 103, 115, 135)


@pytest.mark.parametrize(
    "seeds", [(6, *JOINED[:1]), *(pytest.param(each, marks=pytest.mark.long) for each in (range(60), JOINED))]
)
def test_no_set_of_a_small_group_is_better(seeds: Sequence[int]) -> None:
    compared = 0
    for seed in seeds:
        group = group_of(seed, 6)
        found = power_down.power_down(group)
        best = min(possible(group), key=lambda plan: rank(group.state, plan), default=found)
        assert rank(group.state, found)[:2] <= rank(group.state, best)[:2], seed
        compared += best is not found
    assert compared > 1


@pytest.mark.parametrize("seeds", few(range(5), 40))
def test_every_plan_moves_at_least_the_lower_bound(seeds: range) -> None:
    """And what no sum excludes is what all other tests rest on."""
    plans = 0
    for seed in seeds:
        group = group_of(seed, 5)
        least = least_moved(group.state)
        for plan in possible(group):
            assert data_moved(group.state, plan.steps) >= least[list(plan.nodes)].sum()
            plans += 1
    assert plans > 10


def test_wishes_hold_for_other_sets() -> None:
    better = 0
    for seed in range(10, 20):
        group = group_of(seed, 7)
        candidates = group.within(offline_candidates(group.state, group.allowed))
        rng = random.Random(seed)
        prefer, never = (frozenset(rng.sample(candidates, len(candidates) // 3)) for _ in range(2))
        wishes = Wishes(prefer, dict.fromkeys(never - prefer, "stays"), rng.choice((None, 1, 2)))
        greedy = power_down.greedily(group, wishes)
        plan = power_down.better_set(group, greedy, wishes)
        if plan is not greedy:
            better += 1
            assert rank(group.state, plan) < rank(group.state, greedy)
            assert not {*plan.nodes} & wishes.never.keys()
            assert {*greedy.nodes} & prefer <= {*plan.nodes}
            assert wishes.most is None or len(plan.nodes) <= wishes.most
    assert better


def test_trials_are_few_where_each_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_down, "EFFORT", 0)
    for seed in range(4):
        group = group_of(seed, 9)
        candidates = group.within(offline_candidates(group.state, group.allowed))
        greedy = power_down.greedily(group)
        trials: list[int] = []
        balanced = PowerGroup.balanced

        def counted(self: PowerGroup, nodes: tuple[int, ...], offline: bool, *, to: list[int] = trials):  # type: ignore[no-untyped-def]
            to.append(len(nodes))
            return balanced(self, nodes, offline)  # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(PowerGroup, "balanced", counted)
            power_down.better_set(group, greedy, Wishes())
        assert len(trials) <= len(candidates) // 3
