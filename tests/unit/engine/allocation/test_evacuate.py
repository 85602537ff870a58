"""Instances leave nodes and groups, or the reason is reported."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.allocation.evacuate import change_group, evacuate_nodes, relocate_off
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support.by_hand import cluster, instance, node

INSTANCES = [
    instance("drbd", DiskTemplate.DRBD, "a", "b"),
    instance("ext", DiskTemplate.EXT, "a"),
    instance("plain", DiskTemplate.PLAIN, "a"),
]
FAILOVER = MovePart(Operation.FAILOVER)
NO_NODE = "group group1 has no other node that is online and not evacuated"


def state_of(*offline: str, others: int = 0) -> State:
    """Four nodes, all instances on the first; and some of a second group."""
    made = cluster(dict.fromkeys("abcd", 10_000), INSTANCES)
    nodes = [replace(row, offline=row.name in offline) for row in made.nodes]
    nodes += [node(f"other{i}", group="uuid-2") for i in range(others)]
    groups = (*made.groups, Group("group2", "uuid-2"))
    return derive(Cluster(groups, tuple(nodes), made.instances))


def test_a_mirrored_instance_fails_over_off_its_primary() -> None:
    (moved,) = evacuate_nodes(state_of(), [0], EvacMode.PRIMARY, PlacementOptions()).moved
    assert (moved.nodes, moved.parts) == ((1, 0), (FAILOVER,))


def test_a_new_secondary() -> None:
    (moved,) = evacuate_nodes(state_of(), [0], EvacMode.SECONDARY, PlacementOptions()).moved
    assert moved.nodes == (0, 3)
    assert moved.parts == (MovePart(Operation.REPLACE_SECONDARY, 3),)


@pytest.mark.parametrize(("offline", "first"), [((), ()), (("a",), (FAILOVER,))])
def test_off_both_nodes(offline: tuple[str, ...], first: tuple[MovePart, ...]) -> None:
    """From a lost primary the instance fails over first."""
    result = evacuate_nodes(state_of(*offline), [0], EvacMode.ALL, PlacementOptions())
    (moved,) = result.moved
    assert set(moved.nodes) == {2, 3}
    pnode, snode = moved.nodes
    exchange = (
        MovePart(Operation.REPLACE_SECONDARY, pnode),
        FAILOVER,
        MovePart(Operation.REPLACE_SECONDARY, snode),
    )
    assert moved.parts == first + exchange
    assert (int(result.state.pnode[0]), int(result.state.snode[0])) == moved.nodes


def test_reports_failed_instance_and_moves_the_others() -> None:
    before = state_of("c", "d")
    result = evacuate_nodes(before, [0, 1, 2], EvacMode.ALL, PlacementOptions())
    assert [(moved.instance, moved.nodes) for moved in result.moved] == []
    assert dict(result.failed) == {
        0: "Can't find any good nodes for relocation: no nodes available; " + NO_NODE,
        1: "Can't find any good node: " + NO_NODE,
        2: "Instances of type plain cannot be relocated",
    }
    result = evacuate_nodes(before, [1, 2], EvacMode.PRIMARY, PlacementOptions())
    assert [(moved.instance, moved.nodes) for moved in result.moved] == [(1, (1,))]
    assert int(before.pnode[1]) == 0


@pytest.mark.parametrize(
    ("index", "count", "leaving", "why"),
    [
        (0, 2, [1], "Exchange 2 nodes mode is not implemented"),
        (2, 1, [0], "Can't relocate non-mirrored instances"),
        (0, 1, [0], r"Unsupported request: excluded nodes not equal to instance's secondary\(b versus a\)"),
        (1, 1, [1], r"Unsupported request: excluded nodes not equal to instance's primary\(a versus b\)"),
    ],
)
def test_relocations_that_are_refused(index: int, count: int, leaving: list[int], why: str) -> None:
    with pytest.raises(RequestFailed, match=f"^{why}$"):
        relocate_off(state_of(), index, count, leaving, PlacementOptions())


def test_to_another_group() -> None:
    options = PlacementOptions(capacity=False)
    (moved,) = change_group(state_of(others=2), [0], [], options).moved
    assert set(moved.nodes) == {4, 5}
    ((_, why),) = change_group(state_of(others=2), [0], [0], options).failed
    assert why == "no groups for evacuation: allowed groups was []"


def test_change_of_group_names_what_the_groups_lack() -> None:
    sizes = {"a": 10_000, "b": 10_000, "c": 1_500, "d": 1_200}
    made = cluster(sizes, [instance("one", DiskTemplate.EXT, "a", mem=2_000)])
    nodes = (*made.nodes[:2], *(replace(node, group="other") for node in made.nodes[2:]))
    state = derive(replace(made, groups=(*made.groups, Group("other", "other")), nodes=nodes))
    ((_, why),) = change_group(state, [0], [1], PlacementOptions()).failed
    assert why == (
        "Group other (preferred): No valid allocation solutions, failure reasons: FailMem: 2;"
        " most missing: memory; closest: c lacks 501 MiB; counted as FailMem: 2"
    )
