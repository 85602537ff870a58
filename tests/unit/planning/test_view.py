"""The cluster as options show it."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from ganeti_htools.model.cluster import Load
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.load import HOURS, LoadMode, LoadProfile
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.view import (
    View,
    across_groups,
    group,
    instance,
    movable,
    node,
    state_of,
    without_options,
)
from tests.support import by_hand
from tests.support.by_hand import instance as row

CLUSTER = by_hand.cluster(
    {"n0.example.org": 10_000, "n1.example.org": 10_000, "n2.example.org": 10_000},
    [
        row("a.example.org", DiskTemplate.DRBD, "n0.example.org", "n1.example.org"),
        row("b.example.org", DiskTemplate.EXT, "n2.example.org"),
    ],
)


def test_node_set_offline_is_saved_online() -> None:
    state = state_of(CLUSTER, View(offline=("n1",)))
    assert state.columns.offline.tolist() == [False, True, False]
    assert not any(node.offline for node in without_options(state, CLUSTER).nodes)


def test_limits_replace_those_of_policies() -> None:
    state = state_of(CLUSTER, View(min_disk=0.25, max_cpu=3.0))
    assert state.columns.vcpu_ratio.tolist() == [3.0] * 3
    assert (state.columns.lo_dsk <= 0.25 * state.columns.t_dsk).all()
    assert state.columns.lo_dsk.all()


def test_added_exclusion_tags_are_not_saved() -> None:
    state = state_of(CLUSTER, View(exclusion_tags=("service",)))
    assert state.cluster.tags == (*CLUSTER.tags, "htools:iextags:service:")
    assert without_options(state, CLUSTER).tags == CLUSTER.tags


def test_ignored_load_is_zero() -> None:
    busy = replace(
        CLUSTER, instances=tuple(replace(each, load=Load(1, 2, 3, 4)) for each in CLUSTER.instances)
    )
    state = state_of(busy, View(ignore_dynu=True))
    assert {each.load for each in state.cluster.instances} == {Load(0.0, 0.0, 0.0, 0.0)}


def test_measured_load_counts_as_the_view_says() -> None:
    hours = np.zeros((4, HOURS))
    hours[0, 7] = 3.0
    profiles = {each.name: LoadProfile(hours / 2, hours, hours[:, 0]) for each in CLUSTER.instances[:1]}
    measured = replace(CLUSTER, load_profiles=profiles)
    states = {mode: state_of(measured, View(load=mode)) for mode in get_args(LoadMode)}
    assert states["none"].columns.shape.load == states["upstream"].columns.shape.load == ()
    assert [each.load for each in states["none"].cluster.instances] == [Load()] * 2
    assert [each.load for each in states["upstream"].cluster.instances] == [Load(1, 0, 0, 0), Load()]
    assert [each.load for each in states["real"].cluster.instances] == [Load(0, 0, 0, 0)] * 2
    cpu = states["real"].columns.hours_load_cpu  # type: ignore[attr-defined]
    assert cpu.worst().tolist() == [3000, 0, 3000]
    assert np.argwhere(cpu.sums).tolist() == [[0, 7], [2, 7]]
    with pytest.raises(HtoolsError, match="--load=real: no measured load is known"):
        state_of(CLUSTER, View(load="real"))


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (View(), [True, True]),
        (View(select_instances=("a",)), [True, False]),
        (View(exclude_instances=("a.example.org",)), [False, True]),
        (View(select_instances=("a", "b"), exclude_instances=("b",)), [True, False]),
    ],
)
def test_selected_instances_may_move(view: View, expected: list[bool]) -> None:
    assert movable(state_of(CLUSTER, view), view).tolist() == expected


def test_finds_rows_by_name() -> None:
    state = state_of(CLUSTER, View())
    assert (node(state, "n2"), instance(state, "b")) == (2, 1)
    assert group(state, state.cluster.groups[0].uuid, "gone") == 0
    assert not across_groups(state).any()
    with pytest.raises(HtoolsError, match=r"^gone$"):
        group(state, "nowhere", "gone")


@pytest.mark.parametrize(
    ("view", "problem"),
    [
        (View(offline=("n7", "n0")), r"wrong node name\(s\) set as offline: n7"),
        (View(select_instances=("z",)), r"Unknown instance\(s\): z"),
        (View(exclude_instances=("y",)), r"Unknown instance\(s\): y"),
    ],
)
def test_reports_unknown_names(view: View, problem: str) -> None:
    with pytest.raises(HtoolsError, match=problem):
        state_of(CLUSTER, view)


def test_error_hints_at_the_nearest_name() -> None:
    for name, hint in (("b.exmple.org", "did you mean b.example.org?"), ("z", "")):
        with pytest.raises(HtoolsError) as caught:
            state_of(CLUSTER, View(select_instances=(name,)))
        assert (caught.value.hint, caught.value.exact) == (hint, True)
    with pytest.raises(HtoolsError) as wrong:
        group(state_of(CLUSTER, View()), "gruop1", "no such group")
    assert wrong.value.hint == "did you mean group1?"
