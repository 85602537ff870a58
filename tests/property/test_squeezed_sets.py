"""Sets that stay together leave a node that is powered down, if another node takes all of them."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_group import with_power
from ganeti_htools.engine.squeezing.power_plan import Action, Wishes
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

NOTHING = Instance("nothing", 0, 0, (), 0, auto_balance=False, template=DiskTemplate.EXT)
NAMES = ("master", "node1", "node2", "node3")


def _case(seed: int) -> Cluster:
    """Instances on shared storage; sets on some nodes, which hardly fit elsewhere."""
    rng = Random(seed)
    sets = [(rng.choice(NAMES), rng.randint(2, 3), rng.choice((100, 300, 400))) for _ in range(2)]
    rows = [
        replace(
            by_hand.instance(f"set{which}-{row}", DiskTemplate.EXT, node, mem=size),
            tags=(f"htools:together:set{which}",),
        )
        for which, (node, count, size) in enumerate(sets)
        for row in range(count)
    ]
    rows += [
        by_hand.instance(f"single{row}", DiskTemplate.EXT, rng.choice(NAMES), mem=rng.choice((100, 300)))
        for row in range(rng.randint(0, 3))
    ]
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in NAMES}
    sizes = {name: max(used[name], 1) + rng.choice((100, 400, 700, 900)) for name in NAMES}
    made = by_hand.cluster(sizes, rows)
    nodes = (replace(made.nodes[0], master=True), *made.nodes[1:])
    return replace(
        made,
        groups=(Group("group1", "uuid-1", ipolicy=replace(DEFAULT_IPOLICY, minmax=())),),
        nodes=nodes,
    )


cases = st.builds(_case, st.integers(0, 1 << 40))


def takes_all(described: Cluster, name: str) -> bool:
    """Whether one of the other nodes has room for all instances of a node."""
    used = {
        node.name: sum(row.mem for row in described.instances if row.pnode == node.name)
        for node in described.nodes
    }
    return any(node.t_mem > used[node.name] + used[name] for node in described.nodes if node.name != name)


@settings(deadline=None)
@given(described=cases)
def test_node_with_one_set_goes_if_another_takes_it(described: Cluster) -> None:
    """Sets are apart only between the steps of their members, also where two nodes go at once."""
    state = derive(described)
    everybody = np.ones(len(state.pnode), np.bool_)
    for row, name in enumerate(NAMES[1:], 1):
        others = {other: "stays" for other in range(len(NAMES)) if other != row}
        reserve = [NOTHING]
        plan = squeeze.plan(state, reserve, reserve, everybody, wishes=Wishes(never=others))
        if len({each.tags or each.name for each in described.instances if each.pnode == name}) == 1:
            assert (plan.nodes == (row,)) >= takes_all(described, name)
    plan = squeeze.plan(state, [NOTHING], [NOTHING], everybody)
    now = state
    for phase in plan.phases:
        now = with_power(now, phase.nodes, phase.action is Action.OFFLINE)
        for step in phase.steps:
            now.pnode[step.instance] = step.nodes[0]
            apart = np.flatnonzero(placement_rules.apart(derive(now.to_cluster())))
            assert step.with_next or not len(apart)
        assert not np.isin(now.pnode, phase.nodes).any()
    assert now.pnode.tolist() == plan.state.pnode.tolist()
