"""Limits of custom resource classes."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.redundancy.health import fragile_nodes
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.class_limits import refuses
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail, Status
from tests.support.by_hand import cluster, instance

GPU = "CUSTOM_GPU"
EXT, DRBD = DiskTemplate.EXT, DiskTemplate.DRBD
REFUSED = CODE[Fail.RESOURCE]


def demanding(amount: int, template: DiskTemplate, *nodes: str, name: str = "a", **facts: object) -> Instance:
    tags = (f"htools:resource:{GPU}:{amount}",)
    return instance(name, template, *nodes, tags=tags, **facts)  # type: ignore[arg-type]


def having(described: Cluster, *inventories: Inventory | None) -> Cluster:
    """The cluster whose nodes have these inventories of one class."""
    pairs = zip(described.nodes, inventories, strict=True)
    nodes = tuple(replace(node, inventories=((GPU, each),) if each else ()) for node, each in pairs)
    return replace(described, nodes=nodes)


def state(gpus: tuple[int, ...], *rows: Instance) -> State:
    names = {f"node{number}": 50_000 for number, _ in enumerate(gpus)}
    return derive(having(cluster(names, rows), *(Inventory(number) if number else None for number in gpus)))


def codes(on: State, new: Instance) -> list[int]:
    rows = np.arange(len(on.group))
    found: list[int] = placements.allocate_one(
        on, on.requested_instance(new), rows, np.ones(len(rows), np.bool_)
    ).codes.tolist()
    return found


def test_an_instance_takes_its_amount_where_it_runs() -> None:
    on = state((4, 2, 1, 0), demanding(1, EXT, "node1"))
    assert codes(on, demanding(2, EXT, "")) == [FITS, REFUSED, REFUSED, REFUSED]
    assert codes(on, demanding(1, EXT, "")) == [FITS, FITS, FITS, REFUSED]
    assert codes(on, instance("a", EXT, "")) == [FITS] * 4


def test_only_offline_instances_take_nothing_of_a_class() -> None:
    for status, expected in ((Status.DOWN, REFUSED), (Status.OFFLINE, FITS)):
        on = state((1,), demanding(1, EXT, "node0", status=status))
        assert codes(on, demanding(1, EXT, "")) == [expected]


def test_capacity_is_total_less_reserved_times_ratio() -> None:
    names = {"node0": 50_000, "node1": 50_000}
    there = Inventory(3, 1), Inventory(1, 0, allocation_ratio=16.0)
    on = derive(having(cluster(names, []), *there))
    assert codes(on, demanding(3, EXT, "")) == [REFUSED, FITS]
    assert codes(on, demanding(2, EXT, "")) == [FITS, FITS]


@pytest.mark.parametrize("amount", range(1, 9))
def test_limits_allow_the_same_amounts_as_the_inventory(amount: int) -> None:
    there = (Inventory(8), Inventory(8, 0, 3), Inventory(8, 0, 1, 4), Inventory(8, 0, 3, 6, 2), None)
    names = {f"node{number}": 50_000 for number, _ in enumerate(there)}
    on = derive(having(cluster(names, []), *there))
    allowed = [each is not None and each.allows(amount) for each in there]
    assert [code == FITS for code in codes(on, demanding(amount, EXT, ""))] == allowed
    asked = on.requested_instance(demanding(amount, EXT, ""))
    assert (~refuses(on.columns, asked)).tolist() == allowed


def test_secondary_reserves_the_need_of_its_worst_peer() -> None:
    rows = [demanding(1, DRBD, "node0", "node2", name=name) for name in "ab"]
    rows.append(demanding(1, DRBD, "node1", "node2", name="c"))
    on = state((4, 4, 3), *rows)
    assert on.columns.r_class_0.tolist() == [0, 0, 2]  # type: ignore[attr-defined]
    assert codes(on, demanding(1, EXT, "")) == [FITS] * 3
    assert codes(on, demanding(2, EXT, "")) == [FITS, FITS, REFUSED]
    p, s = np.array([(0, 2), (1, 2), (2, 0)]).T
    for amount, expected in ((1, [FITS, FITS, FITS]), (2, [REFUSED, FITS, REFUSED]), (3, [REFUSED] * 3)):
        new = on.requested_instance(demanding(amount, DRBD, ""))
        assert placements.allocate_pairs(on, new, p, s, on.peers[p, s]).codes.tolist() == expected, amount


def test_failover_uses_the_reserved_amount() -> None:
    on = state((1, 1), demanding(1, DRBD, "node0", "node1"))
    everywhere = np.ones(2, np.bool_)
    trial = move(on, on.instance(0), MoveKind.FAILOVER, None, everywhere)
    assert trial.codes.tolist() == [FITS]
    settling.settle(on, trial)
    assert on.columns.f_class_0.tolist() == [1, 0]  # type: ignore[attr-defined]
    assert on.columns.r_class_0.tolist() == [1, 0]  # type: ignore[attr-defined]


def fragile(on: State) -> list[bool]:
    found: list[bool] = fragile_nodes(on, np.ones(len(on.group), np.bool_)).tolist()
    return found


def test_lost_node_fails_n1_when_others_lack_the_class() -> None:
    assert fragile(state((1, 1), demanding(1, EXT, "node0"))) == [False, False]
    taken = [demanding(1, EXT, f"node{number}", name=f"i{number}") for number in (0, 1)]
    assert fragile(state((1, 1), *taken)) == [True, True]
    assert fragile(state((2, 1), *taken)) == [True, False]


def test_class_that_no_other_node_has_does_not_count_for_n1() -> None:
    assert fragile(state((1, 0), demanding(1, EXT, "node0"))) == [False, False]


def test_mirrored_instances_of_one_node_fail_over_together() -> None:
    rows = [demanding(1, DRBD, "node0", "node1", name=name) for name in "ab"]
    assert fragile(state((2, 2), *rows)) == [False, False]
    assert fragile(state((2, 1), *rows)) == [True, False]


def test_refuses_placement_that_leaves_too_little_of_a_class() -> None:
    on = state((2, 1), demanding(1, DRBD, "node0", "node1"))
    everywhere = np.ones(2, np.bool_)
    redundancy = assess(on, everywhere, PlacementOptions())
    assert redundancy.admissible(
        on.requested_instance(demanding(1, EXT, "")), np.arange(2), None
    ).tolist() == [
        True,
        False,
    ]
    assert not redundancy.survives(on.requested_instance(demanding(1, EXT, "")), 0)
    pair = redundancy.admissible(on.requested_instance(demanding(1, DRBD, "")), np.array([0]), np.array([1]))
    assert pair.tolist() == [[False]]


def limited(name: str, *inventories: Inventory, rows: tuple[Instance, ...] = ()) -> State:
    """A state whose nodes limit the amounts that one instance takes of a class that Ganeti counts."""
    found = cluster({f"node{number}": 50_000 for number, _ in enumerate(inventories)}, rows)
    pairs = zip(found.nodes, inventories, strict=True)
    return derive(
        replace(found, nodes=tuple(replace(node, inventories=((name, each),)) for node, each in pairs))
    )


@pytest.mark.parametrize(
    ("name", "figure", "unit", "fail"),
    [
        ("MEMORY_MB", "mem", 1000, Fail.MEM),
        ("VCPU", "vcpus", 1, Fail.CPU),
        ("CUSTOM_SPINDLES", "spindle_use", 1, Fail.SPINDLES),
        ("CUSTOM_DISK_MIB_LVM_VG", "dsk", 1000, Fail.DISK),
    ],
)
def test_nodes_limit_the_amounts_that_ganeti_counts(name: str, figure: str, unit: int, fail: Fail) -> None:
    on = limited(
        name,
        Inventory(0),
        Inventory(0, max_unit=4 * unit),
        Inventory(0, min_unit=4 * unit),
        Inventory(0, step_size=3 * unit),
    )
    row, refused = instance("new", DiskTemplate.PLAIN, ""), CODE[fail]
    small, large = (replace(row, **{figure: amount * unit}) for amount in (2, 6))  # type: ignore[arg-type]
    assert codes(on, small) == [FITS, FITS, refused, refused]
    assert codes(on, large) == [FITS, refused, FITS, FITS]


def test_failed_over_instance_must_be_allowed_on_both_nodes() -> None:
    on = limited("VCPU", Inventory(0), Inventory(0, max_unit=2), Inventory(0))
    new = on.requested_instance(replace(instance("new", DRBD, ""), vcpus=3))
    p, s = np.array([(0, 1), (1, 0), (0, 2)]).T
    assert placements.allocate_pairs(on, new, p, s, on.peers[p, s]).codes.tolist() == [
        CODE[Fail.CPU],
        CODE[Fail.CPU],
        FITS,
    ]


@pytest.mark.parametrize("template", [EXT, DRBD])
def test_instance_that_no_other_node_allows_does_not_count_for_n1(template: DiskTemplate) -> None:
    nodes = ("node0", "node1") if template is DRBD else ("node0",)
    large = replace(instance("large", template, *nodes), vcpus=4)
    small = replace(instance("small", template, *nodes), vcpus=1)
    everywhere = limited("VCPU", *[Inventory(0, max_unit=2)] * 3, rows=(large, small))
    assert fragile(everywhere) == [False] * 3
    assert fragile(state((0, 0, 0), large, small)) == [False] * 3


def test_lost_node_fails_n1_when_the_only_node_that_allows_its_instance_is_full() -> None:
    large = replace(instance("large", EXT, "node0", mem=9000), vcpus=4)
    full = instance("full", EXT, "node1", mem=45_000)
    there = Inventory(0), Inventory(0), Inventory(0, max_unit=2)
    assert fragile(limited("VCPU", *there, rows=(large,))) == [False] * 3
    assert fragile(limited("VCPU", *there, rows=(large, full)))[0]
    assert not fragile(limited("VCPU", *[Inventory(0)] * 3, rows=(large, full)))[0]
