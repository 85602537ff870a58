from collections.abc import Sequence

import numpy as np
import pytest

from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.redundancy.health import RedundancyHealth, Tolerance, used_shares
from ganeti_htools.engine.redundancy.rule import Means, Recovery
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, PLAIN, EXT = DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT


def state_of(instances: Sequence[Instance], sizes: Sequence[int] = (10_000,) * 3) -> State:
    return derive(by_hand.cluster({f"n{number}": mem for number, mem in enumerate(sizes)}, instances))


def all_of(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def test_a_good_cluster_counts_0() -> None:
    state = state_of([instance("a", DRBD, "n0", "n1"), instance("b", EXT, "n1")])
    assert redundancy_health.health(state, all_of(state)) == RedundancyHealth(0, 0, 0, 0, 0)
    assert redundancy_health.health(state, all_of(state), capacity=False) == RedundancyHealth(0, 0, 0, 0)


def test_a_secondary_without_memory_for_its_primaries_is_bad() -> None:
    full = [instance("a", DRBD, "n0", "n1", mem=6000), instance("b", EXT, "n1", mem=6000)]
    state = state_of(full)
    scope = all_of(state)
    health = redundancy_health.health(state, scope)
    assert (health.n1_fail, health.gn1_fail) == (1, 1)


def test_offline_nodes_and_their_primaries_are_counted() -> None:
    state = state_of([instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n0", "n1")])
    state.columns.offline[0] = True
    health = redundancy_health.health(state, all_of(state))
    assert (health.offline_pri, health.offline_nodes) == (2, 1)


def test_primaries_that_exclude_each_other_are_counted_by_node() -> None:
    twins = [instance(name, EXT, "n1", tags=("service:dns",)) for name in "abc"]
    described = by_hand.cluster({"n0": 10_000, "n1": 10_000}, twins)
    state = derive(
        Cluster(described.groups, described.nodes, described.instances, ("htools:iextags:service",))
    )
    assert redundancy_health.health(state, all_of(state)).conflict_tags == 1


def test_totals_are_sums() -> None:
    assert redundancy_health.total(
        [RedundancyHealth(1, 2, 3, 4, 5), RedundancyHealth(1, 1, 1, 1, 1)]
    ) == RedundancyHealth(2, 3, 4, 5, 6)
    assert redundancy_health.total([RedundancyHealth(1, 2, 3, 4)], capacity=False) == RedundancyHealth(
        1, 2, 3, 4
    )
    assert redundancy_health.total([]) == RedundancyHealth(0, 0, 0, 0, 0)
    assert redundancy_health.total([], capacity=False) == RedundancyHealth(0, 0, 0, 0)


def test_an_instance_on_half_a_mirror_would_not_live_on() -> None:
    state = state_of([instance("a", DRBD, "n0")])
    assert redundancy_health.fragile_nodes(state, all_of(state)).tolist() == [True, False, False]
    assert redundancy_health.lose(state, 0).lost == 1


def test_a_lost_node_sends_each_instance_where_it_can_go() -> None:
    state = state_of(
        [instance("m", DRBD, "n0", "n1"), instance("s", EXT, "n0"), instance("l", PLAIN, "n0")],
        sizes=(10_000, 10_000, 5000),
    )
    loss = redundancy_health.lose(state, 0)
    assert (loss.restarted, loss.recreated, loss.lost) == (2, 1, 0)
    assert {recovery.instance: recovery.kind for recovery in loss.recoveries} == {
        0: Means.FAILOVER,
        1: Means.MOVE,
        2: Means.RECREATE,
    }
    assert loss.recoveries[0] == Recovery(0, Means.FAILOVER, 1)
    assert {recovery.node for recovery in loss.recoveries} <= {1, 2}
    assert loss.unmirrored == 0
    assert redundancy_health.lose(state, 1).unmirrored == 1


def test_the_fullest_other_node_after_a_loss() -> None:
    rows = [instance("m", DRBD, "n0", "n1", mem=3000), instance("s", EXT, "n0", mem=1000)]
    state = state_of(rows, sizes=(10_000, 10_000, 5000))
    loss = redundancy_health.lose(state, 0)
    assert [recovery.node for recovery in loss.recoveries] == [1, 2]
    used = {node: shares["memory"][node] for node in (1, 2) for shares in [used_shares(state.columns)]}
    memory = (1, used[1] + 0.3), (2, used[2] + 0.2)
    assert loss.fullest["memory"] == pytest.approx(max(memory, key=lambda each: each[1]))
    assert redundancy_health.lose(state, 2).fullest["memory"][0] == 0
    state.columns.offline[1:] = True
    assert redundancy_health.lose(state, 0).fullest == {}


def test_used_shares_of_a_node_without_the_resource_are_0() -> None:
    columns = state_of([instance("m", DRBD, "n0", "n1")]).columns
    columns.t_dsk[0] = columns.hi_spindles[0] = columns.t_cpu[0] = 0
    columns.vcpu_ratio[1] = -1  # no limit
    shares = used_shares(columns)
    assert [shares[name][0] for name in ("disk", "spindles", "cpus")] == [0, 0, 0]
    assert shares["cpus"][1] == 0 < shares["spindles"][1]


def test_what_finds_no_room_does_not_come_back_but_the_rest_does() -> None:
    state = state_of(
        [instance("big", EXT, "n0", mem=9500), instance("small", EXT, "n0", mem=400)], (10_000, 5000)
    )
    recoveries = {
        recovery.instance: recovery.node for recovery in redundancy_health.lose(state, 0).recoveries
    }
    assert recoveries == {0: NOWHERE, 1: 1}


def test_nothing_comes_back_on_a_node_that_is_offline_already() -> None:
    state = state_of([instance("m", DRBD, "n0", "n1"), instance("s", EXT, "n0")])
    state.columns.offline[1] = True
    recoveries = {
        recovery.instance: recovery.node for recovery in redundancy_health.lose(state, 0).recoveries
    }
    assert recoveries == {0: NOWHERE, 1: 2}


def test_looking_at_a_loss_changes_nothing() -> None:
    state = state_of([instance("m", DRBD, "n0", "n1"), instance("l", PLAIN, "n0")])
    before = state.to_cluster()
    redundancy_health.lose(state, 0)
    redundancy_health.tolerance(state, all_of(state))
    assert state.to_cluster() == before


def test_what_loses_its_data_is_no_return_to_count_on() -> None:
    state = state_of([instance("big", PLAIN, "n0", mem=9500), instance("s", EXT, "n0")], (10_000, 5000))
    loss = redundancy_health.lose(state, 0)
    assert (loss.restarted, loss.recreated, loss.lost) == (1, 0, 1)
    local = [instance("l", PLAIN, "n1"), instance("s", EXT, "n0")]
    tolerated = redundancy_health.tolerance(state_of(local, (9000, 8000, 7000)), np.ones(3, np.bool_))
    assert tolerated == Tolerance(intact=1, recreating=2)


def test_nodes_may_be_lost_until_there_is_no_room_left() -> None:
    shared = [instance(f"i{number}", EXT, f"n{number}", mem=2000) for number in range(4)]
    # Three instances fit on a node, so two nodes are enough for four.
    assert redundancy_health.tolerance(
        state_of(shared, (8000, 8000, 8000, 8000)), np.ones(4, np.bool_)
    ) == Tolerance(2, 2)
    # The largest is lost first.
    assert redundancy_health.tolerance(
        state_of(shared, (2500, 2500, 2500, 8000)), np.ones(4, np.bool_)
    ) == Tolerance(0, 0)
    assert redundancy_health.tolerance(state_of([], (8000, 8000)), np.ones(2, np.bool_)) == Tolerance(2, 2)


def test_a_mirrored_instance_does_not_survive_both_its_nodes() -> None:
    instances = [instance("a", DRBD, "n0", "n1")]
    assert redundancy_health.tolerance(
        state_of(instances, (9000, 8000, 7000)), np.ones(3, np.bool_)
    ) == Tolerance(1, 1)
    assert redundancy_health.tolerance(
        state_of(instances, (9000, 7000, 8000)), np.ones(3, np.bool_)
    ) == Tolerance(2, 2)
