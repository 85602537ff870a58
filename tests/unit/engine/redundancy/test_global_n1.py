"""What is known of redundancy before anything is placed, and what a placement makes of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.redundancy.global_n1 import Redundancy, assess
from ganeti_htools.engine.redundancy.node_loss import failed_over
from ganeti_htools.engine.redundancy.unmirrored import Unmirrored
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN
# Of three nodes with 10,000 MiB each, one can be lost, but not once the empty one has less than 6,001 MiB.
TIGHT = [instance(f"on-{name}", EXT, name, mem=6_000) for name in "ab"]


def known(instances: Sequence[Instance], options: PlacementOptions | None = None) -> Redundancy:
    state = derive(cluster(dict.fromkeys("abc", 10_000), instances))
    return assess(state, np.ones(len(state.group), np.bool_), options or PlacementOptions())


def on_each(state: State, new: Instance) -> Trial:
    """A new instance on each node."""
    rows = np.arange(len(state.group))
    return placements.allocate_one(state, state.requested_instance(new), rows, np.ones(len(rows), np.bool_))


def test_without_a_mirror_what_is_on_a_node_is_lost_with_it() -> None:
    assert known([instance("old", DRBD, "a")]).missing
    assert known([instance("old", DRBD, "a", "b")]).holds()
    redundancy, rows = known([]), np.arange(3)
    new = redundancy.state.requested_instance(instance("new", DRBD, ""))
    assert not redundancy.admits(new, rows, None).any()
    assert redundancy.admits(new, rows, rows).all()


def test_a_secondary_needs_memory_for_all_that_one_node_leaves_to_it() -> None:
    redundancy = known([instance("old", DRBD, "a", "b", mem=6_000)])
    rows = np.arange(3)
    new = redundancy.state.requested_instance(instance("new", DRBD, "", mem=4_000))
    admitted = redundancy.admits(new, rows, rows)
    assert not admitted[0, 1]
    assert admitted[0, 2]
    assert not admitted[1].any()  # b has to keep 6,000 MiB


@pytest.mark.parametrize(("mirrored", "admitted"), [("default", [False, False, True]), ("own", [True] * 3)])
def test_spindles_are_missed_by_mirrored_instances_on_the_default_unit(
    mirrored: str, admitted: list[bool]
) -> None:
    kind = StorageType.DRBD if mirrored == "own" else StorageType.LVM_VG
    units = (DesiredUnit(StorageType.LVM_VG, "xenvg"), DesiredUnit(kind, "xenvg"))
    storage = tuple(Unit(unit, 900_000, 900_000) for unit in dict.fromkeys(units))
    old = replace(instance("old", DRBD, "a", "b"), disks=(Disk(1024, 1),))
    described = cluster(
        dict.fromkeys("abc", 10_000), [old], storage=storage, excl_stor=True, f_spindles=1, t_spindles=2
    )
    state = derive(described)
    redundancy = assess(state, np.ones(3, np.bool_), PlacementOptions())
    new = state.requested_instance(replace(instance("new", EXT, ""), disks=(Disk(1024, 2),)))
    assert redundancy.admits(new, np.arange(3), None).tolist() == admitted


def test_sums_settle_what_has_plenty_of_room() -> None:
    assert known([]).unsettled().tolist() == []
    assert known([instance("old", EXT, "a")]).unsettled().tolist() == []
    redundancy = known([instance("old", EXT, name, mem=9_900) for name in "abc"])
    assert redundancy.broken.tolist() == [True, True, True]
    assert redundancy.fragile().tolist() == [True, True, True]


def test_a_place_is_confirmed_if_each_node_can_still_be_lost() -> None:
    redundancy = known(TIGHT)
    assert redundancy.holds()
    trial = on_each(redundancy.state, instance("new", EXT, "", mem=3_000))
    suspects: list[int] = []
    assert [redundancy.confirms(trial.only(at), suspects) for at in range(3)] == [True, True, True]
    trial = on_each(redundancy.state, instance("new", EXT, "", mem=4_000))
    assert not redundancy.confirms(trial.only(2), suspects)
    assert suspects[0] == 2  # there is an instance more that needs room
    assert not redundancy.hopeless(suspects)
    assert redundancy.rejects(trial.asked, 2, suspects)
    assert redundancy.rules_out(
        redundancy.state.requested_instance(instance("new", EXT, "", mem=9_000)), np.arange(3), None
    )


def test_lost_nodes_stay_known_with_an_instance_more() -> None:
    redundancy = known(TIGHT)
    redundancy.lost[0] = failed_over(redundancy.state, 0, redundancy.scope, redundancy.arrivals)
    redundancy.lost[1] = None
    trial = on_each(redundancy.state, instance("new", EXT, "", mem=4_000))
    settling.settle(redundancy.state, trial.only(2))
    after = redundancy.after(trial.asked, [(2, NOWHERE)])
    assert after is not None
    assert after.free.tolist() == [4_000, 4_000, 6_000]
    assert after.displaced.number.tolist() == [1, 1, 1]
    assert list(after.lost) == [0, 1]
    assert after.lost[1] is None
    known_node = after.lost[0]
    assert known_node is not None
    assert known_node.nodes.mem == [4_000, 4_000, 6_000]
    assert not known_node.survived()


def test_lost_nodes_stay_known_with_a_mirrored_instance_more() -> None:
    redundancy = known([*TIGHT, instance("old", DRBD, "c", "a", mem=1_000)])
    redundancy.lost[0] = failed_over(redundancy.state, 0, redundancy.scope, redundancy.arrivals)
    state, pair = redundancy.state, (np.array([1]), np.array([2]))
    asked = state.requested_instance(instance("new", DRBD, "", mem=500))
    trial = placements.allocate_pairs(state, asked, *pair, state.peers[pair])
    settling.settle(state, trial)
    after = redundancy.after(asked, [(1, 2)])
    assert after is not None
    anew = assess(state, redundancy.scope, PlacementOptions())
    assert np.array_equal(after.load, anew.load)
    assert np.array_equal(after.pairs, anew.pairs)
    assert np.array_equal(after.mirrored, anew.mirrored)
    assert np.array_equal(after.free, anew.free)
    assert not after.missing
    assert after.redundant() is anew.redundant() is True
    known_node, again = after.lost[0], failed_over(state, 0, redundancy.scope, redundancy.arrivals)
    assert known_node is not None
    assert again is not None
    assert known_node.nodes.mem == again.nodes.mem
    assert known_node.reserved == again.reserved


def test_what_one_lost_node_leaves_is_not_what_another_does_once_an_instance_fails_over() -> None:
    redundancy = known(TIGHT)
    assert redundancy._lost(0) is not None
    state, pair = redundancy.state, (np.array([0]), np.array([2]))
    trial = placements.allocate_pairs(
        state, state.requested_instance(instance("new", DRBD, "", mem=500)), *pair, 0
    )
    settling.settle(state, trial)
    after = redundancy.after(trial.asked, [(0, 2)])
    assert after is not None
    first, second = after._lost(0), after._lost(1)
    assert first is not None
    assert second is not None
    assert first.nodes.mem == [4_000, 4_000, 9_500]
    assert second.nodes.mem == [3_500, 4_000, 10_000]


@pytest.mark.parametrize("accept", [False, True])
def test_offline_nodes_count_unless_existing_errors_are_accepted(accept: bool) -> None:
    described = cluster(dict.fromkeys("abc", 10_000), [instance("old", DRBD, "a")], offline=True)
    state = derive(described)
    redundancy = assess(state, np.ones(3, np.bool_), PlacementOptions(accept_existing=accept))
    assert redundancy.missing is not accept


def test_an_instance_that_only_gets_a_secondary_is_what_it_was() -> None:
    rows = np.arange(3)
    check = Unmirrored(known([instance("old", PLAIN, "a")]))
    asked = check.before.state.requested_instance(instance("new", DRBD, ""))
    assert check.admits(asked, rows, rows).all()
    broken = Unmirrored(known([instance("old", DRBD, "a")]))
    assert not broken.admits(asked, rows, rows).any()
    assert broken.before.state.snode[0] == NOWHERE
