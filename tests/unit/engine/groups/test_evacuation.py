"""Nodes evacuated over the border of their group."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.allocation.evacuate import Evacuation, evacuate_nodes
from ganeti_htools.engine.groups.evacuation import evacuate_over_groups
from ganeti_htools.model.cluster import Cluster, Group, Instance, Nic
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.tags import NO_INTERGROUP
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, EvacMode
from tests.support.by_hand import instance, node

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN
OPTIONS = PlacementOptions(inter_group=True)
FULL = (
    "Can't find any good node:  Node h1 failed: FailMem; most missing: memory; closest: h1 lacks {} MiB;"
    " counted as FailMem: 1"
)


def made(*rows: Instance, here: int = 2500, **groups: Group) -> Cluster:
    """Two nodes at home, h0 and h1, which have little memory, and three in each of the other groups."""
    names = list(groups)
    sizes = {"h0": (here, "home"), "h1": (here, "home")}
    sizes |= {f"{name}{number}": (10_000, name) for name in names for number in range(3)}
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in sizes}
    return Cluster(
        (Group("home", "home"), *groups.values()),
        tuple(node(name, mem, used[name], group) for name, (mem, group) in sizes.items()),
        rows,
    )


def group(name: str, policy: AllocPolicy = AllocPolicy.PREFERRED, **facts: tuple[str, ...]) -> Group:
    return replace(Group(name, name, policy), **facts)  # type: ignore[arg-type]


def evacuated(cluster: Cluster, mode: EvacMode = EvacMode.ALL, *names: str) -> Evacuation:
    rows = [row for row, each in enumerate(cluster.instances) if not names or each.name in names]
    return evacuate_over_groups(derive(cluster), rows, mode, OPTIONS)


def places(cluster: Cluster, result: Evacuation) -> dict[str, str]:
    """The primary of each instance that moves."""
    return {
        cluster.instances[moved.instance].name: cluster.nodes[moved.nodes[0]].name for moved in result.moved
    }


def test_what_finds_no_place_goes_to_another_group() -> None:
    cluster = made(instance("a", EXT, "h0"), instance("b", EXT, "h0"), instance("c", EXT, "h0"), b=group("b"))
    usual = evacuate_nodes(derive(cluster), [0, 1, 2], EvacMode.PRIMARY, OPTIONS)
    result = evacuated(cluster, EvacMode.PRIMARY)
    assert result.failed == ()
    assert result.moved[: len(usual.moved)] == usual.moved
    assert [cluster.instances[index].name for index, _ in usual.failed] == ["c"]
    assert result.left == ((2, FULL.format(501)),)
    last = result.moved[-1]
    assert (last.instance, last.parts) == (2, (MovePart(Operation.FAILOVER_TO, last.nodes[0]),))
    assert result.state.group[last.nodes[0]] == 1
    assert result.state.pnode.tolist() == [*usual.state.pnode.tolist()[:2], last.nodes[0]]


def test_without_failures_result_is_that_within_groups() -> None:
    cluster = made(instance("a", EXT, "h0"), b=group("b"))
    usual = evacuate_nodes(derive(cluster), [0], EvacMode.PRIMARY, OPTIONS)
    result = evacuated(cluster, EvacMode.PRIMARY)
    assert (result.moved, result.failed, result.left) == (usual.moved, usual.failed, ())


@pytest.mark.parametrize(
    ("mode", "offline", "first"),
    [
        (EvacMode.ALL, (), ()),
        (EvacMode.SECONDARY, (), ()),
        (EvacMode.ALL, ("h0",), (MovePart(Operation.FAILOVER),)),
    ],
)
def test_a_mirrored_instance_goes_with_both_its_nodes(
    mode: EvacMode, offline: tuple[str, ...], first: tuple[MovePart, ...]
) -> None:
    cluster = made(instance("a", DRBD, "h0", "h1"), b=group("b"))
    nodes = tuple(replace(row, offline=row.name in offline) for row in cluster.nodes)
    result = evacuated(replace(cluster, nodes=nodes), mode)
    (moved,) = result.moved
    primary, secondary = moved.nodes
    assert {cluster.nodes[row].group for row in moved.nodes} == {"b"}
    assert moved.parts == (
        *first,
        MovePart(Operation.REPLACE_SECONDARY, primary),
        MovePart(Operation.FAILOVER),
        MovePart(Operation.REPLACE_SECONDARY, secondary),
    )


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        (AllocPolicy.LAST_RESORT, AllocPolicy.PREFERRED, "c"),
        (AllocPolicy.PREFERRED, AllocPolicy.LAST_RESORT, "b"),
        (AllocPolicy.LAST_RESORT, AllocPolicy.UNALLOCABLE, "b"),
    ],
)
def test_last_resort_group_takes_instances_only_if_no_other_can(
    first: AllocPolicy, second: AllocPolicy, taken: str
) -> None:
    cluster = made(instance("a", EXT, "h0", mem=9000), b=group("b", first), c=group("c", second))
    assert places(cluster, evacuated(cluster))["a"][0] == taken


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (group("b", AllocPolicy.UNALLOCABLE), "group b is unallocable"),
        (group("b", tags=(NO_INTERGROUP,)), f"group b has the tag {NO_INTERGROUP}"),
        (group("b"), "group b lacks a network of it"),
        (
            group("b", networks=("net",)),
            "no room in b (most missing: memory; closest: b0 lacks 10001 MiB; counted as FailMem: 3)",
        ),
    ],
)
def test_reason_names_why_other_groups_refuse(target: Group, why: str) -> None:
    mem = 20_000 if target.networks else 2600
    rows = instance("a", EXT, "h0", mem=mem, nics=(Nic(network="net"),)), instance("b", EXT, "h1", mem=2000)
    result = evacuated(made(*rows, b=target), EvacMode.ALL, "a")
    assert (result.moved, result.left) == ((), ())
    assert result.failed == ((0, f"{FULL.format(mem - 499)}; {why}"),)


def test_nointergroup_tag_of_cluster_keeps_instances() -> None:
    cluster = made(instance("a", EXT, "h0", mem=9000), b=group("b"))
    result = evacuated(replace(cluster, tags=(NO_INTERGROUP,)))
    assert result.failed == ((0, f"{FULL.format(6501)}; the cluster has the tag {NO_INTERGROUP}"),)
    assert evacuated(cluster).left


def test_single_group_leaves_failures_unchanged() -> None:
    assert evacuated(made(instance("a", EXT, "h0", mem=9000))).failed == (
        (0, f"{FULL.format(6501)}; there is no other group"),
    )


@pytest.mark.parametrize(
    ("row", "mode"),
    [
        (instance("a", PLAIN, "h0"), EvacMode.ALL),
        (instance("a", EXT, "h0"), EvacMode.SECONDARY),
        (instance("a", DRBD, "h0"), EvacMode.ALL),
    ],
)
def test_what_cannot_be_moved_stays_for_its_own_reason(row: Instance, mode: EvacMode) -> None:
    cluster = made(row, b=group("b"))
    usual = evacuate_nodes(derive(cluster), [0], mode, OPTIONS)
    result = evacuated(cluster, mode)
    assert usual.failed
    assert (result.moved, result.failed, result.left) == ((), usual.failed, ())


def test_a_group_in_which_a_node_is_evacuated_takes_nothing() -> None:
    rows = instance("a", EXT, "h0", mem=9000), instance("b", EXT, "b0")
    result = evacuated(made(*rows, b=group("b")))
    assert [result.state.group_name(moved.nodes[0]) for moved in result.moved] == ["b"]
    assert result.failed == ((0, f"{FULL.format(6501)}; there is no other group"),)
