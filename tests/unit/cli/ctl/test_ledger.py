"""What the daemon tells of the ledger, as text."""

from ganeti_htools.cli.ctl import ledger

NODE = {"uuid": "123", "name": "c/node1", "generation": 7, "can_host": True}
POOL = {"uuid": "45", "name": "ceph", "generation": 12, "can_host": False}
GPU = {
    "total": 8,
    "reserved": 2,
    "min_unit": 1,
    "max_unit": None,
    "step_size": 1,
    "allocation_ratio": 1.5,
    "tagged": True,
    "capacity": 9,
}


def test_providers() -> None:
    assert ledger.providers([NODE, POOL]).splitlines() == [
        " Provider Generation Hosts UUID",
        " c/node1           7 yes   123 ",
        " ceph             12 no    45  ",
    ]
    assert ledger.providers([]) == "no resource providers"


def test_inventories() -> None:
    told = [{**NODE, "inventories": {"CUSTOM_GPU": GPU}}, {**POOL, "inventories": {}}]
    assert ledger.inventories(told).splitlines() == [
        " Provider Class      Total Reserved Min Max Step Ratio Capacity",
        " c/node1  CUSTOM_GPU     8        2   1   -    1   1.5        9",
    ]
    assert ledger.inventories([]) == "no inventories"


def test_names_settings_that_are_in_no_tag() -> None:
    untagged, usual = {**GPU, "tagged": False}, {**GPU, "reserved": 0, "tagged": False}
    found = {"CUSTOM_GPU": usual, "CUSTOM_X": GPU, "MEMORY_MB": untagged, "VCPU": usual}
    told = [{**NODE, "inventories": found}, {**POOL, "inventories": {"CUSTOM_DISK_MIB_POOL": untagged}}]
    note = "In this ledger only, in no tag; set again: c/node1 CUSTOM_GPU, c/node1 MEMORY_MB"
    assert ledger.inventories(told).splitlines()[-1] == note


def test_cpus_of_the_node_as_largest_amount_are_no_setting() -> None:
    usual = {**GPU, "reserved": 0, "tagged": False}
    for total, most in ((8, 8), (0, 1)):
        told = [{**NODE, "inventories": {"VCPU": {**usual, "total": total, "max_unit": most}}}]
        assert "In this ledger only" not in ledger.inventories(told)
    fewer = [{**NODE, "inventories": {"VCPU": {**usual, "max_unit": 4}}}]
    assert ledger.inventories(fewer).endswith("set again: c/node1 VCPU")


def test_usages() -> None:
    told = [{**POOL, "usages": {"CUSTOM_DISK_MIB": {"used": 1200, "capacity": 1000}}}]
    assert ledger.usages(told).splitlines() == [
        " Provider Class           Used Capacity Left",
        " ceph     CUSTOM_DISK_MIB 1200     1000 -200",
    ]


def test_usages_of_several_providers_have_totals_by_class() -> None:
    told = [
        {**NODE, "usages": {"CUSTOM_GPU": {"used": 1, "capacity": 4}, "VCPU": {"used": 2, "capacity": 8}}},
        {**POOL, "usages": {"CUSTOM_DISK_MIB_POOL": {"used": 5, "capacity": None}}},
        {**POOL, "name": "ssd", "usages": {"CUSTOM_DISK_MIB_POOL": {"used": 1, "capacity": 9}}},
        {**NODE, "name": "c/node2", "usages": {"CUSTOM_GPU": {"used": 2, "capacity": 4}}},
    ]
    assert [line.split() for line in ledger.usages(told).splitlines()[2:4]] == [
        ["c/node1", "VCPU", "2", "8", "6"],
        ["ceph", "CUSTOM_DISK_MIB_POOL", "5", "-", "-"],
    ]
    assert [line.split() for line in ledger.usages(told).splitlines()[-3:]] == [
        ["total", "CUSTOM_DISK_MIB_POOL", "6", "-", "-"],
        ["total", "CUSTOM_GPU", "3", "8", "5"],
        ["total", "VCPU", "2", "8", "6"],
    ]


def test_allocations() -> None:
    plain = {"uuid": "1", "generation": 1, "expires": None, "pending": False, "over_capacity": False}
    held = {"provider": "123", "name": "c/node1", "generation": 7, "resources": {"VCPU": 1, "MEMORY_MB": 5}}
    told = [
        {**plain, "name": "c/web", "kind": "instance", "allocations": [held]},
        {**plain, "name": "c/new", "kind": "instance", "allocations": []}
        | {"expires": 0.0, "pending": True, "over_capacity": True},
    ]
    first, second, third = ledger.allocations(told).splitlines()
    assert (first, second) == ("c/web (instance)", "  c/node1: VCPU 1, MEMORY_MB 5")
    assert third.startswith("c/new (instance, not in Ganeti yet, exceeds the capacity, until 19")
    assert ledger.allocations([]) == "no allocations"
    assert ledger.released(told[0]) == "the claim of c/web has ended"
