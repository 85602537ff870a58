"""No plan of hsqueeze takes an instance's redundancy, after any step, on any cluster of several groups."""

from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.redundancy.health import lose
from ganeti_htools.engine.squeezing.power_group import drained_nodes, with_power
from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning import view
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import HSQUEEZE, SqueezeOptions
from tests.support.super_clusters import super_cluster


def lost(state: State, late: Bools) -> set[str]:
    """The instances that do not come back if their primary is lost, by ``hcheck --what-if-lost``."""
    columns = state.columns.changed(offline=drained_nodes(state, late))
    read = replace(state, columns=columns, stamp=np.arange(len(state.pnode)))
    hosts = sorted(set(state.pnode[~state.forthcoming].tolist()))
    recoveries = [recovery for node in hosts for recovery in lose(read, node).recoveries]
    return {state.cluster.instances[each.instance].name for each in recoveries if each.node == NOWHERE}


@settings(max_examples=7)
@given(seed=st.integers(0, 1 << 30))
@example(seed=135)  # a class that the nodes of the group have, but not the node of its instance
@example(seed=286)  # nodes are powered up
@example(seed=307)  # a node is drained late
@example(seed=394)
def test_no_instance_loses_its_redundancy(seed: int) -> None:
    rng = Random(seed)
    cluster = super_cluster(rng)
    nodes = (replace(node, tags=(*node.tags, f"{STANDBY}auto") * node.offline) for node in cluster.nodes)
    options = SqueezeOptions(
        minimal_resources=rng.choice((0.0, 1.0, 4.0, 10.0)),
        target_resources=rng.choice((0.1, 1.0, 2.0)),
        allow_drbd=rng.random() < 0.5,
        allow_all=rng.random() < 0.4,
    )
    state = hsqueeze.state_of(replace(cluster, nodes=tuple(nodes)), options)
    plan = HSQUEEZE.plan(state, options, lambda _: None).power
    now, steps = state, iter(named(state, plan.steps))
    late, movable = np.zeros(len(state.group), np.bool_), view.movable(state, options.view)
    before = lost(now, late)
    for phase in plan.phases:
        down = phase.action is Action.OFFLINE
        now, late = with_power(now, phase.nodes, down), np.isin(np.arange(len(late)), list(phase.late))
        assert not down or lost(now, late) <= before
        before = lost(now, late)
        for _ in retrace(now, movable, islice(steps, len(phase.steps))):
            after = lost(now, late)
            assert after <= before
            before = after
