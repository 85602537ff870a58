"""Where the instances of a lost node come back: what is simulated, and what sums prove of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.redundancy import rule
from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.engine.redundancy.rule import Means, Recovery
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN
ONE_OF_EACH = [
    instance("plain", PLAIN, "a", mem=1_000),
    instance("shared", EXT, "a", mem=2_000),
    instance("mirrored", DRBD, "a", "b", mem=3_000),
]
FULL = [instance("full", EXT, name, mem=9_500) for name in "bc"]


def state_of(instances: Sequence[Instance]) -> State:
    return derive(cluster(dict.fromkeys("abc", 10_000), instances))


def everywhere(state: State) -> Bools:
    return np.ones(len(state.group), np.bool_)


def test_mirrors_come_back_first_and_what_loses_its_data_last() -> None:
    state = state_of(ONE_OF_EACH)
    found = list(rule.recover(state.copy(), 0, everywhere(state)))
    assert [each.kind for each in found] == [Means.FAILOVER, Means.MOVE, Means.RECREATE]
    assert found[0] == Recovery(2, Means.FAILOVER, 1)
    assert found[1] == Recovery(1, Means.MOVE, 2)  # b has become the fuller one
    assert state.pnode.tolist() == [0, 0, 0]


def test_an_instance_without_room_comes_back_nowhere() -> None:
    state = state_of([*ONE_OF_EACH, *FULL])
    found = list(rule.recover(state.copy(), 0, everywhere(state)))
    assert {each.node for each in found} == {NOWHERE}
    assert not rule.can_be_lost(state, 0, everywhere(state))


@pytest.mark.parametrize("tags", [(), (MAINTENANCE,)])
def test_mirrors_in_maintenance_do_not_count(tags: tuple[str, ...]) -> None:
    """A node that Ganeti does not ask has no memory. Only the tag says that the mirror comes back with it."""
    rows = cluster(dict.fromkeys("abc", 10_000), ONE_OF_EACH)
    away = replace(rows.nodes[1], offline=True, t_mem=0, f_mem=0, n_mem=0, tags=tags)
    state = derive(replace(rows, nodes=(rows.nodes[0], away, rows.nodes[2])))
    redundancy = assess(state, everywhere(state), PlacementOptions())
    assert redundancy.holds() is rule.can_be_lost(state, 0, everywhere(state)) is bool(tags)
    lost = unrecoverable(state, everywhere(state))
    assert lost[[each.name for each in rows.instances].index("mirrored")]


def test_nodes_that_are_not_up_take_nothing() -> None:
    state = state_of(ONE_OF_EACH)
    up = np.array([False, False, True])
    found = list(rule.recover(state.copy(), 0, everywhere(state), up))
    assert [each.node for each in found] == [NOWHERE, 2, 2]


@pytest.mark.parametrize("instances", [[], ONE_OF_EACH, ONE_OF_EACH[1:], [*ONE_OF_EACH, *FULL], FULL])
def test_what_sums_prove_is_what_the_simulation_finds(instances: list[Instance]) -> None:
    state = state_of(instances)
    scope = everywhere(state)
    lost = [not rule.can_be_lost(state, node, scope) for node in range(3)]
    redundancy = assess(state, scope, PlacementOptions())
    assert redundancy.fragile().tolist() == lost
    assert redundancy.holds() is not any(lost)


def test_what_no_other_node_has_a_unit_for_cannot_come_back() -> None:
    """Whatever room there is; of the default unit the rule of Ganeti's htools holds."""
    default, ssd = DesiredUnit(StorageType.LVM_VG, "xenvg"), DesiredUnit(StorageType.LVM_VG, "ssdvg")
    units = {
        "a": (Unit(default, 9000, 5000), Unit(ssd, 9000, 5000)),
        "b": (Unit(default, 9000, 5000),),
        "c": (Unit(ssd, 9000, 5000),),
    }

    def on(unit: DesiredUnit, name: str, p: str, s: str | None = None) -> Instance:
        return replace(instance(name, DRBD if s else PLAIN, p, s), disks=(Disk(1024, unit=unit),))

    made = cluster(
        dict.fromkeys("abc", 10_000),
        [
            on(ssd, "plain", "a"),
            on(ssd, "mirrored", "a", "c"),
            on(ssd, "unlike its report", "a", "b"),
            on(default, "on the default unit", "c"),
        ],
    )
    made = replace(made, nodes=tuple(replace(node, storage=units[node.name]) for node in made.nodes))
    state = derive(made)
    everyone, rows = np.ones(3, np.bool_), np.arange(4)
    assert rule.bound_to_nodes(state, rows, everyone).tolist() == [False, False, True, False]
    without_c = np.array([True, True, False])
    assert rule.bound_to_nodes(state, rows[:1], without_c).tolist() == [True]
