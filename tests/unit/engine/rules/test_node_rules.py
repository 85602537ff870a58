"""Effects of an instance on a node, and the reasons why it must not come."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.rules.node_rules import (
    CODE,
    FITS,
    add_primary,
    add_secondary,
    remove_primary,
    remove_secondary,
)
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import instance, node

NEW = instance("new", DiskTemplate.DRBD, "")


def alone(policy: dict[str, float] | None = None, **facts: object) -> State:
    """A node, and another one with an instance that has its secondary on the first."""
    group = Group("group", "uuid-1", ipolicy=replace(DEFAULT_IPOLICY, **(policy or {})))  # type: ignore[arg-type]
    rows = (node("a", **facts), node("b"))  # type: ignore[arg-type]
    return derive(Cluster((group,), rows, (instance("old", DiskTemplate.DRBD, "b", "a", mem=500),)))


def primary(state: State, new: Instance = NEW, conflicts: int = 0, force: bool = False) -> int:
    _, codes = add_primary(state.columns.take([0]), state.requested_instance(new), conflicts, 0, force)
    return int(codes[0])


def secondary(state: State, new: Instance = NEW, force: bool = False, ignore_disk: bool = False) -> int:
    _, codes = add_secondary(state.columns.take([0]), state.requested_instance(new), 0, force, ignore_disk)
    return int(codes[0])


def test_a_node_with_room_takes_it() -> None:
    assert primary(alone()) == secondary(alone()) == FITS


@pytest.mark.parametrize(
    ("fail", "policy", "facts"),
    [
        (Fail.MEM, {}, {"mem": 1000}),  # nothing would be left
        (Fail.DISK, {}, {"f_dsk": 1024}),
        (Fail.SPINDLES, {}, {"excl_stor": True, "f_spindles": 1}),
    ],
)
def test_hard_limits(fail: Fail, policy: dict[str, float], facts: dict[str, object]) -> None:
    state, new = alone(policy, **facts), replace(NEW, disks=(Disk(1024, 2),))
    assert primary(state, new) == primary(state, new, force=True) == CODE[fail]
    if fail is not Fail.MEM:
        assert secondary(state, new, force=True) == CODE[fail]


@pytest.mark.parametrize(
    ("fail", "policy", "facts"),
    [
        (Fail.MEM, {}, {"mem": 1500}),  # not what is kept free for the other node
        (Fail.CPU, {"vcpu_ratio": 0.5}, {"t_cpu": 2.0}),
        (Fail.DISK, {"spindle_ratio": 1.0}, {"t_spindles": 1}),
    ],
)
def test_soft_limits(fail: Fail, policy: dict[str, float], facts: dict[str, object]) -> None:
    state = alone(policy, **facts)
    assert primary(state) == CODE[fail]
    assert primary(state, force=True) == FITS


def test_reserved_disk_is_a_soft_limit() -> None:
    state = alone()
    state.columns.lo_dsk[:] = 900_000
    assert primary(state) == secondary(state) == CODE[Fail.DISK]
    assert primary(state, force=True) == secondary(state, force=True) == FITS


def test_exclusion_tags_are_a_soft_limit() -> None:
    assert primary(alone(), conflicts=1) == CODE[Fail.TAGS]
    assert primary(alone(), conflicts=1, force=True) == FITS


def test_an_instance_without_local_disks_needs_none() -> None:
    assert primary(alone(f_dsk=0), replace(NEW, template=DiskTemplate.EXT)) == FITS


def test_first_broken_limit_is_reported() -> None:
    assert primary(alone(mem=1000, f_dsk=0)) == CODE[Fail.MEM]


def test_only_mirrored_instances_have_a_secondary() -> None:
    assert secondary(alone(), replace(NEW, template=DiskTemplate.PLAIN)) == CODE[Fail.DISK]


def test_the_disk_of_a_lost_primary_is_there() -> None:
    assert secondary(alone(f_dsk=0), force=True) == CODE[Fail.DISK]
    assert secondary(alone(f_dsk=0), force=True, ignore_disk=True) == FITS


def test_forthcoming_instance_changes_only_views_that_count_it() -> None:
    state = alone()
    old = state.columns.take([0])
    new, _ = add_primary(old, state.requested_instance(replace(NEW, forthcoming=True)), 1, 0)
    changed = {name for name in old._fields if getattr(new, name) is not getattr(old, name)}
    assert changed == {
        *("f_mem_forth", "f_dsk_forth", "f_spindles_forth", "u_cpu_forth", "inst_spindles_forth", "conflicts")
    }


def test_aliases_stay_aliases() -> None:
    state = alone()
    old = state.columns.take([0])
    new, _ = add_primary(old, state.requested_instance(NEW), 0, 0)
    assert old.f_dsk is old.f_dsk_forth
    assert new.f_dsk is new.f_dsk_forth
    assert new.load_cpu is new.load_mem is new.load_net
    other, _ = add_primary(old, state.requested_instance(replace(NEW, load=replace(NEW.load, mem=2.0))), 0, 0)
    assert (other.load_mem - other.load_cpu).tolist() == [1.0]


def test_coming_and_going_cancel_out() -> None:
    state = alone()
    asked, old = state.requested_instance(NEW), state.columns.take([0])
    back = remove_primary(add_primary(old, asked, 1, 2)[0], asked, 1, 2)
    also = remove_secondary(add_secondary(old, asked, 100)[0], asked, int(old.r_mem[0]))
    for name in old._fields:
        if "f_spindles" not in name:  # 0 as soon as an instance comes
            np.testing.assert_array_equal(getattr(back, name), getattr(old, name), err_msg=name)
            np.testing.assert_array_equal(getattr(also, name), getattr(old, name), err_msg=name)


def test_secondary_raises_the_reservation() -> None:
    state = alone()
    old = state.columns.take([0])
    assert old.r_mem.tolist() == [500]
    assert add_secondary(old, state.requested_instance(NEW), 300)[0].r_mem.tolist() == [1300]
