"""Unhealthy groups repaired, by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.redistribution import redistribute
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.tags import NO_INTERGROUP
from ganeti_htools.model.types import AllocPolicy, DiskTemplate
from tests.support.by_hand import instance, node

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN


def made(
    sizes: Mapping[str, int], rows: Sequence[Instance], offline: str = "", groups: Sequence[Group] = ()
) -> Cluster:
    """Nodes by name, with their memory; the first letter of a name is that of its group."""
    letters = dict.fromkeys(name[0] for name in sizes)
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in sizes}
    nodes = [
        replace(node(name, mem, used[name], name[0]), offline=name == offline) for name, mem in sizes.items()
    ]
    given = {group.uuid: group for group in groups}
    return Cluster(
        tuple(given.get(letter, Group(letter, letter)) for letter in letters), tuple(nodes), tuple(rows)
    )


def repaired(
    cluster: Cluster,
    limits: RegroupingLimits | None = None,
    among: str = "",
    partial: bool = False,
    **facts: bool,
) -> RegroupingOutcome:
    state = derive(cluster)
    rows = {group.uuid: row for row, group in enumerate(cluster.groups)}
    groups = frozenset(rows[letter] for letter in among or rows)
    rules = RegroupingRules(np.ones(len(state.pnode), np.bool_), groups, **facts)
    return redistribute(state, rules, limits or RegroupingLimits(), lambda _: None, partial)


def ways(cluster: Cluster, outcome: RegroupingOutcome) -> dict[str, str]:
    """How each instance went, like ``f r:b1``."""
    return {
        cluster.instances[move.instance].name: " ".join(
            part.operation.value + ("" if part.node == NOWHERE else f":{cluster.nodes[part.node].name}")
            for part in move.parts
        )
        for move in outcome.after.moved
    }


def why(outcome: RegroupingOutcome) -> str:
    ((_, told),) = outcome.failed
    return told


ROOMY = {"a0": 10_000, "a1": 10_000, "a2": 10_000, "b0": 10_000, "b1": 10_000}
FULL = {"a0": 10_000, "a1": 1500, "a2": 1500, "b0": 10_000, "b1": 10_000}
NO_ROOM = "no room in a (most missing: memory; closest: a1 lacks 1501 MiB; counted as FailMem: 2)"


def test_the_room_of_the_group_itself_is_taken_first() -> None:
    rows = [instance("m", DRBD, "a0", "a1"), instance("s", DRBD, "a1", "a0"), instance("e", EXT, "a0")]
    cluster = made(ROOMY, rows, "a0")
    outcome = repaired(cluster)
    assert outcome.done == (0,)
    found = ways(cluster, outcome)
    assert (found["m"], found["s"]) == ("f r:a2", "r:a2")
    assert found["e"] in ("fa:a1", "fa:a2")


def test_what_has_no_room_in_its_group_goes_to_another_one() -> None:
    cluster = made(FULL, [instance("e", EXT, "a0", mem=3000)], "a0")
    outcome = repaired(cluster)
    assert outcome.done == (0,)
    assert ways(cluster, outcome)["e"] in ("fa:b0", "fa:b1")


def test_a_mirrored_instance_is_failed_over_before_it_leaves() -> None:
    sizes = {"a0": 10_000, "a1": 10_000, "b0": 10_000, "b1": 10_000}
    cluster = made(sizes, [instance("m", DRBD, "a0", "a1")], "a0")
    first, *rest = ways(cluster, repaired(cluster))["m"].split()
    assert first == "f"
    assert [step[0] for step in rest] == ["r", "f", "r"]
    assert {step[2:] for step in rest if len(step) > 1} == {"b0", "b1"}


def test_of_those_that_serve_equally_the_cheapest_goes() -> None:
    # a1 keeps 4000 MiB free for a0 and has 3500: without any of them it would do.
    sizes = {"a0": 20_000, "a1": 3500, "a2": 10_000, "b0": 9000, "b1": 9000}
    rows = [
        replace(instance(name, DRBD, "a0", "a1", mem=mem), dsk=disk, disks=(Disk(disk),))
        for name, mem, disk in (("big", 2000, 90_000), ("small", 1000, 2000), ("other", 1000, 50_000))
    ]
    cluster = made(sizes, rows)
    assert ways(cluster, repaired(cluster)) == {"small": "r:a2"}


def test_primaries_go_where_secondaries_cannot() -> None:
    sizes = {"a0": 20_000, "a1": 6000, "a2": 5000, "b0": 20_000, "b1": 20_000}
    rows = [instance("m", DRBD, "a0", "a1", mem=3000), instance("e", EXT, "a1", mem=4000)]
    cluster = made(sizes, rows)
    assert ways(cluster, repaired(cluster, mirrored=False)) == {"e": "fa:a2"}


def test_instance_leaves_group_in_which_it_could_not_come_back() -> None:
    # On a0 neither e nor m could do without the other: a1 cannot take both.
    sizes = {"a0": 20_000, "a1": 6000, "b0": 20_000, "b1": 20_000}
    rows = [instance("m", DRBD, "a0", "a1", mem=3000), instance("e", EXT, "a1", mem=4000)]
    cluster = made(sizes, rows)
    assert ways(cluster, repaired(cluster, mirrored=False))["e"] in ("fa:b0", "fa:b1")


def test_nothing_goes_where_the_group_cannot_be_repaired() -> None:
    rows = [instance("e", EXT, "a0"), instance("p", PLAIN, "a0")]
    outcome = repaired(made(ROOMY, rows, "a0"), plain=True)
    assert (outcome.done, outcome.after.moved) == ((), [])
    assert why(outcome) == "instance p: its disks are on an offline node"


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (Group("b", "b", AllocPolicy.UNALLOCABLE), "group b is unallocable"),
        (Group("b", "b", tags=(NO_INTERGROUP,)), f"group b has the tag {NO_INTERGROUP}"),
    ],
)
def test_reason_names_obstacle_of_each_group(group: Group, told: str) -> None:
    cluster = made(FULL, [instance("e", EXT, "a0", mem=3000)], "a0", [group])
    assert why(repaired(cluster)) == f"instance e: {NO_ROOM}; {told}"


def test_reason_names_secondary_without_room() -> None:
    cluster = made({**ROOMY, "a1": 500}, [instance("m", DRBD, "a0", "a1")], "a0")
    assert why(repaired(cluster)) == "instance m: its secondary a1 cannot take it over (FailMem)"


def test_a_cluster_that_does_not_want_it_is_repaired_from_inside() -> None:
    rows = [instance("e", EXT, "a0", mem=3000)]
    closed = replace(made(FULL, rows, "a0"), tags=(NO_INTERGROUP,))
    assert why(repaired(closed)) == f"instance e: {NO_ROOM}; the cluster has the tag {NO_INTERGROUP}"
    roomy = replace(made(ROOMY, rows, "a0"), tags=(NO_INTERGROUP,))
    assert ways(roomy, repaired(roomy))["e"] in ("fa:a1", "fa:a2")


def test_repairs_only_with_selected_groups() -> None:
    cluster = made(FULL, [instance("e", EXT, "a0", mem=3000)], "a0")
    assert why(repaired(cluster, among="a")) == f"instance e: {NO_ROOM}"
    assert repaired(cluster, among="b").failed == ()


def test_repair_beyond_limits_is_left_out() -> None:
    cluster = made(FULL, [instance("e", EXT, "a0", mem=3000)], "a0")
    for limits in (RegroupingLimits(moves=0), RegroupingLimits(copy=2999)):
        assert why(repaired(cluster, limits)) == "the limits do not allow so many moves"
    assert repaired(cluster, RegroupingLimits(1, 3000)).done == (0,)


def test_a_group_that_is_not_healthy_takes_nothing() -> None:
    sizes = {**FULL, "b0": 1000}
    rows = [
        instance("e", EXT, "a0", mem=3000),
        instance("m", DRBD, "b1", "b0", mem=2000),  # b0 fails N+1, and nobody has room for m
        instance("n", EXT, "b1", mem=2000),
    ]
    outcome = repaired(made(sizes, rows, "a0"))
    told = dict(outcome.failed)
    assert outcome.after.moved == []
    assert told[0] == f"instance e: {NO_ROOM}; b not healthy"
    assert told[1].startswith("b0 fails N+1; instance m: no room in b")


class TestBetweenGroups:
    """What an interrupted change of group has left."""

    def test_instance_between_groups_comes_to_its_primarys_group(self) -> None:
        cluster = made(ROOMY, [instance("m", DRBD, "a0", "b0")])
        outcome = repaired(cluster)
        assert outcome.done == (0,)
        assert ways(cluster, outcome)["m"] in ("r:a1", "r:a2")

    def test_instance_between_groups_leaves_unhealthy_group(self) -> None:
        rows = [instance("m", DRBD, "a1", "b0"), instance("e", EXT, "a0", mem=500)]
        cluster = made(ROOMY, rows, "a0")
        assert ways(cluster, repaired(cluster))["m"] == "f r:b1"

    def test_instance_between_groups_goes_to_other_one_without_room(self) -> None:
        sizes = {"a0": 10_000, "a1": 500, "b0": 10_000, "b1": 10_000}
        cluster = made(sizes, [instance("m", DRBD, "a0", "b0")])
        assert ways(cluster, repaired(cluster)) == {"m": "f r:b1"}

    def test_group_fails_if_instance_stays_between_groups(self) -> None:
        sizes = {"a0": 10_000, "a1": 500, "b0": 10_000, "b1": 500}
        outcome = repaired(made(sizes, [instance("m", DRBD, "a0", "b0")]))
        lacks = [
            f"no room in {group} (most missing: memory to be kept free on a secondary; closest: {group}1"
            " lacks 501 MiB; counted as FailMem: 1)"
            for group in "ab"
        ]
        assert why(outcome) == f"between groups: instance m: {', '.join(lacks)}"

    def test_instance_between_groups_stays_if_one_is_excluded(self) -> None:
        outcome = repaired(made(ROOMY, [instance("m", DRBD, "a0", "b0")]), among="a")
        assert (outcome.done, outcome.failed, outcome.after.moved) == ((), (), [])


STUCK = "its disks are on an offline node"


def test_partial_repair_moves_all_but_what_cannot_leave() -> None:
    rows = [instance(f"p{at}", PLAIN, "a0") for at in range(2)]
    rows += [instance("e", EXT, "a0"), instance("m", DRBD, "a0", "a1")]
    cluster = made(ROOMY, rows, "a0")
    assert ways(cluster, repaired(cluster)) == {}
    outcome = repaired(cluster, partial=True)
    assert ways(cluster, outcome).keys() == {"e", "m"}
    assert (outcome.done, why(outcome)) == ((), f"instances p0, p1: {STUCK}")


def test_partial_repair_stays_within_the_limits() -> None:
    rows = [instance("p", PLAIN, "a0"), *(instance(f"e{at}", EXT, "a0") for at in range(3))]
    outcome = repaired(made(ROOMY, rows, "a0"), RegroupingLimits(moves=2), partial=True)
    assert len(outcome.after.moved) == 2
    assert why(outcome) == f"instance p: {STUCK}; the limits do not allow so many moves"


def test_groups_that_can_be_repaired_come_before_partial_repairs() -> None:
    sizes = {"a0": 10_000, "a1": 2500, "b0": 10_000, "b1": 2500, "c0": 10_000, "c1": 10_000}
    rows = [instance("p", PLAIN, "a0"), *(instance(f"a{at}", EXT, "a0", mem=3000) for at in range(3))]
    rows += [instance(f"b{at}", EXT, "b0", mem=3000) for at in range(2)]
    cluster = made(sizes, rows, "a0")
    nodes = tuple(replace(row, offline=row.name in ("a0", "b0")) for row in cluster.nodes)
    outcome = repaired(cluster := replace(cluster, nodes=nodes), partial=True)
    assert outcome.done == (1,)
    assert ways(cluster, outcome).keys() == {"a0", "b0", "b1"}
