"""Allocation candidates of a ledger that follows a small cluster."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from htoolsd.follow.candidates import allocation_candidates, pools_of_nodes
from htoolsd.follow.desired_state import desired_state
from htoolsd.follow.diff import diff
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Consumer, UnknownError, consumer_uuid, provider_uuid
from tests.support import by_hand
from tests.support.ledgers import standing

GPU, RBD = "CUSTOM_GPU", DesiredUnit(StorageType.RADOS, "rbd")
FIGURES = {"node1": Inventory(4), "node2": Inventory(8, max_unit=2), "node3": Inventory(4, 3)}


def small_cluster() -> Cluster:
    """Four nodes, the last one without GPUs; the pool is seen by the first two."""
    cluster = by_hand.cluster(dict.fromkeys((*FIGURES, "node4"), 1000), ())
    nodes = [
        replace(node, tags=("htools:storage:rados/rbd",) if node.name in ("node1", "node2") else ())
        for node in cluster.nodes
    ]
    return replace(cluster, nodes=tuple(nodes), pools=(Pool(RBD, 1000),))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    made.apply(diff(desired_state(small_cluster(), "c"), made.snapshot()))
    for name, inventory in FIGURES.items():
        provider = standing(made, provider_uuid(f"c/{name}")).provider
        made.set_inventory(provider.uuid, provider.generation, GPU, inventory)
    yield made
    made.close()


def found(
    ledger: Ledger,
    cluster: Cluster | None = None,
    group: str | None = None,
    consumer: str = "",
    **wanted: int,
) -> list[str]:
    """Return the names of the candidates' providers."""
    desired, now = desired_state(cluster or small_cluster(), "c"), ledger.snapshot()
    nodes = pools_of_nodes(desired, group)
    candidates = allocation_candidates(now, nodes, wanted, consumer_uuid(consumer))
    names = {uuid: each.name.removeprefix("c/") for uuid, each in now.providers.items()}
    return ["+".join(names[uuid] for uuid in each.allocations) for each in candidates]


def test_refuses_class_that_no_provider_has(ledger: Ledger) -> None:
    with pytest.raises(UnknownError, match=r"^no node has CUSTOM_GPX; known: CUSTOM_GPU, "):
        found(ledger, CUSTOM_GPX=1, MEMORY_MB=1)


def claim(ledger: Ledger, name: str, provider: str, **amounts: int) -> None:
    ledger.claim(Consumer(consumer_uuid(name), name, "claim"), {provider_uuid(f"c/{provider}"): amounts}, {})


def test_best_is_the_node_of_which_the_largest_share_stays_free(ledger: Ledger) -> None:
    assert found(ledger, CUSTOM_GPU=1) == ["node2", "node1", "node3"]
    claim(ledger, "tests", "node2", CUSTOM_GPU=2)
    claim(ledger, "more", "node2", CUSTOM_GPU=2)
    assert found(ledger, CUSTOM_GPU=1) == ["node1", "node2", "node3"]


def test_scarcest_of_several_classes_decides_the_order(ledger: Ledger) -> None:
    memory = standing(ledger, provider_uuid("c/node2")).inventories["MEMORY_MB"].capacity
    claim(ledger, "tests", "node2", MEMORY_MB=memory * 9 // 10)
    assert found(ledger, CUSTOM_GPU=1, MEMORY_MB=1) == ["node1", "node2", "node3"]


def test_amount_heeds_the_limits_of_the_inventory(ledger: Ledger) -> None:
    assert found(ledger, CUSTOM_GPU=3) == ["node1"]
    assert found(ledger, CUSTOM_GPU=5) == []


def test_claim_of_the_same_consumer_counts_as_free(ledger: Ledger) -> None:
    claim(ledger, "tests", "node1", CUSTOM_GPU=4)
    assert found(ledger, CUSTOM_GPU=4) == []
    assert found(ledger, CUSTOM_GPU=4, consumer="tests") == ["node1"]


def test_offline_nodes_and_other_groups_are_no_candidates(ledger: Ledger) -> None:
    cluster = small_cluster()
    other = replace(cluster.groups[0], name="other", uuid="uuid-other")
    nodes = {node.name: node for node in cluster.nodes}
    nodes["node1"] = replace(nodes["node1"], offline=True)
    nodes["node3"] = replace(nodes["node3"], group=other.uuid)
    changed = replace(cluster, groups=(*cluster.groups, other), nodes=tuple(nodes.values()))
    assert found(ledger, changed, CUSTOM_GPU=1) == ["node2", "node3"]
    assert found(ledger, changed, "other", CUSTOM_GPU=1) == ["node3"]
    first: Group = cluster.groups[0]
    assert found(ledger, changed, first.name, CUSTOM_GPU=1) == ["node2"]
    with pytest.raises(UnknownError, match="there is no node group nowhere"):
        found(ledger, changed, "nowhere", CUSTOM_GPU=1)


def test_pool_space_is_on_a_pool_that_the_node_sees(ledger: Ledger) -> None:
    assert found(ledger, CUSTOM_DISK_MIB_POOL=100) == ["rados/rbd"]
    assert found(ledger, CUSTOM_GPU=1, CUSTOM_DISK_MIB_POOL=100) == ["node2+rados/rbd", "node1+rados/rbd"]
    assert found(ledger, CUSTOM_GPU=1, CUSTOM_DISK_MIB_POOL=1001) == []
