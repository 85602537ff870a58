"""Placements tried on candidates: the nodes afterwards, and the reasons against."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.rules.batches import batch_of_one
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

EVERYWHERE = np.ones(4, np.bool_)
OTHERS = np.array([2, 3])
MIRRORED = instance("one", DiskTemplate.DRBD, "a", "b", mem=3_000)
SHARED = instance("one", DiskTemplate.EXT, "a", mem=3_000)
LOCAL = instance("one", DiskTemplate.PLAIN, "a", mem=3_000)
NEIGHBOUR = instance("two", DiskTemplate.DRBD, "c", "b", mem=2_000)


def state_of(*instances: Instance, offline: str = "", small: str = "") -> State:
    """Four nodes; one may be offline, one may have less memory than an instance."""
    made = cluster({name: 2_500 if name == small else 10_000 for name in "abcd"}, instances)
    return derive(replace(made, nodes=tuple(replace(row, offline=row.name == offline) for row in made.nodes)))


def test_soft_limits_do_not_hold_for_instances_that_leave_an_offline_node() -> None:
    """Node b has the memory for the instance, but not for what it keeps free as a secondary as well."""
    keeper = instance("three", DiskTemplate.EXT, "b", mem=5_500)
    for offline, code in (("", CODE[Fail.MEM]), ("a", FITS)):
        state = state_of(replace(MIRRORED, mem=4_000), NEIGHBOUR, keeper, offline=offline)
        trial = move(state, state.instance(0), MoveKind.FAILOVER, None, EVERYWHERE)
        assert trial.codes.tolist() == [code]


def test_hard_limits_always_hold() -> None:
    state = state_of(SHARED, offline="a", small="d")
    trial = move(state, state.instance(0), MoveKind.FAILOVER_TO, OTHERS, EVERYWHERE)
    assert trial.codes.tolist() == [FITS, CODE[Fail.MEM]]
    forced = move(state, state.instance(0), MoveKind.FAILOVER_TO, OTHERS, EVERYWHERE, force=True)
    assert forced.codes.tolist() == [FITS, CODE[Fail.MEM]]


def test_an_instance_that_is_copied_takes_its_disks_along() -> None:
    state = state_of(LOCAL)
    left, taken = move(state, state.instance(0), MoveKind.MOVE, OTHERS, EVERYWHERE).changes
    assert (left.new.f_dsk - left.old.f_dsk).tolist() == [1024]
    assert (taken.new.f_dsk - taken.old.f_dsk).tolist() == [-1024, -1024]


@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_copied_from_an_offline_node_and_nothing_forthcoming(force: bool) -> None:
    barred = [CODE[Fail.MIGRATION]] * 2
    for state in (state_of(LOCAL, offline="a"), state_of(replace(LOCAL, forthcoming=True))):
        trial = move(state, state.instance(0), MoveKind.MOVE, OTHERS, EVERYWHERE, force)
        assert trial.codes.tolist() == barred
    full = state_of(LOCAL, small="c")
    trial = move(full, full.instance(0), MoveKind.MOVE, OTHERS, EVERYWHERE, force)
    assert trial.codes.tolist() == [CODE[Fail.MEM], FITS]


def test_migration_tags_do_not_keep_an_instance_from_being_copied() -> None:
    for row, allowed in ((SHARED, False), (LOCAL, True)):
        described = state_of(row).cluster
        first, *others = described.nodes
        nodes = (replace(first, tags=("cpu:new",)), *others)
        state = derive(replace(described, nodes=nodes, tags=("htools:migration:cpu",)))
        kind = MoveKind.MOVE if row is LOCAL else MoveKind.FAILOVER_TO
        codes = move(state, state.instance(0), kind, OTHERS).codes
        assert codes.tolist() == [FITS if allowed else CODE[Fail.MIGRATION]] * 2


def test_reservation_without_an_instance_is_the_maximum_of_the_other_peers() -> None:
    state = state_of(MIRRORED, NEIGHBOUR)
    assert state.columns.r_mem.tolist() == [0, 3_000, 0, 0]
    batch, facts = batch_of_one(state, state.instance(0))
    memory, classes = facts.kept_without(batch, np.array([0]), np.array([1]))
    assert (memory.tolist(), classes) == ([2_000], [])
