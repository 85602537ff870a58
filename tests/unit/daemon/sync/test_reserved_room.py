from dataclasses import replace

from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from htoolsd.sync.reserved_room import (
    Reservations,
    update_reservations,
    with_promises_reserved,
    with_reservations,
)
from tests.support import by_hand

SAN, NAS = (DesiredUnit(StorageType.EXT, key) for key in ("san", "nas"))
CLUSTER = replace(
    by_hand.cluster({"node1": 1000, "node2": 1000}, []), pools=(Pool(SAN, 1000, 100), Pool(NAS, 500))
)
GPU = (("CUSTOM_GPU", Inventory(2)),)


def test_nodes_and_pools_get_the_reservations() -> None:
    one, two = with_reservations(CLUSTER, Reservations({"node2": GPU}, {SAN: 300})).nodes
    assert one is CLUSTER.nodes[0]
    assert two == replace(CLUSTER.nodes[1], inventories=GPU)
    assert with_reservations(CLUSTER, Reservations({}, {SAN: 300})).pools == (
        Pool(SAN, 1000, 100, taken=300),
        Pool(NAS, 500),
    )


def test_pools_get_the_settings_of_administrators() -> None:
    tagged = replace(CLUSTER, pool_settings=((SAN, Inventory(0, 7)), (NAS, Inventory(0, 8))))
    found = with_reservations(tagged, Reservations(pool_settings={NAS: Inventory(500, 9)}))
    assert dict(found.pool_settings) == {SAN: Inventory(0, 7), NAS: Inventory(500, 9)}


def test_cluster_without_reservations_is_the_same_object() -> None:
    assert with_reservations(CLUSTER, Reservations()) is CLUSTER


def test_generation_rises_only_with_a_change() -> None:
    first = update_reservations(Reservations(), Reservations({"node2": GPU}))
    assert (first.inventories, first.generation) == ({"node2": GPU}, 1)
    assert update_reservations(first, Reservations({"node2": GPU})) is first
    assert update_reservations(first, Reservations()).generation == 2


def test_promises_are_added_to_what_is_reserved() -> None:
    reserved = Reservations(
        {"node2": (*GPU, ("MEMORY_MB", Inventory(1000, 100)))},
        promises={"node2": {"MEMORY_MB": 50, "CUSTOM_GPU": 1}, "gone": {"VCPU": 1}},
    )
    cluster = with_reservations(CLUSTER, reserved)
    one, two = with_promises_reserved(cluster, reserved).nodes
    assert one is CLUSTER.nodes[0]
    assert dict(two.inventories) == {"CUSTOM_GPU": Inventory(2, 1), "MEMORY_MB": Inventory(1000, 150)}
    assert with_promises_reserved(cluster, Reservations({"node2": GPU})) is cluster
