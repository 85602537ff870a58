"""The parts of a move, each carried out in place."""

import pytest

from ganeti_htools.engine.allocation.move_parts import carry_out, fail_over
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance


class EventRecorder(Reporter):
    """Keeps the nodes that were judged."""

    def __init__(self) -> None:
        self.nodes: list[list[int]] = []

    def judged(self, nodes: Ints, trial: Trial, redundancy: Check | None = None) -> None:
        self.nodes.append(nodes.tolist())


def state_of(snode: int = 10_000) -> State:
    """An instance of 3000 MiB on a, with its copy on b; c is empty."""
    one = instance("one", DiskTemplate.DRBD, "a", "b", mem=3_000)
    return derive(cluster({"a": 10_000, "b": snode, "c": 10_000}, [one]))


@pytest.mark.parametrize(
    ("template", "operation"),
    [(DiskTemplate.EXT, Operation.FAILOVER_TO), (DiskTemplate.PLAIN, Operation.MOVE)],
)
def test_a_part_of_an_instance_without_secondary(template: DiskTemplate, operation: Operation) -> None:
    one = instance("one", template, "a", mem=3_000)
    state = derive(cluster({"a": 10_000, "b": 10_000}, [one]))
    carry_out(state, state.instance(0), MovePart(operation, 1), PlacementOptions())
    assert nodes(state) == (1, NOWHERE)
    assert state.columns.unallocated.tolist() == [10_000, 7_000]


def nodes(state: State) -> tuple[int, int]:
    return int(state.pnode[0]), int(state.snode[0])


def test_a_failover_exchanges_the_roles() -> None:
    state, recorder = state_of(), EventRecorder()
    fail_over(state, state.instance(0), PlacementOptions(), recorder)
    assert nodes(state) == (1, 0)
    assert state.columns.unallocated.tolist() == [10_000, 7_000, 10_000]
    assert recorder.nodes == [[1]]


def test_a_failover_that_is_not_possible_changes_nothing() -> None:
    state, recorder = state_of(snode=2_000), EventRecorder()
    with pytest.raises(
        RequestFailed,
        match=r"^FailMem; most missing: memory; closest: b lacks 1001 MiB; counted as FailMem: 1$",
    ):
        fail_over(state, state.instance(0), PlacementOptions(), recorder)
    assert nodes(state) == (0, 1)
    assert recorder.nodes == [[1]]


@pytest.mark.parametrize(
    ("part", "expected"),
    [(MovePart(Operation.FAILOVER), (1, 0)), (MovePart(Operation.REPLACE_SECONDARY, 2), (0, 2))],
)
def test_a_part_is_carried_out(part: MovePart, expected: tuple[int, int]) -> None:
    state = state_of()
    carry_out(state, state.instance(0), part, PlacementOptions())
    assert nodes(state) == expected
    assert state.peers[expected] == 3_000  # what the secondary keeps free
    assert state.peers.sum() == 3_000
