"""Placements tried on all candidates at once."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

MIRRORED = instance("mirrored", DiskTemplate.DRBD, "a", "b", mem=2000)
SHARED = instance("shared", DiskTemplate.EXT, "c", mem=500)


@pytest.fixture
def state() -> State:
    """Of the four nodes the last has little memory."""
    return derive(cluster({"a": 10_000, "b": 10_000, "c": 10_000, "d": 800}, [MIRRORED, SHARED]))


@pytest.fixture
def scope() -> Bools:
    return np.ones(4, np.bool_)


def memory(trial: Trial, candidate: int) -> dict[int, tuple[int, int]]:
    """What a candidate changes: for each node the memory of its primaries, and what it keeps free (MiB)."""
    changes = trial.only(candidate).changes
    return {int(node.rows[0]): (int(node.new.i_mem[0]), int(np.ravel(node.new.r_mem)[0])) for node in changes}


def test_a_new_instance(state: State, scope: Bools) -> None:
    asked = state.ask(replace(SHARED, name="new", pnode="", mem=1000))
    trial = placements.allocate_one(state, asked, np.arange(4), scope)
    assert trial.codes.tolist() == [FITS, FITS, FITS, CODE[Fail.MEM]]
    assert memory(trial, 2) == {2: (1500, 0)}


def test_a_new_mirrored_instance(state: State) -> None:
    asked = state.ask(replace(MIRRORED, name="new", pnode="", snode=None, mem=1000))
    p, s = np.array([0, 0, 3]), np.array([1, 3, 2])
    trial = placements.allocate_pairs(state, asked, p, s, state.peers[p, s])
    assert trial.codes.tolist() == [FITS, CODE[Fail.MEM], CODE[Fail.MEM]]
    assert memory(trial, 0) == {0: (3000, 0), 1: (0, 3000)}  # for two instances of the same primary


def test_failing_over(state: State, scope: Bools) -> None:
    trial = placements.failover(state, state.instance(0), scope)
    assert (trial.codes.tolist(), trial.pnode.tolist(), trial.snode.tolist()) == ([FITS], [1], [0])
    assert memory(trial, 0) == {0: (0, 2000), 1: (2000, 0)}


def test_failing_over_to_any_node(state: State, scope: Bools) -> None:
    trial = placements.failover_to(state, state.instance(1), np.array([0, 3]), scope)
    assert trial.codes.tolist() == [FITS, FITS]
    assert memory(trial, 1) == {2: (0, 0), 3: (500, 0)}


def test_replacing_the_secondary(state: State) -> None:
    trial = placements.replace_secondary(state, state.instance(0), np.array([2, 3]))
    assert trial.codes.tolist() == [FITS, CODE[Fail.MEM]]
    assert memory(trial, 0) == {0: (2000, 0), 1: (0, 0), 2: (500, 2000)}


def test_what_remains_reserved_once_a_secondary_is_gone(state: State) -> None:
    assert placements.reserved_without(state, 1, 0, state.instance(0)) == 0
    assert placements.reserved_without(state, 1, 0, state.ask(replace(MIRRORED, forthcoming=True))) == 2000
