"""On exclusive storage an instance goes where it costs the fewest later ones."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.engine.allocation.allocate import in_group
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import DEFAULT_IPOLICY, IPolicy, ISpec, MinMax
from ganeti_htools.model.request import Allocate, AllocateSecondary, MultiAllocate, Placement, Request
from ganeti_htools.model.state import State
from ganeti_htools.model.types import AllocPolicy, DiskTemplate
from tests.support.by_hand import cluster, instance, node

GIB = 1024
SMALLEST = ISpec(memory_size=1000, cpu_count=1, disk_size=GIB, disk_count=1, nic_count=0, spindle_use=1)
LARGEST = ISpec(64_000, 8, 64 * GIB, 16, 8, 16)
POLICY: IPolicy = replace(DEFAULT_IPOLICY, minmax=(MinMax(SMALLEST, LARGEST),))


def state_of(*, memory: dict[str, int], disks: dict[str, int], excl_stor: bool = True) -> State:
    """Empty nodes with that memory and free disk (MiB), in a group whose smallest instance has 1000 MiB."""
    made: Cluster = cluster(memory, [], excl_stor=excl_stor)
    nodes = tuple(
        replace(node, t_dsk=float(disks[node.name]), f_dsk=disks[node.name], f_spindles=64)
        for node in made.nodes
    )
    return derive(replace(made, nodes=nodes, groups=(replace(made.groups[0], ipolicy=POLICY),)))


def placed(state: State, count: int = 1, mem: int = 1000) -> tuple[tuple[str, ...], Any]:
    """The nodes that were chosen, and by what: later instances lost for each interval, and disk left."""
    template = DiskTemplate.PLAIN if count == 1 else DiskTemplate.DRBD
    new = replace(instance("new", template, "", mem=mem), disks=(Disk(GIB, spindles=1),))
    asked = state.requested_instance(new)
    found = in_group(state, asked, count, 0, PlacementOptions(), dedicated=True).solution
    assert found is not None
    return tuple(state.names(found.nodes)), found.metric


def test_the_fewest_later_instances_are_lost() -> None:
    """b has memory for three small instances, afterwards for none; on a the disk is the limit."""
    state = state_of(memory={"a": 9_000, "b": 3_500}, disks={"a": 3 * GIB, "b": 90 * GIB})
    assert placed(state, mem=3_000) == (("a",), ((1,), 2 * GIB))


def test_of_equal_losses_the_node_with_least_disk_left_wins_and_then_the_last() -> None:
    roomy = dict.fromkeys("abc", 3_500)
    assert placed(state_of(memory=roomy, disks={"a": 90 * GIB, "b": 80 * GIB, "c": 90 * GIB}))[0] == ("b",)
    assert placed(state_of(memory=roomy, disks=dict.fromkeys("abc", 90 * GIB)))[0] == ("c",)


def test_a_mirrored_instance_takes_two_nodes() -> None:
    found, _ = placed(state_of(memory=dict.fromkeys("ab", 9_000), disks=dict.fromkeys("ab", 90 * GIB)), 2)
    assert sorted(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("nodes", "count", "problem"),
    [
        ({}, 1, "No online nodes"),
        ({"a": 9_000}, 2, "Not enough online nodes"),
        ({"a": 9_000}, 3, "Unsupported number of nodes, only one or two  supported"),
    ],
)
def test_refuses_instance_without_place(nodes: dict[str, int], count: int, problem: str) -> None:
    state = state_of(memory=nodes, disks=dict.fromkeys(nodes, GIB))
    asked = state.requested_instance(instance("new", DiskTemplate.PLAIN, ""))
    with pytest.raises(RequestFailed, match=problem):
        in_group(state, asked, count, 0, PlacementOptions(), dedicated=True)


def wish(group: str | None = None) -> Placement:
    return Placement(instance("new", DiskTemplate.PLAIN, ""), 1, group)


def test_dedicated_when_all_counted_nodes_have_exclusive_storage() -> None:
    memory, disks = {"a": 9_000}, {"a": GIB}
    assert is_dedicated(state_of(memory=memory, disks=disks), Allocate(wish()))
    shared = state_of(memory=memory, disks=disks, excl_stor=False)
    assert not is_dedicated(shared, Allocate(wish()))
    assert not is_dedicated(shared, Allocate(wish("group1")))
    groups = (replace(shared.cluster.groups[0], alloc_policy=AllocPolicy.UNALLOCABLE),)
    unallocable = derive(replace(shared.cluster, groups=groups))
    assert is_dedicated(unallocable, Allocate(wish()))  # nothing is allocated there


@pytest.mark.parametrize(
    ("request_", "dedicated"),
    [
        (MultiAllocate((wish("group1"), wish())), True),
        (MultiAllocate((wish("group1"), wish("group2"))), False),
        (Allocate(wish("group2")), False),
        (AllocateSecondary("old"), False),
    ],
)
def test_the_group_that_a_request_names_counts(request_: Request, dedicated: bool) -> None:
    """The nodes of the first group have exclusive storage, those of the second do not."""
    made = state_of(memory={"a": 9_000}, disks={"a": GIB}).cluster
    groups = (*made.groups, Group("group2", "uuid-2"))
    state = derive(replace(made, groups=groups, nodes=(*made.nodes, node("b", group="uuid-2"))))
    assert is_dedicated(state, request_) is dedicated
