from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import (
    Cluster,
    Disk,
    Group,
    Instance,
    Load,
    Node,
    check,
    common_suffix,
    silent_nodes,
    with_loads,
    without_loads,
)
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import Status

INSTANCE = Instance("i", 128, 256, (Disk(128),), 1, pnode="n1", snode="n2")
CLUSTER = Cluster((Group("g", "u"),), (Node("n1", "u"), Node("n2", "u")), (INSTANCE,))


def changed(**change: object) -> Cluster:
    return replace(CLUSTER, instances=(replace(INSTANCE, **change),))  # type: ignore[arg-type]


def test_accepts_consistent_cluster() -> None:
    check(CLUSTER)
    check(changed(snode=None))
    check(Cluster())


@pytest.mark.parametrize(
    ("cluster", "error"),
    [
        (changed(pnode="x"), "Unknown node 'x' for instance i"),
        (changed(pnode=""), "Unknown node '' for instance i"),
        (changed(snode="x"), "Unknown node 'x' for instance i"),
        (changed(snode="n1"), "Instance i has same primary and secondary node - n1"),
        (replace(CLUSTER, groups=()), "Unknown group 'u' for node n1"),
        (replace(CLUSTER, groups=CLUSTER.groups * 2), "group 'u' appears more than once"),
        (replace(CLUSTER, nodes=CLUSTER.nodes * 2), "node 'n1' appears more than once"),
        (replace(CLUSTER, instances=(INSTANCE, INSTANCE)), "instance 'i' appears more than once"),
    ],
)
def test_refuses_inconsistent_cluster_naming_first_failure(cluster: Cluster, error: str) -> None:
    with pytest.raises(DataError, match=f"^{error}$"):
        check(cluster)


def test_loads_are_replaced_by_name() -> None:
    cluster = replace(CLUSTER, instances=(INSTANCE, replace(INSTANCE, name="j")))
    load = Load(2.0, 3.0, 4.0, 5.0)
    loaded = with_loads(cluster, {"j": load, "unknown": load})
    assert [each.load for each in loaded.instances] == [Load(), load]
    assert loaded.instances[0] is cluster.instances[0]


def test_spindles_are_unknown_if_one_disk_has_none() -> None:
    def spindles(*disks: int | None) -> int | None:
        return replace(INSTANCE, disks=tuple(Disk(1, count) for count in disks)).spindles

    assert [spindles(), spindles(1, 2), spindles(1, None)] == [0, 3, None]


def test_memory_that_an_instance_takes() -> None:
    def uses(**change: object) -> tuple[bool, bool]:
        instance = replace(INSTANCE, **change)  # type: ignore[arg-type]
        return instance.uses_memory, instance.uses_secondary_memory

    assert uses() == (True, True)
    assert uses(status=Status.DOWN) == (False, True)
    assert uses(status=Status.OFFLINE) == (False, False)
    assert uses(auto_balance=False) == (True, False)
    assert uses(forthcoming=True) == (False, True)


@pytest.mark.parametrize(
    ("names", "suffix"),
    [
        ((), ""),
        (("a", "b"), ""),
        (("a.x.y", "b.x.y"), ".x.y"),
        (("a.x.y", "b.z.y"), ".y"),
        (("a.x.y", "ba.x.y", "c"), ""),
        (("a.xy", "b.y"), ""),
    ],
)
def test_the_domain_that_all_names_share(names: tuple[str, ...], suffix: str) -> None:
    node, instance = CLUSTER.nodes[0], INSTANCE
    cluster = Cluster(
        nodes=tuple(replace(node, name=name) for name in names[:-1]),
        instances=tuple(replace(instance, name=name) for name in names[-1:]),
    )
    assert common_suffix(cluster) == suffix


def test_without_loads_all_loads_are_zero() -> None:
    (row,) = without_loads(changed(load=Load(1.0, 2.0, 3.0, 4.0))).instances
    assert row.load == Load(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("instances", "concerned"),
    [((), ["rack2"]), ((INSTANCE,), ["rack1", "rack2"]), ((replace(INSTANCE, snode=None),), ["rack2"])],
)
def test_silent_node_concerns_its_group_and_those_of_its_instances(
    instances: tuple[Instance, ...], concerned: list[str]
) -> None:
    """A mirror whose node is silent is not lost, so the group of its instance repairs nothing."""
    groups = Group("rack1", "u"), Group("rack2", "v"), Group("rack3", "w")
    nodes = Node("n1", "u"), Node("n2", "v", offline=True, silent=True)
    cluster = Cluster(groups, nodes, instances)
    found = {group.name: silent_nodes(cluster, (group.name,)) for group in groups}
    assert found == {group.name: ("n2",) if group.name in concerned else () for group in groups}
