"""The simulation of lost nodes makes the same choices as the rule."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.redundancy import assessment as assessments
from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.engine.redundancy.cache import LossCache
from ganeti_htools.engine.redundancy.rule import Means, can_be_lost, recover
from ganeti_htools.engine.redundancy.simulate import LossBatch, Losses, NewInstances, simulated
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support.by_hand import cluster as cluster_of
from tests.support.by_hand import instance
from tests.support.clusters import FEW_MIRRORS, Shape, cluster
from tests.support.seeds import few
from tests.support.text_format import text as text_of

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN


def scarce(seed: int) -> State:
    """A small cluster with little room left."""
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(3, 7),
        instances=rng.randint(10, 40),
        groups=rng.choice((1, 2)),
        templates=rng.choice(FEW_MIRRORS),
        fill=rng.choice((0.5, 0.6, 0.7, 0.85)),
        offline=rng.choice((0, 0, 1)),
        tags=rng.choice(((), ("exclusion", "location"), ("migration",), ("desired",))),
        exclusive_storage=rng.random() < 0.2,
    )
    rows = text.parse(text_of(cluster(seed, shape)), "generated")
    tags = rng.choice(((), (MAINTENANCE,)))
    nodes = (replace(node, tags=(*node.tags, *tags)) if node.offline else node for node in rows.nodes)
    return derive(replace(rows, nodes=tuple(nodes)))


def requested(rng: random.Random, state: State, template: DiskTemplate) -> RequestedInstance:
    row = rng.choice([row for row in state.cluster.instances if not row.forthcoming])
    mem, status = max(64, row.mem // rng.choice((1, 2, 4))), rng.choice((Status.RUNNING, Status.DOWN))
    return state.requested_instance(
        replace(row, name="new", mem=mem, template=template, status=status, snode=None, tags=())
    )


def displaced_nodes(state: State, node: int) -> list[int]:
    """The nodes of instances that do not fail over, by the rule, until one finds no room."""
    found = list(recover(state.copy(), node, np.ones(len(state.group), np.bool_)))
    nodes = [recovery.node for recovery in found if recovery.kind is not Means.FAILOVER]
    return nodes[: nodes.index(NOWHERE) + 1] if NOWHERE in nodes else nodes


def fails_over(state: State, node: int) -> bool:
    found = recover(state.copy(), node, np.ones(len(state.group), np.bool_))
    return not any(recovery.node == NOWHERE for recovery in found if recovery.kind is Means.FAILOVER)


def losses_of(state: State) -> Losses | None:
    """The losses of all nodes whose mirrored instances can fail over."""
    lost = [node for node in range(len(state.group)) if fails_over(state, node)]
    return simulated(state, np.array(lost, np.int64), np.ones(len(state.group), np.bool_), LossCache())


def same(batch: LossBatch, expected: Sequence[list[int]]) -> None:
    for nodes, others in zip(batch.places(), expected, strict=True):
        assert nodes[: len(others)] == others


@pytest.mark.parametrize("seeds", few(range(15), 30))
def test_each_instance_goes_where_the_rule_puts_it(seeds: range) -> None:
    compared = 0
    for seed in seeds:
        state = scarce(seed)
        if (losses := losses_of(state)) is None:
            continue
        compared += len(losses.lost)
        same(
            LossBatch(losses, np.arange(len(losses.lost))),
            [displaced_nodes(state, node) for node in losses.lost.tolist()],
        )
    assert compared > 40


def settled(state: State, asked: RequestedInstance, primary: int, secondary: int) -> State | None:
    """The state with a new instance, None if it does not fit."""
    after, p, s = state.copy(), np.array([primary]), np.array([secondary])
    if secondary == NOWHERE:
        trial = placements.allocate_one(after, asked, p, np.ones(len(state.group), np.bool_), force=True)
    else:
        trial = placements.allocate_pairs(after, asked, p, s, after.peers[p, s], force=True)
    if trial.codes[0] != FITS:
        return None
    settling.settle(after, trial)
    return after


@pytest.mark.parametrize("template", [PLAIN, EXT, DRBD])
@pytest.mark.parametrize("seeds", few(range(5), 10))
def test_a_new_instance_counts_as_if_it_had_been_there(template: DiskTemplate, seeds: range) -> None:
    compared = 0
    for seed in seeds:
        state, rng = scarce(seed), random.Random(seed)
        if (losses := losses_of(state)) is None:
            continue
        asked, rows = requested(rng, state, template), range(len(state.group))
        if state.columns.excl_stor.any() and asked.spindles is None:
            continue
        for _ in range(3):
            primary, secondary = rng.sample(rows, 2)
            if template is not DRBD:
                secondary = NOWHERE
            elif state.group[primary] != state.group[secondary]:
                continue
            after = settled(state, asked, primary, secondary)
            if after is None:
                continue
            nodes = [at for at, node in enumerate(losses.lost.tolist()) if fails_over(after, node)]
            batch = LossBatch(losses, np.array(nodes, np.int64))
            number = len(nodes)
            batch.place(NewInstances.of(asked, np.full(number, primary), secondary))
            same(batch, [displaced_nodes(after, node) for node in losses.lost[nodes].tolist()])
            compared += number
    assert compared > 25


def assessed(state: State) -> Assessment:
    return assess(state, np.ones(len(state.group), np.bool_), PlacementOptions())


@pytest.mark.parametrize("seeds", few(range(8), 16))
def test_instances_in_turn_survive_as_long_as_the_rule_says(
    monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    compared = 0
    for seed in seeds:
        rng, state = random.Random(seed), scarce(seed)
        monkeypatch.setattr(assessments, "FIGURES", rng.choice((1, 1 << 17)))
        assessment, everyone = assessed(state), range(len(state.group))
        asked = requested(rng, state, rng.choice((PLAIN, EXT)))
        if not assessment.holds() or not assessment.can_batch(asked):
            continue
        after, primaries, redundant = state, [], 0
        for number in range(4):
            primary = rng.choice(everyone)
            placed = settled(after, asked, primary, NOWHERE)
            if placed is None:
                break
            after = placed
            primaries.append(primary)
            scope = np.ones(len(state.group), np.bool_)
            if redundant == number:
                redundant += all(can_be_lost(after, node, scope) for node in everyone)
        if primaries:
            found = assessment.survives_in_turn(asked, primaries)
            assert found <= redundant
            assert found == redundant or state.columns.excl_stor.any()
            compared += 1
    assert compared > 2


@pytest.mark.parametrize("seeds", few(range(10), 20))
def test_sizes_of_one_batch_are_simulated_as_each_alone(seeds: range) -> None:
    compared = 0
    for seed in seeds:
        state, rng = scarce(seed), random.Random(seed)
        assessment, rows = assessed(state), range(len(state.group))
        if assessment.bounds.some_fatal:
            continue
        row = requested(rng, state, rng.choice((DRBD, EXT))).row
        sizes = [
            state.requested_instance(replace(row, mem=row.mem * number, dsk=row.dsk // number))
            for number in (1, 2, 7)
        ]
        which: Ints = np.array([rng.randrange(3) for _ in range(12)])
        pairs = np.array([rng.sample(rows, 2) for _ in which])
        secondaries = pairs[:, 1] if row.template is DRBD else np.full(len(which), NOWHERE)
        assessment.cache.suspects = list(rows)[:3]
        new = NewInstances(sizes, which, pairs[:, 0], secondaries)
        found = assessment.refuted(new)
        alone = [
            assessment.refuted(NewInstances.of(sizes[size], p, s))[0]
            for size, p, s in zip(which.tolist(), pairs[:, 0].tolist(), secondaries.tolist(), strict=True)
        ]
        assert found.tolist() == alone
        compared += 1
    assert compared > 5


def test_of_equal_nodes_the_last_takes_it() -> None:
    described = cluster_of(dict.fromkeys("abcd", 10_000), [instance("old", EXT, "a", mem=1_000)])
    state = derive(described)
    losses = losses_of(state)
    assert losses is not None
    batch = LossBatch(losses, np.array([0, 1]))
    batch.place(NewInstances.of(state.requested_instance(instance("new", EXT, "", mem=1_000)), [1, 1]))
    assert batch.places() == [[3], [3]]


def test_without_instances_every_loss_is_survived() -> None:
    state = derive(text.parse(text_of(cluster(1, Shape(nodes=3, instances=0))), "generated"))
    losses = losses_of(state)
    assert losses is not None
    assert LossBatch(losses, np.arange(3)).survived().all()
