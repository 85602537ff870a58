from dataclasses import replace

from ganeti_htools.cli.report import allocation, capacity, capacity_keys, layout
from ganeti_htools.cli.report.allocation import STANDARD, TIERED, Allocation
from ganeti_htools.cli.report.totals import total
from ganeti_htools.engine.capacity.counting import Capacity
from ganeti_htools.engine.capacity.obstacles import Obstacle, Obstruction
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support import by_hand

STATE = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [by_hand.instance("i", DiskTemplate.EXT, "n0")]))
SIZE = InstanceSize(1024, 2048, 1, 1)
INITIAL = total(STATE)
FULL = Capacity(STATE, ((SIZE, 3),), {Fail.MEM: 2, Fail.CPU: 5})
ALLOCATION = Allocation(TIERED, InstanceKind(DiskTemplate.PLAIN, 1), SIZE, STATE, FULL, None)
FIXED = replace(ALLOCATION, mode=STANDARD)


def test_the_most_frequent_failure_is_told() -> None:
    told = capacity.results(ALLOCATION, INITIAL)
    assert "  -   3 instances of spec MEM 1024, DSK 2048, CPU 1\n" in told
    assert "  - most likely failure reason: FailCPU\n" in told
    keys = capacity_keys.results(FIXED, INITIAL)
    assert "HTS_ALLOC_INSTANCES=3\nHTS_ALLOC_FAIL_REASON=FAILCPU\n" in keys


def test_tiers_have_a_key() -> None:
    assert "HTS_TSPEC='1024,2048,1,1=3'\n" in capacity_keys.results(ALLOCATION, INITIAL)


def test_the_size_that_was_asked_for() -> None:
    told = capacity.spec(FIXED)
    assert told.startswith("Standard (fixed-size) instance spec is:\n  MEM 1024, DSK 2048, CPU 1, using")
    assert "HTS_SPEC_RQN=1\n" in capacity_keys.spec(FIXED)
    assert allocation.allocation_json(FIXED)["spec"] == {"mem": 1024, "dsk": 2048, "vcpus": 1, "spindles": 1}


def test_obstacles_are_named_up_to_a_number() -> None:
    names = tuple(f"i{number}" for number in range(layout.NAMED + 2))
    nodes = tuple(Obstacle(f"n{number}", names) for number in range(layout.NAMED + 1))
    told = capacity.obstacles(Obstruction(more=False, unchecked=7, obstacles=nodes))
    assert len(told) == layout.NAMED + 2
    assert told[0].startswith("n0 cannot fail without loss: i0, i1, ")
    assert told[0].endswith(" and 2 more would not come back")
    assert told[-2:] == ["nor another node", "without this check 7 would fit"]
    assert capacity.obstacles(None) == []


def test_new_instances_are_mapped() -> None:
    (row,) = capacity.instance_map(STATE, 0).splitlines()
    assert row.split() == ["i", "n0", "1000", "1024", "1"]
    assert capacity.instance_map(STATE, 1) == ""
