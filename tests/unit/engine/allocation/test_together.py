"""Instances that stay together leave a node for the same one, or the request says why not."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.allocation.evacuate import Evacuation, change_group, evacuate_nodes, relocate_off
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support.by_hand import cluster, instance, node

OPTIONS = PlacementOptions()


def member(
    name: str, template: DiskTemplate, pnode: str, snode: str | None = None, mem: int = 1000
) -> Instance:
    return replace(instance(name, template, pnode, snode, mem), tags=("htools:together:app",))


def ext(mem: int = 1000) -> list[Instance]:
    rows = [member(name, DiskTemplate.EXT, "a", mem=mem) for name in ("one", "two")]
    return [rows[0], instance("between", DiskTemplate.EXT, "a"), rows[1]]


def state_of(rows: list[Instance], others: int = 0, **free: int) -> State:
    made = cluster({"a": 100, "b": 10_000, "c": 10_000, "d": 10_000} | free, rows)
    nodes = (*made.nodes, *(node(f"other{i}", group="uuid-2") for i in range(others)))
    return derive(Cluster((*made.groups, Group("group2", "uuid-2")), nodes, made.instances))


def places(found: Evacuation) -> dict[int, tuple[int, ...]]:
    assert not found.failed
    return {each.instance: each.nodes for each in found.moved}


def test_all_members_leave_for_the_same_node() -> None:
    found = places(evacuate_nodes(state_of(ext()), [0, 1, 2], EvacMode.PRIMARY, OPTIONS))
    assert found[0] == found[2] != found[1]


def test_set_goes_where_all_its_members_fit() -> None:
    """The first member alone would go to the emptiest node by share, which is too small for both."""
    state = state_of(ext(mem=1500), b=2000, c=2000, d=3200)
    found = places(evacuate_nodes(state, [0, 2], EvacMode.PRIMARY, OPTIONS))
    assert state.names(found[0]) == state.names(found[2]) == ["d"]


def test_set_stays_if_no_node_takes_all() -> None:
    state = state_of(ext(mem=1500), b=2000, c=2000, d=2000)
    found = evacuate_nodes(state, [0, 2], EvacMode.PRIMARY, OPTIONS)
    assert not found.moved
    assert "no place for all of one, two, which stay together" in found.failed[0][1]


def test_roomiest_of_many_nodes_are_tried() -> None:
    small = {f"small{i}": 2000 for i in range(60)}
    state = state_of(ext(mem=1500), **small, b=2000, c=3200, d=2000)
    found = places(evacuate_nodes(state, [0, 2], EvacMode.PRIMARY, OPTIONS))
    assert state.names(found[0]) == state.names(found[2]) == ["c"]


@pytest.mark.parametrize("mode", EvacMode)
def test_mirrored_members_share_both_nodes(mode: EvacMode) -> None:
    rows = [member(name, DiskTemplate.DRBD, "a", "b") for name in ("one", "two")]
    found = places(evacuate_nodes(state_of(rows, a=10_000), [0, 1], mode, OPTIONS))
    assert found[0] == found[1]


def test_member_does_not_leave_alone() -> None:
    with pytest.raises(RequestFailed, match="it stays together with two, which the request does not move"):
        relocate_off(state_of(ext()), 0, 1, [0], OPTIONS)


def test_separated_member_leaves_for_its_mates() -> None:
    rows = [member("one", DiskTemplate.EXT, "a"), member("two", DiskTemplate.EXT, "c")]
    state = state_of(rows)
    assert state.names(places(relocate_off(state, 0, 1, [0], OPTIONS))[0]) == ["c"]


def test_set_changes_its_group_together() -> None:
    state = state_of(ext(), others=3)
    found = places(change_group(state, [0, 1, 2], [], OPTIONS))
    assert found[0] == found[2]
    assert {int(state.group[nodes[0]]) for nodes in found.values()} == {1}
