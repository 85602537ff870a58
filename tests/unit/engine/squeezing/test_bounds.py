"""Trials of sets of nodes: those that bounds rule out, and those that are carried out."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import stepwise
from ganeti_htools.engine.squeezing.power_down import better_set
from ganeti_htools.engine.squeezing.power_group import TO_THE_END, PowerGroup, power_group, with_power
from ganeti_htools.engine.squeezing.power_plan import PowerPlan, Wishes
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.view import View, movable
from tests.support import by_hand
from tests.support.by_hand import instance

NOTHING = Instance("nothing", 0, 0, (), 0, auto_balance=False, template=DiskTemplate.EXT)
ROWS = [
    instance(name, DiskTemplate.EXT, node, mem=3000)
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "n4"))
]
SIZES = dict.fromkeys(("n0", "n1", "n2", "n3", "n4"), 10_000)


def group_of(cluster: Cluster) -> PowerGroup:
    state = derive(cluster)
    return power_group(state, np.ones(len(state.group), np.bool_), movable(state, View()), NOTHING, NOTHING)


def test_diskless_instance_strands_its_node() -> None:
    rows = [*ROWS, instance("e", DiskTemplate.DISKLESS, "n4")]
    group = group_of(by_hand.cluster(SIZES, rows))
    hopeless = [group.infeasible([node], True, NOTHING) for node in range(5)]
    assert [why is None for why in hopeless] == [True, True, True, True, False]


def with_processors(*tags: str) -> Cluster:
    """Nodes with old and new processors: instances migrate from old ones to new ones, not back."""
    made = by_hand.cluster(SIZES, ROWS)
    nodes = tuple(replace(node, tags=(f"cpu:{tag}",)) for node, tag in zip(made.nodes, tags, strict=True))
    return replace(made, nodes=nodes, tags=("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"))


@pytest.mark.parametrize(
    ("nodes", "stranded"), [((0, 1), False), ((1, 2, 3), False), ((3, 4), True), ((2, 3, 4), True)]
)
def test_instances_are_stranded_when_no_node_is_left_to_migrate_to(
    nodes: tuple[int, ...], stranded: bool
) -> None:
    group = group_of(with_processors("old", "old", "old", "new", "new"))
    assert (group.stranded(nodes) is not None) == stranded
    assert group.infeasible(nodes, True, NOTHING) is None
    assert group.housed(group.balanced(nodes, True)[0]) != stranded


def test_instances_are_stranded_when_nodes_to_migrate_to_are_too_small() -> None:
    made = with_processors("old", "old", "old", "new", "new")
    grown = group_of(
        replace(made, instances=tuple(replace(row, mem=7500) if row.name == "d" else row for row in ROWS))
    )
    assert grown.stranded([3]) is not None
    assert grown.infeasible([3], True, NOTHING) is None


def test_set_that_fails_is_balanced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has less data to move than the plan, so it comes twice: by its room, and by its data."""
    large = instance("large", DiskTemplate.EXT, "n1", mem=8000)
    others = [instance(f"i{row}", DiskTemplate.EXT, f"n{row}", mem=3000) for row in (0, 2, 3)]
    rows = [large, *others, *(instance(f"j{row}", DiskTemplate.EXT, "n4", mem=3000) for row in range(3))]
    group, tried = group_of(by_hand.cluster(SIZES, rows)), list[tuple[int, ...]]()
    balanced = PowerGroup.plan_without

    def plan_without(self: PowerGroup, nodes: tuple[int, ...]) -> PowerPlan:
        tried.append(nodes)
        return balanced(self, nodes)

    found = group.plan_without((4,))
    monkeypatch.setattr(PowerGroup, "plan_without", plan_without)
    assert better_set(group, found, Wishes(never=dict.fromkeys((0, 2, 3), "stays"))) is found
    assert sorted(tried) == [(1,), (4,), (4, 1)]


def test_steps_of_a_plan_that_is_carried_out_have_exact_scores() -> None:
    group = group_of(with_processors("old", "old", "old", "new", "new"))
    made = group.executable(group.plan_without((1, 2)))
    assert made is not None
    marked = with_power(group.state, (1, 2), True)
    assert made.steps == tuple(stepwise(marked, group.scope, TO_THE_END, group.movable))
    assert made.steps
