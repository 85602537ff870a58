"""What holds between hcheck, hail and hroller on any cluster."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.backends import iallocator
from ganeti_htools.deciding.decision import respond_on, state_for
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Maintenance
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.redundancy.rule import can_be_lost
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from tests.support import cases
from tests.support.rarities import Rarely, rare

SEEDS = st.integers(0, 1 << 30)


def message(seed: int) -> iallocator.Message:
    """An allocation on any cluster."""
    return iallocator.read(cases.case(seed, "allocate").text.encode())


def state_of(seed: int) -> State:
    told = message(seed)
    return state_for(told.cluster, told.request, PlacementOptions())


def groups(state: State) -> Iterator[Bools]:
    for row in redundancy_health.groups(state):
        yield state.group == row


@settings(max_examples=14)
@given(seed=SEEDS)
def test_nodes_are_fragile_if_trying_finds_no_place_for_all(seed: int) -> None:
    state = state_of(seed)
    for scope in groups(state):
        nodes = np.flatnonzero(scope).tolist()
        tried = [node for node in nodes if not can_be_lost(state, node, scope)]
        assert np.flatnonzero(redundancy_health.fragile_nodes(state, scope)).tolist() == tried


@settings(max_examples=10)
@given(seed=SEEDS, exclusive=st.sampled_from((0.5, 1.0)), zero=st.sampled_from((0.0, 0.2)))
def test_the_same_where_only_some_nodes_have_exclusive_storage(
    seed: int, exclusive: float, zero: float
) -> None:
    kind = Rarely(exclusive, groups=2, nodes=8, room=1.5, no_cpus=zero, no_spindles=zero)
    state = derive(rare(seed, kind))
    for scope in groups(state):
        nodes = np.flatnonzero(scope).tolist()
        tried = [node for node in nodes if not can_be_lost(state, node, scope)]
        assert np.flatnonzero(redundancy_health.fragile_nodes(state, scope)).tolist() == tried


@settings(max_examples=14)
@given(seed=SEEDS)
def test_a_loss_is_survived_where_hcheck_says_so_unless_it_counts_on_offline_nodes(seed: int) -> None:
    state = state_of(seed)
    for scope in groups(state):
        fragile = redundancy_health.fragile_nodes(state, scope)
        losses = [redundancy_health.lose(state, node) for node in np.flatnonzero(scope).tolist()]
        survived = {loss.node for loss in losses if not loss.lost}
        if not state.columns.offline[scope].any():
            assert survived == set(np.flatnonzero(scope & ~fragile).tolist())
        for loss in losses:
            here = np.flatnonzero((state.pnode == loss.node) & ~state.forthcoming).tolist()
            assert sorted(recovery.instance for recovery in loss.recoveries) == here
            for recovery in loss.recoveries:
                assert recovery.node == NOWHERE or (
                    recovery.node != loss.node and not state.columns.offline[recovery.node]
                )


@settings(max_examples=14)
@given(seed=SEEDS)
def test_nothing_may_be_lost_where_the_largest_node_is_fragile(seed: int) -> None:
    state = state_of(seed)
    for scope in groups(state):
        online = np.flatnonzero(scope & ~state.columns.offline)
        count = redundancy_health.tolerance(state, scope)
        assert 0 <= count.intact <= count.recreating <= len(online)
        if len(online):
            largest = int(online[np.argmax(state.columns.t_mem[online])])
            loss = redundancy_health.lose(state, largest)
            assert (count.recreating > 0) == (not loss.lost)
            assert (count.intact > 0) == (loss.restarted == len(loss.recoveries))


@settings(max_examples=25)
@given(seed=SEEDS)
def test_a_cluster_that_hcheck_calls_clean_stays_clean_when_hail_places_an_instance(seed: int) -> None:
    told = message(seed)
    state = state_for(told.cluster, told.request, PlacementOptions())
    if is_dedicated(state, told.request):  # there hail does not look at the redundancy of the whole
        return
    if any(any(redundancy_health.health(state, scope).counts) for scope in groups(state)):
        return
    _, after = respond_on(state, told.request, PlacementOptions())
    for scope in groups(after):
        assert not any(redundancy_health.health(after, scope).counts)


@settings(max_examples=20)
@given(seed=SEEDS, ignore_alone=st.booleans(), full=st.booleans(), offline=st.booleans())
def test_reboot_groups_keep_instances_running(
    seed: int, ignore_alone: bool, full: bool, offline: bool
) -> None:
    state = state_of(seed)
    members = ~state.columns.offline
    if not members.any():
        return
    colourings = rolling.node_graph(state, members, offline).colourings()
    try:
        found = rolling.reboot_groups(
            state, members, min(colourings.values(), key=len), Maintenance(ignore_alone, full)
        )
    except HtoolsError:
        return
    counts = Counter(node for group in found for node in group.nodes)
    assert counts == dict.fromkeys(np.flatnonzero(members).tolist(), 1)
    for group in found:
        moved = {move.instance: {move.pnode, move.snode} for move in group.relocations}
        down = np.isin(state.pnode, group.nodes) & ~state.forthcoming
        mirrored = state.snode != NOWHERE
        whole = members[state.pnode] & members[state.snode]
        # No group has both nodes of an instance, and what has one node only is moved.
        assert not (down & mirrored & np.isin(state.snode, group.nodes)).any()
        if not ignore_alone:
            assert set(np.flatnonzero(down & ~mirrored).tolist()) <= set(moved)
        if full:
            halves = mirrored & whole & ~state.forthcoming & (down | np.isin(state.snode, group.nodes))
            assert set(np.flatnonzero(halves).tolist()) <= set(moved)
