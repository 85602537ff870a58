"""Losses after each of several instances, tried in one go, end as each of them by itself."""

import random
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.redundancy import losses_in_turn
from ganeti_htools.engine.redundancy.arrivals import Arrivals
from ganeti_htools.engine.redundancy.global_n1 import assess
from ganeti_htools.engine.redundancy.losses_in_turn import (
    comparable,
    recovered,
    survived_in_turn,
    survived_with_pairs,
)
from ganeti_htools.engine.redundancy.node_loss import can_be_lost, failed_over
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support.by_hand import cluster as cluster_of
from tests.support.by_hand import instance
from tests.support.clusters import FEW_MIRRORS, Shape, cluster
from tests.support.text_format import text as text_of

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN


def roomy(seed: int, **facts: object) -> State:
    """A small cluster on which a node or two can be lost, but not many more instances placed."""
    rng = random.Random(seed)
    shape = {
        "nodes": rng.randint(4, 7),
        "instances": rng.randint(5, 20),
        "groups": rng.choice((1, 2)),
        "templates": rng.choice(FEW_MIRRORS),
        "fill": rng.choice((0.4, 0.6, 0.7)),
        "offline": rng.choice((0, 0, 1)),
        "tags": rng.choice(((), ("exclusion",), ("desired",), ("exclusion", "desired"), ("migration",))),
        "exclusive_storage": rng.random() < 0.2,
    }
    return derive(text.parse(text_of(cluster(seed, Shape(**(shape | facts)))), "generated"))  # type: ignore[arg-type]


def any_asked(rng: random.Random, state: State) -> RequestedInstance:
    """A new instance that has a primary only."""
    template = rng.choice((PLAIN, EXT))
    row = rng.choice([each for each in state.cluster.instances if not each.forthcoming])
    mem = max(64, row.mem // rng.choice((1, 2, 4, 8)))
    return state.requested_instance(replace(row, name="new", mem=mem, template=template, snode=None, tags=()))


@pytest.mark.parametrize("seed", range(60))
def test_all_at_once_is_one_after_the_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, state = random.Random(seed), roomy(seed)
    monkeypatch.setattr(losses_in_turn, "BATCH", rng.choice((1, 1 << 17)))
    everyone, known, rows = np.ones(len(state.group), np.bool_), Arrivals(), range(len(state.group))
    asked = any_asked(rng, state)
    found = (failed_over(state, node, everyone, known) for node in rows)
    lost = [each for each in found if each is not None and each.survived()]
    if not lost or not comparable(lost) or (state.columns.excl_stor.any() and asked.local):
        return
    primaries = rng.choices(rows, k=12)
    came = np.cumsum(np.eye(len(rows), dtype=np.int64)[primaries], axis=0)
    failed = len(primaries)
    for which, step, nodes in recovered(lost, asked, came):
        together = lost[which].placed(asked, primaries[: step + 1])
        assert together is not None
        expected = list(together.places(together.own_nodes()))
        assert nodes[: len(expected)] == expected
        if NOWHERE in expected:
            failed = min(failed, step)
    assert survived_in_turn(lost, asked, primaries) == failed


@pytest.mark.parametrize("seed", range(60))
def test_what_is_foreseen_is_what_trying_says(seed: int) -> None:
    rng, plain = random.Random(seed), seed % 2
    facts: dict[str, object] = {"tags": (), "templates": rng.choice(FEW_MIRRORS[:-1])} if plain else {}
    state = roomy(seed, offline=0, **facts)
    everyone, rows = np.ones(len(state.group), np.bool_), range(len(state.group))
    redundancy, asked, primaries = assess(state, everyone, PlacementOptions()), any_asked(rng, state), []
    if not redundancy.foresees(asked):
        assert state.columns.excl_stor.any()
        return
    after, redundant = state.copy(), 0
    for number in range(8):
        trials = (
            placements.allocate_one(after, asked, np.array([node]), everyone) for node in rng.sample(rows, 3)
        )
        trial = next((each for each in trials if each.codes[0] == FITS), None)
        if trial is None:
            break
        settling.settle(after, trial)
        primaries.append(int(trial.pnode[0]))
        if redundant == number:
            redundant += all(can_be_lost(after, node, everyone) for node in rows)
    if primaries:
        foreseen = redundancy.bears_in_turn(asked, primaries)
        exactly = plain and not state.columns.excl_stor.any()
        assert foreseen == redundant if exactly else foreseen <= redundant


@pytest.mark.parametrize("seed", range(60))
def test_all_pairs_at_once_are_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, state = random.Random(seed), roomy(seed)
    monkeypatch.setattr(losses_in_turn, "BATCH", rng.choice((1, 1 << 17)))
    everyone, known, rows = np.ones(len(state.group), np.bool_), Arrivals(), range(len(state.group))
    row = replace(any_asked(rng, state).row, template=DRBD, status=rng.choice((Status.RUNNING, Status.DOWN)))
    sizes = [
        state.requested_instance(replace(row, mem=row.mem * number, dsk=row.dsk // number))
        for number in (1, 2, 7)
    ]
    pairs = np.array([(*rng.sample(rows, 2), rng.randrange(3)) for _ in range(20)])
    for node in rows:
        lost = failed_over(state, node, everyone, known)
        if lost is None or not comparable([lost]):
            continue
        found = survived_with_pairs(lost, sizes, pairs[:, 2], pairs[:, 0], pairs[:, 1]).tolist()
        for (primary, secondary, size), survived in zip(pairs.tolist(), found, strict=True):
            alone = lost.survived_with(sizes[size], primary, secondary)
            assert survived is alone or (alone is None and state.columns.excl_stor.any())


def test_memory_for_failovers_is_left_alone() -> None:
    described = cluster_of(
        {"a": 10_000, "b": 10_000, "c": 10_000}, [instance("old", DRBD, "a", "b", mem=6_000)]
    )
    redundancy = assess(derive(described), np.ones(3, np.bool_), PlacementOptions())
    asked = redundancy.state.requested_instance(instance("new", EXT, "", mem=1_000))
    assert redundancy.bears_in_turn(asked, [1, 1, 2]) == 3
    assert redundancy.bears_in_turn(asked, [1, 1, 2, 1, 1]) == 0  # b has to keep 6,000 MiB


def test_of_equal_nodes_the_last_takes_it() -> None:
    described = cluster_of(dict.fromkeys("abcd", 10_000), [instance("old", EXT, "a", mem=1_000)])
    state = derive(described)
    everyone = np.ones(4, np.bool_)
    lost = [failed_over(state, node, everyone, Arrivals()) for node in range(2)]
    assert lost[0] is not None
    assert lost[1] is not None
    asked = state.requested_instance(instance("new", EXT, "", mem=1_000))
    found = {each.lost: each.nodes for each in recovered([lost[0], lost[1]], asked, np.array([[0, 1, 0, 0]]))}
    assert found == {0: [3], 1: [3]}
