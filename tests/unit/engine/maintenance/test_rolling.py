from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Maintenance, RebootGroup, Relocation
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, PLAIN, EXT = DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT
PARTLY = Maintenance()


def state_of(instances: Sequence[Instance], mem: int = 10_000, count: int = 4) -> State:
    sizes = {f"n{number}": mem for number in range(count)}
    return derive(by_hand.cluster(sizes, instances))


def all_of(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def grouped(
    state: State,
    maintenance: Maintenance = PARTLY,
    members: Bools | None = None,
    offline: bool = False,
) -> list[RebootGroup]:
    members = all_of(state) if members is None else members
    classes = min(rolling.node_graph(state, members, offline).colourings().values(), key=len)
    return rolling.reboot_groups(state, members, classes, maintenance)


def nodes_of(groups: Sequence[RebootGroup]) -> list[tuple[int, ...]]:
    return [group.nodes for group in groups]


def test_without_nodes_there_is_no_graph() -> None:
    with pytest.raises(HtoolsError, match="Cannot create node graph"):
        rolling.node_graph(state_of([]), np.zeros(4, np.bool_), False)


def test_a_class_is_divided_until_its_unmirrored_instances_find_room() -> None:
    # Two of these fit on a node, so of four nodes two can be emptied at once.
    state = state_of([instance(f"i{n}", EXT, f"n{n}", mem=4500) for n in range(4)])
    groups = grouped(state)
    assert nodes_of(groups) == [(0, 1), (2, 3)]
    assert groups[0].relocations == (Relocation(0, 2, NOWHERE), Relocation(1, 3, NOWHERE))
    for group in groups:
        assert {move.instance for move in group.relocations} == set(group.nodes)
        assert not {move.pnode for move in group.relocations} & set(group.nodes)


def test_unmirrored_instances_can_be_left_alone() -> None:
    state = state_of([instance(f"i{n}", PLAIN, f"n{n}", mem=9000) for n in range(4)])
    with pytest.raises(HtoolsError, match="Not enough capacity to move non-redundant instances") as refused:
        grouped(state)
    assert refused.value.hint == (
        "instance i0 finds no room outside n0: most missing: memory; closest: n1 lacks 8001 MiB;"
        " --ignore-non-redundant lets such instances stay"
    )
    assert grouped(state, Maintenance(ignore_alone=True)) == [RebootGroup((0, 1, 2, 3), ())]


def test_names_the_storage_unit_that_only_the_node_of_an_instance_has() -> None:
    """Its source knows units, as the daemon does. Without them any node has room."""
    made = simu.parse(["p,1,9g,64g,4;lvm-vg,ssdvg,5000", "p,3,9g,64g,4"])
    uuid, disk = made.groups[0].uuid, Disk(100, 1, DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    nodes = tuple(replace(node, group=uuid) for node in made.nodes)
    row = replace(instance("a", PLAIN, nodes[0].name), disks=(disk,))
    known = replace(made, groups=made.groups[:1], nodes=nodes, instances=(row,))
    with pytest.raises(HtoolsError, match="Not enough capacity") as refused:
        grouped(derive(known))
    lacks = f"disk space on lvm-vg/ssdvg; {nodes[1].name} has no lvm-vg/ssdvg"
    assert lacks in refused.value.hint
    plain = replace(known, nodes=tuple(replace(node, storage=None) for node in nodes), default_units=())
    assert sorted(node for group in grouped(derive(plain)) for node in group.nodes) == [0, 1, 2, 3]


def test_migrated_instances_are_not_told_unless_secondaries_move_too() -> None:
    state = state_of([instance("a", DRBD, "n0", "n1")])
    assert all(not group.relocations for group in grouped(state))
    full = grouped(state, Maintenance(full=True))
    assert sorted(node for group in full for node in group.nodes) == [0, 1, 2, 3]
    for group in full:
        for move in group.relocations:
            assert not {move.pnode, move.snode} & set(group.nodes)
    # Its primary goes down: it migrates and gets a new mirror; its secondary: only the latter.
    moves = {move.pnode: group.nodes for group in full for move in group.relocations}
    assert 0 in moves[1]
    assert 1 in moves[0]


def test_secondaries_need_room_elsewhere() -> None:
    state = state_of([instance("a", DRBD, "n0", "n1")], count=2)
    assert nodes_of(grouped(state)) == [(0,), (1,)]
    with pytest.raises(HtoolsError, match="Not enough capacity to move secondaries") as refused:
        grouped(state, Maintenance(full=True))
    expected = "instance a finds no room outside n0: no other node is online"
    assert refused.value.hint == f"{expected}; without --full-evacuation they stay"


def test_instances_that_cannot_migrate_are_told() -> None:
    state = state_of([instance("a", DRBD, "n0", "n1", mem=6000), instance("b", PLAIN, "n1", mem=6000)])
    with pytest.raises(HtoolsError, match="Failed to migrate instances off nodes") as refused:
        grouped(state, Maintenance(ignore_alone=True, full=True))
    lacks = "memory; closest: n1 lacks 2001 MiB"
    assert refused.value.hint == f"instance a cannot fail over: most missing: {lacks}"


def test_nothing_goes_to_an_offline_node_or_another_group() -> None:
    state = state_of([instance("a", EXT, "n0")], count=2)
    state.columns.offline[1] = True
    with pytest.raises(HtoolsError, match="Not enough capacity"):
        grouped(state)
    state.columns.offline[1] = False
    state.group = np.array([0, 1])
    with pytest.raises(HtoolsError, match="Not enough capacity"):
        grouped(state)


def test_the_state_stays_what_it_was() -> None:
    state = state_of([instance(f"i{n}", EXT, f"n{n}", mem=4500) for n in range(4)])
    before = state.to_cluster()
    grouped(state, Maintenance(full=True))
    assert state.to_cluster() == before
