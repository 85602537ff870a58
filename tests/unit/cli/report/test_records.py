from dataclasses import dataclass

import pytest

from ganeti_htools.cli.report.records import policy_record, record
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate, Status


@dataclass(frozen=True)
class Thing:
    name: str
    status: Status
    template: DiskTemplate
    pnode: str | None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (7, "7"),
        (None, "None"),
        ("a", '"a"'),
        ('a"\\', '"a\\"\\\\"'),
        (("a", 1), '["a",1]'),
        ((), "[]"),
        (Status.RUNNING, "Running"),
        (Status.DOWN, "StatusDown"),
        (Status.OFFLINE, "StatusOffline"),
        (DiskTemplate.SHARED_FILE, "SharedFile"),
    ],
)
def test_values(value: object, told: str) -> None:
    assert record(value) == told


def test_fields_have_the_names_that_scripts_know() -> None:
    thing = Thing("web", Status.RUNNING, DiskTemplate.PLAIN, None)
    assert record(thing) == 'Thing {name = "web", runSt = Running, diskTemplate = Plain, pNode = None}'


def test_a_policy() -> None:
    told = policy_record(DEFAULT_IPOLICY)
    assert told.startswith(
        "IPolicy {iPolicyMinMaxISpecs = [MinMaxISpecs {minMaxISpecsMinSpec = ISpec {iSpecMemorySize = 128, "
    )
    assert "iPolicyDiskTemplates = [DT" in told
    assert "DTDrbd8" in told
    assert told.endswith("iPolicyVcpuRatio = 4.0, iPolicySpindleRatio = 32.0}")
