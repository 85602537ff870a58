"""The quicker simulation of a lost node says what the rule itself says."""

import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ganeti_htools.backends import text
from ganeti_htools.engine.redundancy import nodes_left
from ganeti_htools.engine.redundancy.arrivals import Arrivals, need_of
from ganeti_htools.engine.redundancy.loss_simulation import Displaced, LossSimulation
from ganeti_htools.engine.redundancy.lost_nodes import lost_node
from ganeti_htools.engine.redundancy.node_loss import Means, can_be_lost, failed_over, recover
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.clusters import FEW_MIRRORS, Shape, cluster
from tests.support.text_format import text as text_of


def scarce(seed: int) -> State:
    """A small cluster with little room left."""
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(3, 7),
        instances=rng.randint(10, 40),
        groups=rng.choice((1, 2)),
        templates=rng.choice(FEW_MIRRORS),
        fill=rng.choice((0.6, 0.7, 0.85)),
        offline=rng.choice((0, 0, 1)),
        tags=rng.choice(((), ("exclusion", "location"), ("migration",), ("desired",))),
        exclusive_storage=rng.random() < 0.2,
    )
    return derive(text.parse(text_of(cluster(seed, shape)), "generated"))


@pytest.mark.parametrize("seed", range(40))
def test_simulations_agree_where_room_is_scarce(seed: int) -> None:
    state = scarce(seed)
    everyone, known = np.ones(len(state.group), np.bool_), Arrivals()
    for node in range(len(state.group)):
        for scope in (everyone, state.group == state.group[node]):
            assert can_be_lost(state, node, scope, known) == can_be_lost(state, node, scope)


@pytest.mark.parametrize("many", [2, nodes_left.MANY])
@pytest.mark.parametrize("seed", range(25))
def test_one_more_instance_is_as_if_it_had_been_there(
    seed: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_left, "MANY", many)
    state, rng = scarce(seed), random.Random(seed)
    everyone, known, rows = np.ones(len(state.group), np.bool_), Arrivals(), np.arange(len(state.group))
    template = rng.choice((DiskTemplate.PLAIN, DiskTemplate.EXT))
    row = rng.choice([each for each in state.cluster.instances if not each.forthcoming])
    mem = row.mem // rng.choice((1, 2))
    asked = state.requested_instance(
        replace(row, name="new", mem=mem, template=template, snode=None, tags=())
    )
    trial = placements.allocate_one(state, asked, rows, everyone, force=True)
    for node in rows.tolist():
        lost = failed_over(state, node, everyone, known)
        for primary in np.flatnonzero(trial.codes == FITS).tolist():
            together = None if lost is None else lost.placed(asked, [primary])
            if together is None or together.nodes.mem[primary] <= 0:
                continue
            placed = state.copy()
            settling.settle(placed, trial.only(primary))
            others = [
                each.node for each in recover(placed, node, everyone) if each.kind is not Means.FAILOVER
            ]
            assert together.survived() is (NOWHERE not in others)
            assert lost is not None
            assert lost.survived_with(asked, primary) is together.survived()
            until = others.index(NOWHERE) + 1 if NOWHERE in others else len(others)
            assert list(together.places(together.own_nodes())) == others[:until]


@pytest.mark.parametrize("seed", range(40))
def test_one_more_mirrored_instance_is_as_if_it_had_been_there(seed: int) -> None:
    state, rng = scarce(seed), random.Random(seed)
    everyone, known, rows = np.ones(len(state.group), np.bool_), Arrivals(), np.arange(len(state.group))
    row = rng.choice([each for each in state.cluster.instances if not each.forthcoming])
    mem = max(64, row.mem // rng.choice((1, 2, 4)))
    asked = state.requested_instance(replace(row, name="new", mem=mem, template=DiskTemplate.DRBD, tags=()))
    p, s = np.nonzero(~np.eye(len(rows), dtype=np.bool_) & (state.group[:, np.newaxis] == state.group))
    trial = placements.allocate_pairs(state, asked, p, s, state.peers[p, s], force=True)
    fits = np.flatnonzero(trial.codes == FITS).tolist()
    for node in rows.tolist():
        lost = failed_over(state, node, everyone, known)
        for at in rng.sample(fits, min(len(fits), 6)):
            pair = int(p[at]), int(s[at])
            placed = state.copy()
            settling.settle(placed, trial.only(at))
            found = list(recover(placed.copy(), node, everyone))
            if any(each.kind is Means.FAILOVER and each.node == NOWHERE for each in found):
                continue
            together = None if lost is None else lost.mirrored(asked, *pair)
            if lost is None or together is None:
                assert state.columns.excl_stor.any()
                continue
            others = [each.node for each in found if each.kind is not Means.FAILOVER]
            until = others.index(NOWHERE) + 1 if NOWHERE in others else len(others)
            assert list(together.places(together.nodes.copy())) == others[:until]
            assert lost.survived_with(asked, *pair) is (NOWHERE not in others)
            settled = failed_over(placed, node, everyone, known)
            assert settled is not None
            same = settled.nodes.mem, settled.nodes.disk, settled.nodes.number, settled.reserved
            assert (together.nodes.mem, together.nodes.disk, together.nodes.number, together.reserved) == same
            assert together.nodes.failing == settled.nodes.failing
            assert np.array_equal(together.peers, settled.peers)
            assert np.array(together.nodes.values) == pytest.approx(np.array(settled.nodes.values))


@pytest.mark.parametrize("seed", range(8))
def test_instances_learnt_together_change_what_each_changes_alone(seed: int) -> None:
    state, rng = scarce(seed), random.Random(seed)
    row, score = state.cluster.instances[0], nodes_left.Nodes(state, exclusive=False).score
    for template in (DiskTemplate.DRBD, DiskTemplate.PLAIN):
        several = [
            state.requested_instance(
                replace(row, mem=rng.randint(64, 999), dsk=size, disks=(Disk(size, 1),), template=template)
            )
            for size in (1024, 2048, 2048)
        ]
        together = Arrivals()
        together.learn(state, several, score)
        for asked, need in zip(several, map(need_of, several), strict=True):
            found, alone = (each.of(state, asked, need, score) for each in (together, Arrivals()))
            assert np.array_equal(found.table, alone.table)
            assert (found.counts, found.allowed) == (alone.counts, alone.allowed)
            if asked.mirrored:
                mirrors = (each.mirror_of(state, asked, need, score) for each in (together, Arrivals()))
                assert all(map(np.array_equal, *mirrors))


def all_placed_in_any_way(instances: Sequence[Displaced], mem: list[int], disk: list[int]) -> bool:
    """Whether all find room, wherever each goes."""
    if not instances:
        return True
    each, *others = instances
    room = [at for at in each.targets if mem[at] > each.mem and (each.disk is None or disk[at] > each.disk)]
    return bool(room) and all(
        all_placed_in_any_way(
            others,
            [free - each.mem * (which == at) for which, free in enumerate(mem)],
            [free - (each.disk or 0) * (which == at) for which, free in enumerate(disk)],
        )
        for at in room
    )


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.none() | st.integers(1, 4), st.sets(st.integers(0, 3))), max_size=5
    ),
    st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), min_size=4, max_size=4),
)
@example([(4, 1, {2, 3}), (1, 4, {2, 3}), (1, 1, {2, 3})], [(5, 20), (20, 5), (0, 0), (0, 0)])
def test_what_is_surely_placed_finds_room_wherever_others_go(
    wanted: list[tuple[int, int | None, set[int]]], free: list[tuple[int, int]]
) -> None:
    unused: Any = None
    instances = [
        Displaced(unused, unused, mem, disk, sorted({0, 1, 2, 3} - barred)) for mem, disk, barred in wanted
    ]
    lost: Any = SimpleNamespace(instances=instances, exclusive=None)
    mem, disk = ([each[which] for each in free] for which in (0, 1))
    sure = LossSimulation._surely_placed(lost, mem, disk, 0)
    assert all_placed_in_any_way(instances[:sure], mem, disk)


def test_nothing_is_left_to_do_without_instances() -> None:
    state = derive(text.parse(text_of(cluster(1, Shape(nodes=3, instances=0))), "generated"))
    lost = lost_node(Arrivals(), state, 0, [], np.ones(3, np.bool_))
    assert lost is not None
    assert lost.survived()
