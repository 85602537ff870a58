import pytest

from ganeti_htools.engine.moves import Kind
from ganeti_htools.engine.traffic import copied
from ganeti_htools.model.types import DiskTemplate, Status
from tests.by_hand import instance


@pytest.mark.parametrize(
    ("kind", "disks", "memory"),
    [
        (Kind.FAILOVER, 0, 1000),
        (Kind.FAILOVER_TO, 0, 1000),
        (Kind.REPLACE_SECONDARY, 1024, 0),
        (Kind.REPLACE_AND_FAILOVER, 1024, 1000),
        (Kind.REPLACE_PRIMARY, 1024, 2000),
        (Kind.FAILOVER_AND_REPLACE, 1024, 1000),
    ],
)
def test_a_running_instance_is_migrated(kind: Kind, disks: int, memory: int) -> None:
    row = instance("a", DiskTemplate.DRBD, "n0", "n1")
    assert copied(kind, row) == (disks, memory)
    stopped = instance("a", DiskTemplate.DRBD, "n0", "n1", status=Status.DOWN)
    assert copied(kind, stopped) == (disks, 0)
