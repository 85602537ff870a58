"""Which instances stay on nodes that are offline or drained, and why. ``n0`` is such a node."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.model.cluster import Cluster, Group, Instance, Node
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.balancing.stranded import StrandedInstance, stranded_instances
from ganeti_htools.planning.view import View, state_of
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN


def left(
    cluster: Cluster,
    options: BalancingOptions | None = None,
    *,
    steps: int = 0,
    offline: Sequence[str] = ("n0",),
    movable: Bools | None = None,
    scope: Bools | None = None,
) -> list[StrandedInstance]:
    state = state_of(cluster, View(offline=tuple(offline)))
    scope = np.ones(len(state.group), np.bool_) if scope is None else scope
    movable = np.ones(len(state.pnode), np.bool_) if movable is None else movable
    return list(stranded_instances(state, scope, movable, options or BalancingOptions(), steps))


def drained(*rows: Instance, mem: int = 10_000) -> Cluster:
    return by_hand.cluster({"n0": 10_000, "n1": mem, "n2": mem}, rows)


def test_only_instances_on_offline_nodes_are_stranded() -> None:
    assert left(drained(instance("a", EXT, "n1"), instance("b", DRBD, "n1", "n2"))) == []


def test_stranded_instance_has_its_offline_nodes() -> None:
    rows = instance("a", DRBD, "n1", "n0"), instance("b", DRBD, "n0", "n1"), instance("c", EXT, "n0")
    told = left(drained(*rows), offline=("n0", "n1"))
    assert [(each.instance, each.nodes) for each in told] == [
        ("a", ["n1", "n0"]),
        ("b", ["n0", "n1"]),
        ("c", ["n0"]),
    ]


def test_nodes_out_of_scope_do_not_count() -> None:
    cluster = drained(instance("a", EXT, "n0"), instance("b", EXT, "n1"))
    scope = np.array([False, True, True])
    assert left(cluster, scope=scope) == []
    assert [each.instance for each in left(cluster, offline=("n0", "n1"), scope=scope)] == ["b"]


def test_reason_of_instance_on_local_disks() -> None:
    rows = instance("a", PLAIN, "n0"), instance("b", PLAIN, "n1")
    assert left(drained(*rows)) == [StrandedInstance("a", ["n0"], "plain instances cannot be moved")]


def test_reason_of_instance_without_secondary() -> None:
    (told,) = left(drained(instance("a", DRBD, "n0")))
    assert told.why == "it has no secondary"


def test_reason_of_instance_that_fits_nowhere() -> None:
    (told,) = left(drained(instance("a", EXT, "n0", mem=6000), mem=5000))
    assert told == StrandedInstance("a", ["n0"], "it fits nowhere: FailMem: 2")


def test_reason_of_secondary_that_fits_nowhere() -> None:
    cluster = drained(instance("a", DRBD, "n1", "n0"))
    full = replace(cluster.nodes[2], f_dsk=0)
    (told,) = left(replace(cluster, nodes=(*cluster.nodes[:2], full)))
    assert told.nodes == ["n0"]
    assert told.why.startswith("it fits nowhere: FailDisk: ")


def test_reason_of_instance_in_two_groups() -> None:
    one = drained(instance("a", DRBD, "n0", "n3"))
    other: Node = by_hand.node("n3", group="uuid-2")
    cluster = replace(one, groups=(*one.groups, Group("group2", "uuid-2")), nodes=(*one.nodes, other))
    (told,) = left(cluster)
    assert told.why == "its nodes are in two node groups"


def test_reason_of_excluded_instance() -> None:
    (told,) = left(drained(instance("a", EXT, "n0")), movable=np.array([False]))
    assert told.why == "the options leave it out"


def test_reason_of_instance_that_is_not_balanced() -> None:
    (told,) = left(drained(replace(instance("a", EXT, "n0"), auto_balance=False)))
    assert told.why == "auto_balance is off"


NO_WAY = "no other node is online, or the options do not allow the move"


@pytest.mark.parametrize(
    ("options", "steps", "why"),
    [
        (BalancingOptions(), 0, "moving it would not gain enough"),
        (BalancingOptions(max_length=2), 1, "moving it would not gain enough"),
        (BalancingOptions(max_length=2), 2, "the plan ends before"),
        (BalancingOptions(max_length=0), 0, "the plan ends before"),
        (BalancingOptions(instance_moves=False, disk_moves=False), 0, NO_WAY),
    ],
)
def test_reason_follows_the_options(options: BalancingOptions, steps: int, why: str) -> None:
    assert [each.why for each in left(drained(instance("a", EXT, "n0")), options, steps=steps)] == [why]


def test_reason_without_other_online_nodes() -> None:
    (told,) = left(drained(instance("a", EXT, "n0")), offline=("n0", "n1", "n2"))
    assert told.why == NO_WAY
