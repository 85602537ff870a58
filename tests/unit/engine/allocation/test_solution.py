"""Counts of the results of trying candidates."""

import numpy as np
import pytest

from ganeti_htools.engine.allocation.solution import Solution, count_failures, last_lowest
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance


@pytest.fixture
def state() -> State:
    return derive(cluster({"a": 10_000, "b": 10_000, "c": 10_000}, []))


def solution(state: State, template: DiskTemplate) -> Solution:
    """One of three places was chosen: the node b, with the secondary c if the instance is mirrored."""
    asked, everywhere = state.requested_instance(instance("new", template, "")), np.ones(3, np.bool_)
    if template is DiskTemplate.DRBD:
        trial = placements.allocate_pairs(state, asked, np.array([1]), np.array([2]), np.zeros(1, np.int64))
    else:
        trial = placements.allocate_one(state, asked, np.array([1]), everywhere)
    return Solution({Fail.MEM: 1}, 2, 0.0, trial)


def test_reasons_are_counted() -> None:
    codes = np.array([FITS, CODE[Fail.MEM], CODE[Fail.MEM], CODE[Fail.DISK]], np.int8)
    assert count_failures(codes, 0) == {Fail.MEM: 2, Fail.DISK: 1}
    assert count_failures(codes, 3) == {Fail.MEM: 2, Fail.DISK: 1, Fail.N1: 3}


def test_of_equal_scores_the_last_counts() -> None:
    assert last_lowest(np.array([2.0, 1.0, 1.0, 3.0])) == 2


def test_nodes_are_primary_first(state: State) -> None:
    assert Solution({Fail.MEM: 3}, 0).nodes == ()
    assert solution(state, DiskTemplate.EXT).nodes == (1,)
    assert solution(state, DiskTemplate.DRBD).nodes == (1, 2)
