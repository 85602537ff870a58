"""Evacuation into other groups: never worse than within the group, and no other group breaks."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.engine.allocation.allocate import lacks_network
from ganeti_htools.engine.allocation.evacuate import Evacuation, evacuate_nodes, nodes_to_leave
from ganeti_htools.engine.allocation.move_parts import carry_out
from ganeti_htools.engine.groups.evacuation import evacuate_over_groups
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.columns import Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import NodeEvacuate
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import NO_INTERGROUP
from ganeti_htools.model.types import AllocPolicy, EvacMode
from tests.support import messages
from tests.support.clusters import MOVABLE, Shape, cluster
from tests.support.seeds import few

OPTIONS = PlacementOptions()


def asked(seed: int) -> tuple[State, list[int], EvacMode]:
    """A cluster of some groups, and a node to be evacuated in a crowded one."""
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.choice((9, 12)),
        instances=rng.randint(20, 60),
        groups=3,
        templates=rng.choice(({"drbd": 1}, {"ext": 1}, MOVABLE, {"plain": 1, "drbd": 2, "ext": 2})),
        fill=rng.choice((0.4, 0.7, 0.85)),
        offline=rng.choice((0, 0, 1)),
        tags=rng.choice(((), (), ("migration",))),
        policies=rng.random() < 0.3,
        networks=rng.random() < 0.5,
    )
    data: Any = cluster(seed, shape)
    node = rng.choice(list(data["nodes"]))
    mode = rng.choice(("primary-only", "secondary-only", "all"))
    request = messages.node_evacuate(data, node, mode)
    message = iallocator.read(messages.encode(messages.message(data, request)).encode())
    assert isinstance(message.request, NodeEvacuate)
    home = next(row.group for row in message.cluster.nodes if row.name == node)
    nodes = [
        replace(row, f_mem=min(row.f_mem, rng.choice((0, 500)))) if row.group == home else row
        for row in message.cluster.nodes
    ]
    policies = (
        AllocPolicy.PREFERRED,
        AllocPolicy.PREFERRED,
        AllocPolicy.LAST_RESORT,
        AllocPolicy.UNALLOCABLE,
    )
    groups = [
        replace(
            row,
            alloc_policy=rng.choice(policies),
            tags=(*row.tags, NO_INTERGROUP) if rng.random() < 0.1 else row.tags,
        )
        for row in message.cluster.groups
    ]
    crowded = replace(message.cluster, nodes=tuple(nodes), groups=tuple(groups))
    names = {row.name: number for number, row in enumerate(crowded.instances)}
    return derive(crowded), [names[name] for name in message.request.instances], EvacMode(mode)


def retraced(state: State, moves: tuple[Move, ...]) -> State:
    """The state after the parts of these moves, one after the other."""
    state = state.copy()
    for moved in moves:
        for part in moved.parts:
            carry_out(state, state.instance(moved.instance), part, OPTIONS)
        nodes = [int(state.pnode[moved.instance]), int(state.snode[moved.instance])]
        assert tuple(nodes[: len(moved.nodes)]) == moved.nodes
    return state


def checked(state: State, rows: list[int], mode: EvacMode, result: Evacuation) -> None:
    usual = evacuate_nodes(state, rows, mode, OPTIONS)
    stuck = dict(usual.failed)
    assert result.moved[: len(usual.moved)] == usual.moved
    elsewhere = result.moved[len(usual.moved) :]
    assert [(each.instance, stuck[each.instance]) for each in elsewhere] == list(result.left)
    assert sorted(stuck) == sorted(index for index, _ in (*result.left, *result.failed))
    after = retraced(state, result.moved)
    for name in ("pnode", "snode"):
        assert getattr(after, name).tolist() == getattr(result.state, name).tolist()
    for column, expected, found in zip(Columns._fields, after.columns, result.state.columns, strict=True):
        assert np.array_equal(expected, found), column
    groups = state.cluster.groups
    closed = set(state.group[nodes_to_leave(state, rows, mode)].tolist())
    for moved in elsewhere:
        target, home = state.group[[moved.nodes[0], state.pnode[moved.instance]]].tolist()
        assert {int(state.group[row]) for row in moved.nodes} == {target}
        assert target not in closed
        assert groups[target].alloc_policy is not AllocPolicy.UNALLOCABLE
        for tags in (groups[target].tags, groups[home].tags):
            assert NO_INTERGROUP not in tags
        assert not lacks_network(state, target, state.instance(moved.instance))
        assert not any(state.columns.offline[row] for row in moved.nodes)
    everyone = np.ones(len(state.pnode), np.bool_)
    others = frozenset(state.group.tolist()) - closed
    then, now = (Regrouping(each, RegroupingRules(everyone, others)) for each in (state, result.state))
    for group in others:
        assert not now.diagnosis(group).worse_than(then.diagnosis(group))
    for index, _ in result.failed:
        movable = mode is not EvacMode.SECONDARY or state.instance(index).mirrored
        if movable and now.obstacle(index) is None:
            assert now.after_leaving_group(index) is None


@pytest.mark.parametrize("seeds", few(range(12), 50))
def test_instances_leave_their_group_only_without_a_place(seeds: range) -> None:
    left = failed = 0
    for seed in seeds:
        state, rows, mode = asked(seed)
        result = evacuate_over_groups(state, rows, mode, OPTIONS)
        checked(state, rows, mode, result)
        left += len(result.left)
        failed += len(result.failed)
    assert left > 10
    assert failed > 10
