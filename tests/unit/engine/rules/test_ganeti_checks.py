"""Checks that Ganeti makes after a decision: cases by hand, with their messages."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.explaining.explanation import explained
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.engine.maintenance.rolling import Maintenance, reboot_groups
from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.request import Allocate, AllocateSecondary, NodeEvacuate, Placement, Relocate
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support import by_hand

DRBD, PLAIN = DiskTemplate.DRBD, DiskTemplate.PLAIN
VG = StorageType.LVM_VG
OPTIONS = PlacementOptions(capacity=False)
OWN = "has no lvm-vg/xenvg"


def node(name: str, kind: StorageType = VG, **free: int) -> Node:
    """A node with these volume groups; ``kind`` is that of the cluster's own one."""
    units = (Unit(DesiredUnit(kind if key == "xenvg" else VG, key), 9000, mib) for key, mib in free.items())
    return by_hand.node(name, storage=tuple(units))


def cluster(*nodes: Node, instances: tuple[Instance, ...] = ()) -> Cluster:
    default = (DesiredUnit(VG, "xenvg"),)
    empty = by_hand.cluster({}, [])
    return replace(empty, nodes=nodes, instances=instances, default_units=default)


def instance(
    template: DiskTemplate,
    pnode: str = "",
    snode: str | None = None,
    metavg: str | None = None,
    disks: int = 1,
) -> Instance:
    """An instance with disks of 1,024 MiB on ssdvg."""
    row = by_hand.instance("db", template, pnode, snode)
    disk = Disk(1024, unit=DesiredUnit(VG, "ssdvg"), metavg=metavg)
    meta = 128 if template is DRBD else 0
    return replace(row, disks=(disk,) * disks, dsk=(1024 + meta) * disks)


def test_metadata_on_another_unit_needs_room_there() -> None:
    new = instance(DRBD, metavg="xenvg", disks=2)
    request = Allocate(Placement(new, 2, None), None)
    nodes = [node("a", xenvg=500, ssdvg=2305), node("b", xenvg=500, ssdvg=2248)]
    with pytest.raises(RequestFailed) as failed:
        decide(derive(cluster(*nodes), [new]), request, OPTIONS)
    assert "most missing: disk space on lvm-vg/ssdvg; closest: b lacks 57 MiB; counted as" in str(
        failed.value
    )
    state = derive(cluster(nodes[0], node("b", xenvg=500, ssdvg=2305)), [new])
    after = decide(state, request, OPTIONS).state
    # Taken is where it is.
    assert after.columns.f_dsk.tolist() == [500 - 256] * 2
    assert after.to_cluster().nodes[0].storage == node("a", xenvg=500 - 256, ssdvg=257).storage
    (explanation,) = explained(derive(cluster(*nodes), [new]), request, OPTIONS)
    assert {place.lacks for place in explanation.places if place.pnode == 1} == {
        "lacks 57 MiB of disk space on lvm-vg/ssdvg"
    }


@pytest.mark.parametrize(("free", "fits"), [(1152, False), (1153, True)])
def test_checks_the_secondary_of_an_instance_that_becomes_mirrored(free: int, fits: bool) -> None:
    """Its primary has room for the metadata only."""
    here = instance(PLAIN, "a")
    state = derive(cluster(node("a", xenvg=9, ssdvg=129), node("b", xenvg=9, ssdvg=free), instances=(here,)))
    if fits:
        assert decide(state, AllocateSecondary("db"), OPTIONS).state.snode.tolist() == [1]
        return
    with pytest.raises(RequestFailed, match="disk space on lvm-vg/ssdvg; closest: b lacks 1 MiB"):
        decide(state, AllocateSecondary("db"), OPTIONS)


def test_moves_need_exactly_the_space_they_take() -> None:
    here = instance(DRBD, "a", "b", metavg="xenvg")
    targets = node("c", xenvg=500, ssdvg=1025), node("d", xenvg=500, ssdvg=1024)
    rest = node("a", xenvg=9, ssdvg=9), node("b", xenvg=9, ssdvg=9)
    state = derive(cluster(*rest, *targets, instances=(here,)))
    assert decide(state, Relocate("db", 1, ("b",)), OPTIONS).state.snode.tolist() == [2]


def mirrored(kind: StorageType = VG, **facts: object) -> State:
    """An instance on nodes of which the primary lacks the cluster's own volume group, and two more nodes."""
    here = replace(instance(DRBD, "a", "b"), **facts)  # type: ignore[arg-type]
    first = node("a", ssdvg=5000) if kind is VG else node("a", kind, xenvg=9, ssdvg=5000)
    others = [node(name, xenvg=500, ssdvg=5000) for name in "bcd"]
    return derive(cluster(first, *others, instances=(here,)))


@pytest.mark.parametrize("mode", [EvacMode.SECONDARY, EvacMode.ALL])
def test_no_disks_are_copied_from_a_node_without_the_own_group(mode: EvacMode) -> None:
    moved = decide(mirrored(), NodeEvacuate(("db",), mode), OPTIONS).result
    assert not isinstance(moved, tuple)
    [(_, why)] = moved.failed
    assert why.endswith(f"its primary a {OWN}, which Ganeti requires to replace a secondary")
    (explanation,) = explained(mirrored(), NodeEvacuate(("db",), mode), OPTIONS)
    assert [place.why for place in explanation.places if place.why != "has it already"] != []
    assert f"its primary a {OWN}" in {place.why for place in explanation.places}


def test_a_group_for_mirrored_disks_is_that_group() -> None:
    state = mirrored(StorageType.DRBD)
    assert decide(state, Relocate("db", 1, ("b",)), OPTIONS).state.snode[0] in (2, 3)


def test_forthcoming_instance_needs_no_source_of_disks() -> None:
    state = mirrored(forthcoming=True)
    assert decide(state, Relocate("db", 1, ("b",)), OPTIONS).state.snode[0] in (2, 3)


def test_offline_primary_passes_as_source_of_disks() -> None:
    state = mirrored()
    state.columns.offline[0] = True
    assert decide(state, Relocate("db", 1, ("b",)), OPTIONS).state.snode[0] in (2, 3)


def test_a_new_primary_is_copied_from_as_well() -> None:
    """Of the nodes that an instance may go to instead of both its own the first cannot be that."""
    here = instance(DRBD, "a", "b")
    others = [node(name, xenvg=500, ssdvg=5000) for name in "abd"]
    state = derive(cluster(*others[:2], node("c", ssdvg=9000), others[2], instances=(here,)))
    after = decide(state, NodeEvacuate(("db",), EvacMode.ALL), OPTIONS).state
    assert (after.pnode.tolist(), after.snode.tolist()) == ([3], [2])
    (explanation,) = explained(state, NodeEvacuate(("db",), EvacMode.ALL), OPTIONS)
    assert {place.pnode: place.lacks for place in explanation.places}[2] == OWN


def test_balancing_copies_from_the_secondary_only() -> None:
    state, everyone = mirrored(), np.ones(4, np.bool_)
    (moves,) = possible_moves(state, everyone, np.array([True]), BalancingOptions()).values()
    from_secondary = {MoveKind.REPLACE_PRIMARY, MoveKind.FAILOVER_AND_REPLACE}
    assert {move.kind for move in moves if not move.place.why} == {*from_secondary, MoveKind.FAILOVER}
    reasons = {(move.place.why, move.place.lacks) for move in moves if move.place.why}
    assert reasons == {("FailDisk", f"a {OWN}")}
    _, steps = rebalance(state, everyone, BalancingOptions(min_gain=0))
    assert {step.kind for step in steps[:1]} <= {*from_secondary, MoveKind.FAILOVER}


def test_a_node_with_such_a_secondary_is_not_emptied() -> None:
    with pytest.raises(HtoolsError, match="Not enough capacity to move secondaries"):
        reboot_groups(mirrored(), np.ones(4, np.bool_), [[1]], Maintenance(full=True))
    state = mirrored(StorageType.DRBD)
    [group] = reboot_groups(state, np.ones(4, np.bool_), [[1]], Maintenance(full=True))
    assert [each.snode for each in group.relocations] != [NOWHERE]
