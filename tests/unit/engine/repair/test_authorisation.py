import pytest

from ganeti_htools.engine.repair.authorisation import Allowed, Authorisation, Suspended, authorisation
from ganeti_htools.engine.repair.records import RepairType

NOW = 1000.5
FAILOVER, FIX = Allowed(RepairType.FAILOVER), Allowed(RepairType.FIX_STORAGE)


@pytest.mark.parametrize(
    ("instance", "group", "cluster", "expected"),
    [
        ("", "", "", None),
        ("failover", "", "", FAILOVER),
        ("", "failover", "", FAILOVER),
        ("", "", "failover", FAILOVER),
        # The nearest object decides, even if it allows less or more.
        ("fix-storage", "failover", "reinstall", FIX),
        ("failover", "", "fix-storage", FAILOVER),
        ("", "failover", "suspend", FAILOVER),
        ("", "suspend", "failover", Suspended()),
        # In one object the least destructive type counts.
        ("reinstall fix-storage failover", "", "", FIX),
        # Suspension outranks types.
        ("failover suspend", "", "", Suspended()),
        ("failover suspend:", "", "", Suspended()),
        ("failover suspend:2000", "", "", Suspended(2000)),
        ("suspend:2000 suspend:3000 suspend:10", "", "", Suspended(3000)),
        ("suspend:2000 suspend", "", "", Suspended()),
        ("suspend:1001", "", "", Suspended(1001)),
        # What has passed or is malformed does not count.
        ("failover suspend:1000", "", "", FAILOVER),
        ("suspend:1000", "", "fix-storage", FIX),
        ("suspend:-5 failover", "", "", FAILOVER),
        ("suspend:tomorrow failover", "", "", FAILOVER),
        ("suspend:2000: failover", "", "", FAILOVER),
        ("suspended failover", "", "", FAILOVER),
        ("failover: Failover everything pending", "", "fix-storage", FIX),
    ],
)
def test_rules(instance: str, group: str, cluster: str, expected: Authorisation) -> None:
    levels = [
        [f"ganeti:watcher:autorepair:{word}" for word in words.split()]
        for words in (instance, group, cluster)
    ]
    assert authorisation(levels, NOW) == expected


def test_other_tags_allow_nothing() -> None:
    assert authorisation([["failover", "autorepair:failover", "ganeti:watcher:autorepair"]], NOW) is None
