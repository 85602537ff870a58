"""A reporter collects explanations: a place for each node, and the chosen nodes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.explaining.explanation import Explanation, ExplanationCollector, explained
from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.columns import NOWHERE
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
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, EvacMode
from tests.support.by_hand import cluster, instance, node

OPTIONS = PlacementOptions(capacity=False)
INSTANCES = [
    instance("drbd", DiskTemplate.DRBD, "a", "b"),
    instance("ext", DiskTemplate.EXT, "a"),
    instance("plain", DiskTemplate.PLAIN, "a"),
]


def new(template: DiskTemplate, mem: int = 1000, group: str | None = None) -> Placement:
    return Placement(instance("new", template, "", mem=mem), template.required_nodes, group)


def state_of(
    *placements: Placement, offline: str = "", policy: AllocPolicy = AllocPolicy.PREFERRED, **facts: Any
) -> State:
    """Nodes a to d with all instances on the first, and two of another group."""
    made = cluster(dict.fromkeys("abcd", 10_000), INSTANCES, **facts)
    nodes = [replace(row, offline=row.name in offline) for row in made.nodes]
    nodes += [node(name, group="uuid-2", **facts) for name in "ef"]
    groups = (*made.groups, Group("group2", "uuid-2", policy))
    return derive(Cluster(groups, tuple(nodes), made.instances), [each.instance for each in placements])


def one(state: State, request: Request, options: PlacementOptions = OPTIONS) -> Explanation:
    (found,) = explained(state, request, options)
    return found


def reasons(found: Explanation) -> dict[int, str]:
    """The reasons against nodes: the only figures that differ between places."""
    return {place.snode if place.snode != NOWHERE else place.pnode: place.why for place in found.places}


def test_each_node_for_a_new_instance() -> None:
    placement = new(DiskTemplate.PLAIN)
    state = state_of(placement, offline="c", policy=AllocPolicy.UNALLOCABLE)
    found = one(state, Allocate(placement, None), replace(OPTIONS, restrict_to=tuple("abce")))
    why = ["", "", "offline", "not to be used", "group is unallocable", "not to be used"]
    assert list(reasons(found).values()) == why
    assert [place.pnode for place in found.places] == list(range(6))
    best = min((place for place in found.places if not place.why), key=lambda place: place.score)
    assert found.nodes == (best.pnode,) == (1,)


def test_only_the_group_that_is_named() -> None:
    placement = new(DiskTemplate.DRBD, group="group2")
    found = one(state_of(placement), Allocate(placement, None))
    assert [(place.pnode, place.snode) for place in found.places] == [(4, 5), (5, 4)]
    assert found.nodes in [(4, 5), (5, 4)]


def test_a_pair_for_each_primary() -> None:
    placement = new(DiskTemplate.DRBD)
    state = state_of(placement, offline="bc")
    found = one(state, Allocate(placement, None), replace(OPTIONS, restrict_to=("a", "e", "f")))
    explained_places = [(place.pnode, place.snode, place.why) for place in found.places]
    assert explained_places == [
        (0, NOWHERE, "no other node"),
        (1, NOWHERE, "offline"),
        (2, NOWHERE, "offline"),
        (3, NOWHERE, "not to be used"),
        (4, 5, ""),
        (5, 4, ""),
    ]


def test_explains_instances_after_one_without_place() -> None:
    large, small = new(DiskTemplate.PLAIN, mem=20_000), new(DiskTemplate.PLAIN)
    small = replace(small, instance=replace(small.instance, name="small"))
    first, second = explained(state_of(large, small), MultiAllocate((large, small)), OPTIONS)
    assert (first.nodes, second.why) == ((), "")
    assert set(reasons(first).values()) == {"FailMem"}
    assert first.why.startswith("Group group1 (preferred): No valid allocation solutions")
    assert second.nodes


def test_explains_secondaries_for_the_present_primary() -> None:
    found = one(state_of(), AllocateSecondary("plain"))
    assert {place.pnode for place in found.places} == {0}
    assert reasons(found) == {1: "", 2: "", 3: "", 4: "in another group", 5: "in another group"}
    assert found.nodes[0] == 0


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Relocate("drbd", 1, ("b",)), ["has it already", "has it already", "", "offline"]),
        (Relocate("ext", 1, ("a",)), ["has it already", "", "", "offline"]),
        (
            NodeEvacuate(("drbd",), EvacMode.ALL),
            ["has it already", "has it already", "no other node", "offline"],
        ),
    ],
)
def test_nodes_for_an_instance_that_stays_in_its_group(request_: Request, expected: list[str]) -> None:
    found = one(state_of(offline="d"), request_)
    assert list(reasons(found).values()) == [*expected, "in another group", "in another group"]
    assert bool(found.nodes) == ("" in expected)


def test_a_failover_has_one_place() -> None:
    found = one(state_of(), NodeEvacuate(("drbd",), EvacMode.PRIMARY))
    assert [(place.pnode, place.snode, place.why) for place in found.places] == [(1, 0, "")]
    assert found.nodes == (1, 0)


def test_an_instance_that_cannot_move_has_no_places() -> None:
    found = one(state_of(), NodeEvacuate(("plain",), EvacMode.PRIMARY))
    assert (found.places, found.nodes) == ((), ())
    assert found.why == "Instances of type plain cannot be relocated"


def test_explains_only_the_choice_of_the_group() -> None:
    found = one(state_of(), ChangeGroup(("drbd",), ()))
    assert [place.pnode for place in found.places] == [4, 5]
    assert set(found.nodes) == {4, 5}
    assert one(state_of(), ChangeGroup(("drbd",), ("group1",))).places == ()


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (AllocateSecondary("drbd"), "Instance already has a secondary"),
        (Relocate("plain", 1, ("a",)), "Can't relocate non-mirrored instances"),
    ],
)
def test_raises_when_nothing_can_be_tried(request_: Request, why: str) -> None:
    with pytest.raises(RequestFailed, match=f"^{why}$"):
        next(explained(state_of(), request_, OPTIONS))


def exclusive(template: DiskTemplate, group: str | None = None) -> Placement:
    """A new instance that says how many spindles it needs."""
    placement = new(template, group=group)
    return replace(placement, instance=replace(placement.instance, disks=(Disk(1024, spindles=1),)))


def test_on_exclusive_storage_lost_allocations_decide() -> None:
    """Nodes b and c are alike, so the last one is chosen; on a memory is used, so it loses as much there."""
    placement = exclusive(DiskTemplate.PLAIN)
    state = state_of(
        placement, offline="d", policy=AllocPolicy.UNALLOCABLE, excl_stor=True, t_spindles=64, f_spindles=64
    )
    found = one(state, Allocate(placement, None))
    assert found.before is None
    why = ["", "", "", "offline", "group is unallocable", "group is unallocable"]
    assert list(reasons(found).values()) == why
    assert found.nodes == (2,)
    assert min(place.rank for place in found.places if not place.why) == found.places[2].rank
    assert found.places[2].disk == 900_000 - 1024
    assert found.places[1].rank == found.places[2].rank


def test_each_primary_with_its_best_secondary_on_exclusive_storage() -> None:
    placement = exclusive(DiskTemplate.DRBD, "group2")
    state = state_of(placement, excl_stor=True, t_spindles=64, f_spindles=64)
    found = one(state, Allocate(placement, None))
    assert [(place.pnode, place.snode, place.why) for place in found.places] == [(4, 5, ""), (5, 4, "")]
    assert found.nodes == (5, 4)
    large = replace(placement, instance=replace(placement.instance, mem=20_000))
    found = one(state, MultiAllocate((large,)))
    assert [(place.snode, place.why) for place in found.places] == [(NOWHERE, "FailMem")] * 2
    assert (found.nodes, bool(found.why)) == ((), True)


def test_nothing_to_pair_with_on_exclusive_storage() -> None:
    placement = exclusive(DiskTemplate.DRBD, "group1")
    state = state_of(placement, offline="bcd", excl_stor=True, t_spindles=64, f_spindles=64)
    found = one(state, Allocate(placement, None))
    assert list(reasons(found).values()) == ["no other node", "offline", "offline", "offline"]
    assert found.why == "Not enough online nodes"


def test_explains_the_chosen_pair_when_no_score_is_a_number() -> None:
    placement = new(DiskTemplate.DRBD, group="group1")
    made = state_of().cluster
    nodes = tuple(replace(row, t_mem=0.0) if row.name == "c" else row for row in made.nodes)
    state = derive(replace(made, nodes=nodes), [placement.instance])
    found = one(state, Allocate(placement, None))
    assert found.before is not None
    assert np.isnan(float(found.before.score()))
    assert found.nodes == (3, 0)
    assert found.nodes in [(place.pnode, place.snode) for place in found.places]


def test_collector_explains_a_decision_in_progress() -> None:
    state, listener = state_of(), ExplanationCollector(one_group=True)
    decide(state, NodeEvacuate(("drbd", "ext"), EvacMode.PRIMARY), OPTIONS, listener)
    assert [each.asked.row.name for each in listener.explanations] == ["drbd", "ext"]
