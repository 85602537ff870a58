"""Whatever is decided, planned or counted, disks only come to where their units have room."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.deciding.decision import state_for
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.capacity.counting import standard
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Maintenance
from ganeti_htools.engine.redundancy.rule import recover
from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.model.types import DiskTemplate
from tests.support.cases import TYPES
from tests.support.plain_storage import counted, free_on, sees, takes
from tests.support.seeds import few
from tests.support.storage_units import any_state, case_with_units


def check(before: State, after: State) -> int:
    """Every node has the units of the disks that came, with something left; how many came.

    Of instances that were there at first nothing is said where they stay.
    """
    cluster, instances, came = before.cluster, after.cluster.instances, 0
    here: list[set[tuple[int, int]]] = []
    for state in (before, after):
        pairs = zip(state.pnode.tolist(), state.snode.tolist(), strict=True)
        here.append({(row, node) for row, nodes in enumerate(pairs) for node in nodes if node != NOWHERE})
    for number, node in enumerate(cluster.nodes):
        free, first = free_on(cluster, node), free_on(cluster, node)
        arrived: list[tuple[str, DesiredUnit]] = []
        for sign, moved in ((1, here[0] - here[1]), (-1, here[1] - here[0])):
            for row, _ in (each for each in moved if each[1] == number):
                for unit, size in takes(cluster, instances[row]).items():
                    if unit.type.pool:
                        assert sign > 0 or sees(cluster, node, unit), instances[row].name
                    elif counted(cluster, unit):
                        if sign < 0:
                            assert unit in first, (instances[row].name, node.name)
                            arrived += [(instances[row].name, unit)] * (not instances[row].forthcoming)
                        if unit in free and not instances[row].forthcoming:
                            free[unit] += sign * size
                came += sign < 0
        assert all(free[unit] > 0 for _, unit in arrived), node.name
    return came


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seeds", few(range(60), 120))
def test_free_storage_is_exact_after_requests(kind: str, seeds: range) -> None:
    came = 0
    for seed in seeds:
        made = case_with_units(seed, kind)
        message = iallocator.read(made.text.encode())
        state = state_for(message.cluster, message.request, PlacementOptions())
        if state.columns.excl_stor.any():
            continue
        try:
            after = decide(state, message.request, PlacementOptions(capacity=seed % 3 == 0)).state
        except RequestFailed:
            continue
        came += check(state, after)
    assert came > 2


@pytest.mark.parametrize("seeds", few(range(5), 20))
def test_free_storage_is_exact_after_balancing(seeds: range) -> None:
    came = 0
    for seed in seeds:
        state = any_state(seed)
        options = BalancingOptions(min_gain=0, ignore_soft_errors=seed % 4 == 0)
        after, _ = rebalance(state, np.ones(len(state.group), np.bool_), options)
        came += check(state, after)
    assert came > 15


@pytest.mark.parametrize("template", ["drbd", "plain", "file", "ext"])
@pytest.mark.parametrize("seeds", few(range(6), 12))
def test_free_storage_is_exact_after_hspace(template: str, seeds: range) -> None:
    came = 0
    for seed in seeds:
        state = any_state(seed)
        if state.lacks_unit(DiskTemplate(template)):
            continue
        nodes = np.flatnonzero(~state.columns.offline)
        site = AllocationScope(
            nodes, np.zeros(len(state.group), np.bool_), PlacementOptions(capacity=seed % 2 == 0)
        )
        size = InstanceSize(1024, 5120, 1, 1)
        came += check(state, standard(state, InstanceKind(DiskTemplate(template), 1), size, site, 30).state)
    assert came > 8


def standby(state: State, rng: random.Random) -> State:
    """The state with some nodes powered down that may be powered up again."""
    nodes = list(state.cluster.nodes)
    for row in rng.sample(range(len(nodes)), rng.randint(0, len(nodes) - 2)):
        if not state.primaries_of(row).size:
            nodes[row] = replace(nodes[row], offline=True, tags=(*nodes[row].tags, f"{STANDBY}:auto"))
    return derive(replace(state.cluster, nodes=tuple(nodes)))


@pytest.mark.parametrize("seeds", few(range(14), 24))
def test_free_storage_is_exact_after_squeezing(seeds: range) -> None:
    came, actions = 0, Counter[Action]()
    for seed in seeds:
        rng = random.Random(seed)
        state = standby(any_state(3 * seed + 2), rng)
        movable = np.array([not row.forthcoming for row in state.cluster.instances], np.bool_)
        room = [
            Instance("room", rng.choice((0, 2048, 8192)), 0, (), 1, template=DiskTemplate.EXT)
            for _ in range(2)
        ]
        minimum, target = ([each] * len(state.policies) for each in room)
        found = squeeze.plan(state, minimum, target, movable)
        actions[found.action] += 1
        came += check(state, found.state)
        if found.action is Action.OFFLINE:
            emptied = np.isin(found.state.pnode, found.nodes) & ~state.forthcoming
            assert not emptied.any()
    assert came > 15
    assert min(actions[action] for action in (Action.ONLINE, Action.OFFLINE)) > 1


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seeds", few(range(5), 20))
def test_free_storage_is_exact_during_rolling_maintenance(full: bool, seeds: range) -> None:
    came = 0
    for seed in seeds:
        state = any_state(seed)
        members = ~state.columns.offline
        classes = rolling.node_graph(state, members, offline=False).colourings()["LF"]
        try:
            for _, after in rolling.emptied_together(
                state, classes, Maintenance(full=full), lambda _node: None
            ):
                came += check(state, after)
        except HtoolsError:
            continue
    assert came > 7


@pytest.mark.parametrize("seeds", few(range(5), 20))
def test_free_storage_is_exact_after_lost_nodes(seeds: range) -> None:
    came = 0
    for seed in seeds:
        state = any_state(seed)
        after, up = state.copy(), ~state.columns.offline
        scope = np.ones(len(state.group), np.bool_)
        for node in (seed % len(scope), (seed + 1) % len(scope)):
            for _ in recover(after, node, scope, up, every=True):
                pass
            up[node] = False
        came += check(state, after)
    assert came > 7
