"""Assessments of redundancy: what holds before anything is placed, and with new instances."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.engine.redundancy.checks import NoLossCheck, SecondaryCheck
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.engine.redundancy.simulate import NewInstances
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN
# Of three nodes with 10,000 MiB each, one can be lost, but not once the empty one has less than 6,001 MiB.
TIGHT = [instance(f"on-{name}", EXT, name, mem=6_000) for name in "ab"]


def assessed(instances: Sequence[Instance], options: PlacementOptions | None = None) -> Assessment:
    state = derive(cluster(dict.fromkeys("abc", 10_000), instances))
    return assess(state, np.ones(len(state.group), np.bool_), options or PlacementOptions())


def test_refuses_drbd_without_secondary() -> None:
    assert assessed([instance("old", DRBD, "a")]).bounds.some_fatal
    assert assessed([instance("old", DRBD, "a", "b")]).holds()
    assessment, rows = assessed([]), np.arange(3)
    new = assessment.state.requested_instance(instance("new", DRBD, ""))
    assert not assessment.admissible(new, rows, None).any()
    assert assessment.admissible(new, rows, rows).all()


def test_secondary_needs_memory_for_all_that_fails_over_to_it() -> None:
    assessment = assessed([instance("old", DRBD, "a", "b", mem=6_000)])
    rows = np.arange(3)
    new = assessment.state.requested_instance(instance("new", DRBD, "", mem=4_000))
    admissible = assessment.admissible(new, rows, rows)
    assert not admissible[0, 1]
    assert admissible[0, 2]
    assert not admissible[1].any()  # b has to keep 6,000 MiB


@pytest.mark.parametrize(("mirrored", "admissible"), [("default", [False, False, True]), ("own", [True] * 3)])
def test_mirrored_instances_miss_spindles_on_the_default_unit(mirrored: str, admissible: list[bool]) -> None:
    kind = StorageType.DRBD if mirrored == "own" else StorageType.LVM_VG
    units = (DesiredUnit(StorageType.LVM_VG, "xenvg"), DesiredUnit(kind, "xenvg"))
    storage = tuple(Unit(unit, 900_000, 900_000) for unit in dict.fromkeys(units))
    old = replace(instance("old", DRBD, "a", "b"), disks=(Disk(1024, 1),))
    described = cluster(
        dict.fromkeys("abc", 10_000), [old], storage=storage, excl_stor=True, f_spindles=1, t_spindles=2
    )
    state = derive(described)
    assessment = assess(state, np.ones(3, np.bool_), PlacementOptions())
    new = state.requested_instance(replace(instance("new", EXT, ""), disks=(Disk(1024, 2),)))
    assert assessment.admissible(new, np.arange(3), None).tolist() == admissible


def test_bounds_prove_losses_survived_where_room_is_plenty() -> None:
    assert assessed([]).bounds.unproved().tolist() == []
    assert assessed([instance("old", EXT, "a")]).bounds.proves_all


def test_bounds_prove_losses_fatal_where_nothing_fits() -> None:
    assessment = assessed([instance("old", EXT, name, mem=9_900) for name in "abc"])
    assert assessment.bounds.fatal.tolist() == [True, True, True]
    assert assessment.fragile().tolist() == [True, True, True]
    assert not assessment.holds()


def test_finds_the_fatal_loss_and_suspects_it_next() -> None:
    assessment = assessed(TIGHT)
    state = assessment.state
    small, large = (state.requested_instance(instance("new", EXT, "", mem=mem)) for mem in (3_000, 4_000))
    assert all(assessment.survives(small, node) for node in range(3))
    assert not assessment.refuted(NewInstances.of(large, np.arange(3))).any()
    assert assessment.fatal_loss(large, 2) != NOWHERE
    assert assessment.cache.suspects
    assert assessment.refuted(NewInstances.of(large, np.arange(3)))[2]
    assert not assessment.fatal_alone(assessment.cache.suspects[0])


def test_rules_out_sizes_that_fit_nowhere_after_a_loss() -> None:
    assessment = assessed(TIGHT)
    huge = assessment.state.requested_instance(instance("new", EXT, "", mem=9_000))
    assert assessment.bounds.rule_out(huge, np.arange(3), np.full(3, NOWHERE))


def test_counts_instances_in_turn_until_a_loss_is_fatal() -> None:
    described = cluster({"a": 10_000, "b": 10_000, "c": 10_000}, [instance("old", DRBD, "a", "b", mem=6_000)])
    assessment = assess(derive(described), np.ones(3, np.bool_), PlacementOptions())
    asked = assessment.state.requested_instance(instance("new", EXT, "", mem=1_000))
    assert assessment.survives_in_turn(asked, [1, 1, 2]) == 3
    assert assessment.survives_in_turn(asked, [1, 1, 2, 1, 1]) == 4  # b has to keep 6,000 MiB


@pytest.mark.parametrize("accept", [False, True])
def test_losses_of_offline_nodes_count_unless_existing_errors_are_accepted(accept: bool) -> None:
    described = cluster(dict.fromkeys("abc", 10_000), [instance("old", DRBD, "a")], offline=True)
    assessment = assess(derive(described), np.ones(3, np.bool_), PlacementOptions(accept_existing=accept))
    assert assessment.bounds.some_fatal is not accept


def test_losses_of_spared_nodes_do_not_count() -> None:
    state = derive(cluster(dict.fromkeys("abc", 10_000), [instance("old", DRBD, "a")]))
    spared = np.array([True, False, False])
    assert assess(state, np.ones(3, np.bool_), PlacementOptions(), spared).holds()


def test_instance_that_gets_a_secondary_counts_as_unmirrored() -> None:
    rows, before = np.arange(3), assessed([instance("old", PLAIN, "a")])
    asked = before.state.requested_instance(instance("new", DRBD, ""))
    assert SecondaryCheck(before, before.state).admissible(asked, rows, rows).all()
    fatal = assessed([instance("old", DRBD, "a")])
    assert not SecondaryCheck(fatal, fatal.state).admissible(asked, rows, rows).any()


def test_instances_without_redundancy_are_tolerated_but_no_new_ones() -> None:
    before = assessed([*TIGHT, instance("big", EXT, "c", mem=4_500)])
    lost = unrecoverable(before.state, np.ones(3, np.bool_), before)
    assert lost.all()
    asked = before.state.requested_instance(instance("new", EXT, "", mem=100))
    assert NoLossCheck(before, lost).fatal_loss(asked, 0) == NOWHERE
    assert NoLossCheck(before, np.zeros_like(lost)).fatal_loss(asked, 0) == 0
    large = before.state.requested_instance(instance("large", EXT, "", mem=5_400))
    assert NoLossCheck(before, lost).fatal_loss(large, 2) == 2
    assert NoLossCheck(before, lost, may_be_lost=True).fatal_loss(large, 2) == NOWHERE
