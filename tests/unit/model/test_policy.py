from dataclasses import replace

import pytest

from ganeti_htools.model.policy import DEFAULT_IPOLICY, Demand, IPolicy, ISpec, MinMax, violation
from ganeti_htools.model.types import DiskTemplate, Fail

LOW = ISpec(memory_size=100, cpu_count=2, disk_size=10, disk_count=1, nic_count=1, spindle_use=2)
HIGH = ISpec(memory_size=200, cpu_count=4, disk_size=20, disk_count=2, nic_count=2, spindle_use=4)
LARGE = MinMax(replace(LOW, memory_size=1000), replace(HIGH, memory_size=2000))
TEMPLATES = (DiskTemplate.DRBD, DiskTemplate.DISKLESS)
POLICY = IPolicy((MinMax(LOW, HIGH),), LOW, TEMPLATES, 4.0, 32.0)
GOOD = Demand(150, 3, (15, 15), DiskTemplate.DRBD, 3, 3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"memory": 100}, None),
        ({"memory": 200}, None),
        ({"memory": 99}, Fail.MEM),
        ({"memory": 201}, Fail.MEM),
        ({"vcpus": 1}, Fail.CPU),
        ({"vcpus": 5}, Fail.CPU),
        ({"disk_sizes": (15, 9)}, Fail.DISK),
        ({"disk_sizes": (21, 15)}, Fail.DISK),
        ({"disk_sizes": (15, 15, 15)}, Fail.DISK_COUNT),
        ({"disk_sizes": ()}, Fail.DISK_COUNT),
        ({"disk_sizes": (), "template": DiskTemplate.DISKLESS}, None),
        ({"spindle_use": 1}, Fail.SPINDLES),
        ({"spindle_use": 5}, Fail.SPINDLES),
        ({"spindles": None}, None),
        ({"template": DiskTemplate.PLAIN}, Fail.DISK),
        ({"template": DiskTemplate.PLAIN, "memory": 1}, Fail.MEM),
        ({"memory": 1, "vcpus": 1, "disk_sizes": (1,)}, Fail.MEM),
        ({"memory": 201, "vcpus": 1}, Fail.CPU),  # the lower bounds are looked at first
    ],
)
def test_policy_refuses_figures_out_of_bounds(change: dict[str, object], reason: Fail | None) -> None:
    assert violation(GOOD._replace(**change), POLICY, exclusive=False) is reason  # type: ignore[arg-type]


@pytest.mark.parametrize(("spindles", "reason"), [(None, Fail.SPINDLES), (1, Fail.SPINDLES), (4, None)])
def test_with_exclusive_storage_spindles_count(spindles: int | None, reason: Fail | None) -> None:
    demand = GOOD._replace(spindles=spindles, spindle_use=99)
    assert violation(demand, POLICY, exclusive=True) is reason


def test_one_interval_has_to_match() -> None:
    policy = replace(POLICY, minmax=(*POLICY.minmax, LARGE))
    assert violation(GOOD._replace(memory=1500), policy, exclusive=False) is None
    assert violation(GOOD._replace(memory=500), policy, exclusive=False) is Fail.MEM
    between = GOOD._replace(memory=1500, vcpus=9)
    assert violation(between, policy, exclusive=False) is Fail.MEM  # the first interval says why


def test_without_intervals_any_size_will_do() -> None:
    policy = replace(POLICY, minmax=())
    assert violation(GOOD._replace(memory=1 << 40), policy, exclusive=True) is None
    assert violation(GOOD._replace(template=DiskTemplate.EXT), policy, exclusive=True) is Fail.DISK


def test_the_default_is_ganetis() -> None:
    small = Demand(128, 1, (1024,), DiskTemplate.PLAIN, 1, None)
    large = Demand(32768, 8, (1024 * 1024,) * 16, DiskTemplate.GLUSTER, 12, None)
    for demand in (small, large):
        assert violation(demand, DEFAULT_IPOLICY, exclusive=False) is None
    assert violation(small._replace(memory=127), DEFAULT_IPOLICY, exclusive=False) is Fail.MEM
    assert violation(large._replace(spindle_use=13), DEFAULT_IPOLICY, exclusive=False) is Fail.SPINDLES
    assert (DEFAULT_IPOLICY.vcpu_ratio, DEFAULT_IPOLICY.spindle_ratio) == (4.0, 32.0)
