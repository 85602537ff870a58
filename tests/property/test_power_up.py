"""Where nodes are powered up, nothing is left to do afterwards: what they replace is powered down by the same
plan.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import pytest

from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_down import power_down
from ganeti_htools.engine.squeezing.power_group import power_group
from ganeti_htools.engine.squeezing.power_plan import ANY, Action, AllowedMoves, PowerPlan, Wishes
from ganeti_htools.engine.squeezing.reserve import holds_n1, room_on_all
from ganeti_htools.engine.squeezing.squeeze import NamedPhase, power_up, power_up_in_order
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning.squeezing import hsqueeze, standby
from tests.support.at_rest import TEMPLATES, after, sized
from tests.support.clusters import Shape
from tests.support.rows import with_master
from tests.support.seeds import few

pytestmark = pytest.mark.slow

# Minimum and target.
Wanted = tuple[Instance, Instance]


def asleep(rng: random.Random, like: Node, name: str) -> Node:
    """An empty node that is off, smaller or larger than another one."""
    factor = rng.choice((0.5, 1.0, 1.0, 1.5, 2.5))
    memory, disk = int(factor * like.t_mem), int(factor * like.t_dsk)
    return replace(
        like,
        name=name,
        master=False,
        offline=True,
        tags=(*like.tags, f"{STANDBY}auto"),
        t_mem=float(memory),
        f_mem=memory - like.n_mem,
        t_dsk=float(disk),
        f_dsk=disk,
        t_cpu=float(max(2, round(factor * like.t_cpu))),
    )


def lacking(seed: int) -> tuple[Cluster, Wanted, AllowedMoves]:
    """A cluster some of whose nodes have too little free, what is wanted, and what may move."""
    rng = random.Random(seed)
    allowed = rng.choice(list(AllowedMoves))
    shape = Shape(
        nodes=rng.randint(3, 6),
        instances=rng.randint(4, 18),
        groups=rng.choice((1, 1, 2)) if seed % 3 == 2 else 1,
        templates=TEMPLATES[allowed],
        fill=rng.choice((0.3, 0.5, 0.7, 0.85)),
        down=rng.choice((0.0, 0.3)),
    )
    shape = replace(shape, nodes=shape.nodes * shape.groups)
    cluster = with_master(seed, shape)
    alike = cluster.nodes[: shape.groups]
    more = [asleep(rng, rng.choice(alike), f"standby{row}") for row in range(rng.randint(1, 4))]
    cluster = replace(cluster, nodes=(*cluster.nodes, *more))
    columns = derive(cluster).columns
    least = int(columns.unallocated[~columns.offline].min())
    minimum = sized(allowed, max(128, least + rng.choice((-200, 1, 100, 300, 800, 2000))))
    return cluster, (minimum, replace(minimum, mem=minimum.mem + rng.choice((0, 0, 128, 1024)))), allowed


def planned(state: State, wanted: Wanted, allowed: AllowedMoves, wishes: Wishes = ANY) -> PowerPlan:
    minimum, target = ([each] * len(state.policies) for each in wanted)
    everyone = np.ones(len(state.pnode), np.bool_)
    return squeeze.plan(state, minimum, target, everyone, wishes=replace(wishes, allowed=allowed))


def powered_up(seeds: range) -> Iterator[tuple[Cluster, Wanted, AllowedMoves, State, PowerPlan]]:
    """Those of the clusters where powering up is enough, and the plans."""
    yield from filter(None, map(_powered_up, seeds))


@cache
def _powered_up(seed: int) -> tuple[Cluster, Wanted, AllowedMoves, State, PowerPlan] | None:
    cluster, wanted, allowed = lacking(seed)
    state = derive(cluster)
    if room_on_all(state, np.ones(len(state.group), np.bool_), [wanted[0]] * len(state.policies)):
        return None
    found = planned(state, wanted, allowed)
    return (cluster, wanted, allowed, state, found) if found.enough else None


@pytest.mark.parametrize("seeds", few(range(18, 29), 80))
def test_a_second_run_does_nothing(seeds: range) -> None:
    replacing = runs = 0
    for cluster, wanted, allowed, state, found in powered_up(seeds):
        told = hsqueeze.with_standby_data(after(state, found), cluster)
        again = planned(derive(standby.with_standby_figures(told)), wanted, allowed)
        assert not again.nodes
        assert not again.steps
        replacing, runs = replacing + bool(found.replaced), runs + 1
    assert runs > replacing > 0


@pytest.mark.parametrize("seeds", few(range(28, 33), 60))
def test_phases_can_be_carried_out_and_keep_minimum_free(seeds: range) -> None:
    """Nodes that are powered up are enough before others are powered down; N+1 holds after these again."""
    replacing = 0
    for _, wanted, _, state, found in powered_up(seeds):
        everywhere, everyone = np.ones(len(state.group), np.bool_), np.ones(len(state.pnode), np.bool_)
        minimum, target = ([each] * len(state.policies) for each in wanted)
        steps = named(state, found.steps)
        phases = [
            NamedPhase(phase.action, state.names(phase.nodes), list(islice(steps, len(phase.steps))))
            for phase in found.phases
        ]
        assert [phase.action for phase in phases] == [Action.ONLINE] + [Action.OFFLINE] * (len(phases) - 1)
        assert squeeze.recheck_phases(state, phases[:1], minimum, target, everyone, 1 << 30) is None
        assert squeeze.recheck_phases(state, phases, minimum, target, everyone, 1 << 30) is None
        assert not found.state.columns.offline[list({*found.nodes} - {*found.replaced})].any()
        assert found.state.columns.offline[list(found.replaced)].all()
        if found.replaced:
            replacing += 1
            groups = {*state.group[list(found.replaced)].tolist()}
            assert all(holds_n1(found.state, everywhere & (state.group == group)) for group in groups)
    assert replacing


def test_no_node_is_powered_down_when_none_may_be() -> None:
    """The same nodes are powered up then, and none that is not needed."""
    replacing = 0
    for _, wanted, allowed, state, found in powered_up(range(18, 30)):
        kept = planned(state, wanted, allowed, Wishes(most=0))
        assert kept.phases == found.phases[:1]
        replacing += bool(found.replaced)
    assert replacing


@pytest.mark.parametrize("seeds", few(range(45, 50), 50))
def test_omitted_standby_nodes_are_not_needed(seeds: range) -> None:
    """Of the nodes that are powered up none could be powered down."""
    fewer = 0
    for seed in seeds:
        cluster, (minimum, target), allowed = lacking(seed)
        state = derive(cluster)
        scope, everyone = state.group == state.group[0], np.ones(len(state.pnode), np.bool_)
        if room_on_all(state, scope, [minimum] * len(state.policies)):
            continue
        group = power_group(state, scope, everyone, minimum, target, allowed)
        first, found = power_up_in_order(group), power_up(group)
        assert {*found.nodes} <= {*first.nodes}
        assert found.enough == first.enough
        fewer += len(found.nodes) < len(first.nodes)
        if found.enough:
            rest = power_down(group.on_state(found.state))
            assert not {*rest.nodes} & {*found.nodes}
    assert fewer
