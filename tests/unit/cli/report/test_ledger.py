"""What the daemon tells of the ledger, as text."""

from ganeti_htools.cli.report import ledger

NODE = {"uuid": "123", "name": "c/node1", "generation": 7, "can_host": True}
POOL = {"uuid": "45", "name": "ceph", "generation": 12, "can_host": False}
GPU = {
    "total": 8,
    "reserved": 2,
    "min_unit": 1,
    "max_unit": None,
    "step_size": 1,
    "allocation_ratio": 1.5,
    "capacity": 9,
}


def test_providers() -> None:
    assert ledger.providers([NODE, POOL]).splitlines() == [
        " Provider Generation Hosts UUID",
        " c/node1           7 yes   123 ",
        " ceph             12 no    45  ",
    ]
    assert ledger.providers([]) == "there are no resource providers"


def test_inventories() -> None:
    told = [{**NODE, "inventories": {"CUSTOM_GPU": GPU}}, {**POOL, "inventories": {}}]
    assert ledger.inventories(told).splitlines() == [
        " Provider Class      Total Reserved Min Max Step Ratio Capacity",
        " c/node1  CUSTOM_GPU     8        2   1   -    1   1.5        9",
    ]
    assert ledger.inventories([]) == "there is nothing"


def test_usages() -> None:
    told = [{**POOL, "usages": {"CUSTOM_DISK_MIB": {"used": 1200, "capacity": 1000}}}]
    assert ledger.usages(told).splitlines() == [
        " Provider Class           Used Capacity Left",
        " ceph     CUSTOM_DISK_MIB 1200     1000 -200",
    ]


def test_allocations() -> None:
    plain = {"uuid": "1", "generation": 1, "expires": None, "promised": False, "beyond": False}
    held = {"provider": "123", "name": "c/node1", "generation": 7, "resources": {"VCPU": 1, "MEMORY_MB": 5}}
    told = [
        {**plain, "name": "c/web", "kind": "instance", "allocations": [held]},
        {**plain, "name": "c/new", "kind": "instance", "allocations": []}
        | {"expires": 0.0, "promised": True, "beyond": True},
    ]
    first, second, third = ledger.allocations(told).splitlines()
    assert (first, second) == ("c/web (instance)", "  c/node1: VCPU 1, MEMORY_MB 5")
    assert third.startswith("c/new (instance, promised, beyond the capacity, until 19")
    assert ledger.allocations([]) == "nothing is allocated"
    assert ledger.released(told[0]) == "c/web has nothing any more"
