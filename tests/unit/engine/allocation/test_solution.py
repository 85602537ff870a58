"""What came of trying candidates, counted and in the words of Ganeti's htools."""

import math

import numpy as np
import pytest

from ganeti_htools.engine.allocation.solution import GroupOutcome, Solution, counted, last_lowest
from ganeti_htools.engine.allocation.wording import outcome_line, solution_line
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

NONE_FITS = Solution({Fail.DISK: 1, Fail.MEM: 2}, 0)


@pytest.fixture
def state() -> State:
    return derive(cluster({"a": 10_000, "b": 10_000, "c": 10_000}, []))


def solution(state: State, template: DiskTemplate, metric: object) -> Solution:
    """One of three places was chosen: the node b, with the secondary c if the instance is mirrored."""
    asked, everywhere = state.ask(instance("new", template, "")), np.ones(3, np.bool_)
    if template is DiskTemplate.DRBD:
        trial = placements.allocate_pairs(state, asked, np.array([1]), np.array([2]), np.zeros(1, np.int64))
    else:
        trial = placements.allocate_one(state, asked, np.array([1]), everywhere)
    return Solution({Fail.MEM: 1}, 2, metric, trial)


def test_reasons_are_counted() -> None:
    codes = np.array([FITS, CODE[Fail.MEM], CODE[Fail.MEM], CODE[Fail.DISK]], np.int8)
    assert counted(codes, 0) == {Fail.MEM: 2, Fail.DISK: 1}
    assert counted(codes, 3) == {Fail.MEM: 2, Fail.DISK: 1, Fail.N1: 3}


def test_of_equal_scores_the_last_counts() -> None:
    assert last_lowest(np.array([2.0, 1.0, 1.0, 3.0])) == 2


def test_nodes_are_told_primary_first(state: State) -> None:
    assert NONE_FITS.nodes == ()
    assert solution(state, DiskTemplate.EXT, 0.0).nodes == (1,)
    assert solution(state, DiskTemplate.DRBD, 0.0).nodes == (1, 2)


@pytest.mark.parametrize(
    ("metric", "told"),
    [(0.5, "0.50000000"), (math.nan, "NaN"), (math.inf, "Infinity"), (((3, 0), 512), "([3,0],512)")],
)
def test_a_place_in_words(state: State, metric: object, told: str) -> None:
    rest = "successes 2, failures 1 (FailMem: 1) for node(s)"
    assert solution_line(state, solution(state, DiskTemplate.EXT, metric)) == f"score: {told}, {rest} b"
    assert solution_line(state, solution(state, DiskTemplate.DRBD, metric)).endswith(f"{rest} b/c")


def test_no_place_in_words(state: State) -> None:
    """Reasons come in the order in which Ganeti lists them."""
    start = "No valid allocation solutions, failure reasons: "
    assert solution_line(state, NONE_FITS) == f"{start}FailMem: 2, FailDisk: 1"
    assert solution_line(state, Solution({}, 0)) == f"{start}unknown reasons"


def test_what_came_of_a_group_in_words(state: State) -> None:
    told = outcome_line(state, GroupOutcome(0, NONE_FITS), "new")
    assert told == f"Group group1 (preferred): {solution_line(state, NONE_FITS)}"
    assert outcome_line(state, GroupOutcome(0, error="No online nodes"), "new") == (
        "Group group1: error No online nodes"
    )
    assert outcome_line(state, GroupOutcome(0, unconnected=True), "new") == (
        "group group1 is not connected to a network required by instance new"
    )
