"""A mirrored instance exchanges both its nodes for the best pair of others."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.allocation.exchange import to_best_pair
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

FAILOVER = MovePart(Operation.FAILOVER)


class EventRecorder(Reporter):
    """Keeps why nodes were rejected, and where the instance was when it was tried on pairs."""

    def __init__(self) -> None:
        self.rejected: list[tuple[list[int], str]] = []
        self.tried: list[tuple[int, tuple[int, ...]]] = []

    def rejecting(self, nodes: Ints, why: str) -> None:
        self.rejected.append((nodes.tolist(), why))

    def judged_exchanges(self, state: State, nodes: Ints, trial: Trial) -> None:
        self.tried.append((int(state.pnode[0]), trial.codes.shape))


def state_of(offline: str = "", mem: int = 1_000, **sizes: int) -> State:
    """An instance on a and b; the sizes are memory (MiB) of all nodes, of the others 10,000."""
    here = [
        instance("one", DiskTemplate.DRBD, "a", "b", mem=mem),
        instance("two", DiskTemplate.PLAIN, "d", mem=4_000),
    ]
    made = cluster(dict.fromkeys("abcde", 10_000) | sizes, here)
    return derive(replace(made, nodes=tuple(replace(row, offline=row.name in offline) for row in made.nodes)))


def exchanged(state: State, targets: str, recorder: Reporter) -> list[MovePart]:
    rows = np.array([state.nodes[name] for name in targets], np.int64)
    return to_best_pair(state, state.instance(0), 0, rows, PlacementOptions(), recorder)


@pytest.mark.parametrize(("offline", "first", "tried_on"), [("", [], 0), ("a", [FAILOVER], 1)])
def test_the_new_primary_is_secondary_first(offline: str, first: list[MovePart], tried_on: int) -> None:
    """From a lost primary the instance has failed over before anything else is tried."""
    state, recorder = state_of(offline), EventRecorder()
    parts = exchanged(state, "cde", recorder)
    primary, secondary = int(state.pnode[0]), int(state.snode[0])
    assert {primary, secondary} <= {2, 3, 4}
    assert primary != 3  # where memory is used
    assert parts == [
        *first,
        MovePart(Operation.REPLACE_SECONDARY, primary),
        FAILOVER,
        MovePart(Operation.REPLACE_SECONDARY, secondary),
    ]
    assert recorder.tried == [(tried_on, (3, 3))]
    assert not recorder.rejected


def test_one_node_is_no_pair() -> None:
    recorder = EventRecorder()
    with pytest.raises(
        RequestFailed,
        match=r"^Can't find any good nodes .*: no nodes available; group group1 has only 1 other",
    ):
        exchanged(state_of(), "c", recorder)
    assert recorder.rejected == [([2], "no other node")]


def test_a_secondary_that_cannot_take_over() -> None:
    state, recorder = state_of("a", mem=3_000, b=2_000), EventRecorder()
    why = r"Failing over to the secondary: FailMem; most missing: memory; closest: b lacks 1001 MiB"
    with pytest.raises(RequestFailed, match=rf"Allocation failed: {why}; counted as FailMem: 1$"):
        exchanged(state, "cde", recorder)
    assert recorder.rejected == [([2, 3, 4], "its secondary cannot take over")]
    assert (state.pnode[0], state.snode[0]) == (0, 1)


@pytest.mark.parametrize(
    ("sizes", "step", "closest"),
    [
        ({"c": 2_000, "e": 2_000}, "Changing secondary to new primary", "e"),
        ({"c": 10_000, "e": 2_000}, "Changing secondary to new primary", "e"),
        ({"e": 10_000, "c": 2_000}, "Changing secondary to final secondary", "c"),
    ],
)
def test_reason_is_that_of_the_last_pair(sizes: dict[str, int], step: str, closest: str) -> None:
    """That is e as primary and c as secondary; the state stays as it was. The nearest node follows."""
    state, counted = state_of("", 3_000, **sizes), "counted as FailMem: 2$"
    why = f"Allocation failed: {step}: FailMem; most missing: memory; closest: .* lacks 1001 MiB; {counted}"
    with pytest.raises(RequestFailed, match=why):
        exchanged(state, "ce", EventRecorder())
    assert (state.pnode[0], state.snode[0]) == (0, 1)
