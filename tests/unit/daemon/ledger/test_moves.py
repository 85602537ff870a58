from typing import Any

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate
from htoolsd.ledger.records import provider_uuid
from htoolsd.ledger.resources import Stations, cluster_resources, move_needs
from tests.support import by_hand

NODES = ("node1", "node2", "node3")
DISK = {"CUSTOM_DISK_MIB_LVM_VG": 1024, "CUSTOM_SPINDLES": 1}
RUNS = {"MEMORY_MB": 1000, "VCPU": 1}


def needs(*moves: tuple[Instance, Stations]) -> dict[str, Any]:
    """What moves need, by node."""
    rows = {row.name: row for row, _ in moves}
    places = cluster_resources(by_hand.cluster(dict.fromkeys(NODES, 10_000), list(rows.values())), "c1")
    names = {provider_uuid(f"c1/{node}"): node for node in NODES}
    found = move_needs([(row.name, stations) for row, stations in moves], rows, places)
    return {names[uuid]: dict(amounts) for uuid, amounts in found.items()}


def web(number: int, **facts: Any) -> Instance:
    return by_hand.instance(f"web{number}", DiskTemplate.DRBD, "node1", "node2", **facts)


def test_a_failover_needs_memory_and_cpus_of_the_secondary() -> None:
    assert needs((web(1), [("node2", "node1")])) == {"node2": RUNS}


def test_a_new_secondary_needs_disks() -> None:
    assert needs((web(1), [("node1", "node3")])) == {"node3": DISK}


def test_on_the_way_the_secondary_runs_the_instance() -> None:
    stations = [("node2", "node1"), ("node2", "node3"), ("node3", "node2")]
    assert needs((web(1), stations)) == {"node2": RUNS, "node3": DISK | RUNS}


def test_of_several_moves_the_sum() -> None:
    found = needs((web(1), [("node2", "node1")]), (web(2, mem=500), [("node2", "node1")]))
    assert found == {"node2": {"MEMORY_MB": 1500, "VCPU": 2}}


def test_an_instance_that_is_gone_needs_nothing() -> None:
    places = cluster_resources(by_hand.cluster(dict.fromkeys(NODES, 10_000), []), "c1")
    assert move_needs([("web1", [("node2", "node1")])], {}, places) == {}
