"""Outcomes of an allocation in the words of Ganeti's htools."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.allocation.solution import GroupOutcome, Solution
from ganeti_htools.engine.allocation.wording import outcome_line, solution_line
from ganeti_htools.engine.rules import placements
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

STATE = derive(cluster({"a": 10_000, "b": 10_000}, []))
TRIAL = placements.allocate_pairs(
    STATE, STATE.requested_instance(instance("new", DiskTemplate.DRBD, "")), np.array([1]), np.array([0]), 0
)
FOUND = Solution({Fail.DISK: 1, Fail.MEM: 2}, 3, 1.5, TRIAL)


@pytest.mark.parametrize(
    ("metric", "score"),
    [(1.5, "1.50000000"), (math.nan, "NaN"), (math.inf, "Infinity"), (((1, 0), 1024), "([1,0],1024)")],
)
def test_a_place(metric: object, score: str) -> None:
    counts = "successes 3, failures 3 (FailMem: 2, FailDisk: 1) for node(s) b/a"
    assert solution_line(STATE, replace(FOUND, metric=metric)) == f"score: {score}, {counts}"


def test_no_place() -> None:
    line = "No valid allocation solutions, failure reasons: "
    assert solution_line(STATE, Solution({Fail.N1: 4}, 0)) == f"{line}FailN1: 4"
    assert solution_line(STATE, Solution({}, 0)) == f"{line}unknown reasons"


def test_groups() -> None:
    line = solution_line(STATE, FOUND)
    assert outcome_line(STATE, GroupOutcome(0, FOUND), "new") == f"Group group1 (preferred): {line}"
    assert outcome_line(STATE, GroupOutcome(0, error="No online nodes"), "new") == (
        "Group group1: error No online nodes"
    )
    assert outcome_line(STATE, GroupOutcome(0, unconnected=True), "new") == (
        "group group1 is not connected to a network required by instance new"
    )
