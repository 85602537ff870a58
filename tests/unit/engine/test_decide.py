"""Decisions of each type of request; the state stays unchanged."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.decide import Decision, decide
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import (
    Allocate,
    AllocateSecondary,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Placement,
    Relocate,
    Request,
)
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support.by_hand import cluster, instance
from tests.support.worlds import ANY, grouped

OPTIONS = PlacementOptions(capacity=False)
NEW = Placement(instance("new", DiskTemplate.PLAIN, ""), 1, None)
LARGE = Placement(instance("large", DiskTemplate.PLAIN, "", mem=20_000), 1, None)
REQUESTS: list[Request] = [
    Allocate(NEW, None),
    MultiAllocate((NEW,)),
    AllocateSecondary("plain"),
    Relocate("drbd", 1, ("b",)),
    NodeEvacuate(("drbd",), EvacMode.PRIMARY),
]


def state_of() -> State:
    here = [instance("drbd", DiskTemplate.DRBD, "a", "b"), instance("plain", DiskTemplate.PLAIN, "a")]
    asked = (NEW.instance, LARGE.instance)
    return derive(cluster(dict.fromkeys("abc", 10_000), here), asked)


class EventRecorder(Reporter):
    """What came of each instance that is recorder of."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, ...]] = []
        self.reasons: list[str] = []

    def placed(self, nodes: object) -> None:
        self.nodes.append(tuple(nodes))  # type: ignore[arg-type]

    def failed(self, why: str) -> None:
        self.reasons.append(why)


def chosen(decision: Decision) -> list[tuple[int, ...]]:
    result = decision.result
    return [each.nodes for each in (result.moved if isinstance(result, Evacuation) else result)]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_decision_has_the_nodes_and_leaves_the_state(request_: Request) -> None:
    state, recorder = state_of(), EventRecorder()
    before = state.columns.unallocated.copy(), state.pnode.copy(), state.snode.copy()
    decision = decide(state, request_, OPTIONS, recorder)
    (nodes,) = recorder.nodes
    assert not recorder.reasons
    ours = [nodes[1:]] if isinstance(request_, AllocateSecondary) else [nodes]
    assert chosen(decision) == ours
    assert decision.state is not state
    after = state.columns.unallocated, state.pnode, state.snode
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))


def test_one_of_several_has_no_place_in_its_group() -> None:
    state, recorder = state_of(), EventRecorder()
    here = Placement(LARGE.instance, 1, "group1")
    decision = decide(state, MultiAllocate((here, NEW)), OPTIONS, recorder)
    assert [bool(nodes) for nodes in chosen(decision)] == [False, True]
    assert recorder.nodes == chosen(decision)[1:]
    assert recorder.reasons == [decision.result[0].info]  # type: ignore[index]


def test_only_the_nodes_that_the_request_names_unless_the_options_do() -> None:
    state = state_of()
    assert chosen(decide(state, Allocate(NEW, ("b",)), OPTIONS)) == [(1,)]
    assert chosen(
        decide(state, Allocate(NEW, ("b",)), PlacementOptions(capacity=False, restrict_to=("a",)))
    ) == [(0,)]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            Allocate(LARGE, None),
            "^Group group1 .*: No valid .*, failure reasons: FailMem: 3",
        ),
        (AllocateSecondary("drbd"), "^Instance already has a secondary$"),
        (Relocate("plain", 1, ("a",)), "^Can't relocate non-mirrored instances$"),
        (ChangeGroup(("drbd",), ("nowhere",)), "^Couldn't find group with name or UUID nowhere$"),
    ],
)
def test_explains_why_no_place_is_found(request_: Request, why: str) -> None:
    with pytest.raises(RequestFailed, match=why):
        decide(state_of(), request_, OPTIONS)


@pytest.mark.parametrize(
    ("enabled", "name", "refused"),
    [
        (None, "new", False),
        ((DiskTemplate.DRBD, DiskTemplate.PLAIN), "new", False),
        ((DiskTemplate.DRBD, DiskTemplate.EXT), "new", True),
        ((DiskTemplate.DRBD,), "plain", False),  # disks made anew
    ],
)
def test_new_instances_have_templates_that_the_cluster_enables(
    enabled: tuple[DiskTemplate, ...] | None, name: str, refused: bool
) -> None:
    here = state_of().cluster
    state, placement = (
        derive(replace(here, enabled_templates=enabled)),
        Placement(replace(NEW.instance, name=name), 1),
    )
    grouped = replace(placement, group="group1")
    if refused:
        why = "^Disk template plain is not enabled; the cluster enables drbd, ext$"
        for request in (Allocate(placement), MultiAllocate((placement,))):
            with pytest.raises(RequestFailed, match=why):
                decide(state, request, OPTIONS)
        recorder = EventRecorder()
        assert chosen(decide(state, MultiAllocate((grouped,)), OPTIONS, recorder)) == [()]
        assert recorder.reasons == [why[1:-1]]
    else:
        assert chosen(decide(state, MultiAllocate((placement,)), OPTIONS))[0]


def test_existing_instances_move_whatever_templates_are_enabled() -> None:
    state = derive(replace(state_of().cluster, enabled_templates=()))
    for request in REQUESTS[2:]:
        assert all(chosen(decide(state, request, OPTIONS)))


def test_an_existing_instance_gets_new_disks_in_its_group() -> None:
    rows = grouped().cluster
    rows = replace(rows, groups=tuple(replace(group, ipolicy=ANY) for group in rows.groups))
    there = next(row for row in rows.instances if row.name == "stuck")
    for name, group in ((there.name, rows.nodes[0].group), ("new", "uuid-2")):
        wanted = Placement(replace(there, name=name, pnode=""), 1)
        state = derive(rows, (wanted.instance,))
        ((node,),) = chosen(decide(state, Allocate(wanted), OPTIONS))
        assert rows.nodes[node].group == group
