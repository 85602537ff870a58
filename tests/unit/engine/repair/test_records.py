"""The rules are those of Ganeti's harep; ``tests/oracle/test_harep.py`` compares."""

import pytest

from ganeti_htools.engine.repair.records import Outcome, Repair, RepairType, parse

PENDING = "ganeti:watcher:autorepair:pending:"
RESULT = "ganeti:watcher:autorepair:result:"


@pytest.mark.parametrize(
    ("tag", "repair"),
    [
        (f"{PENDING}failover:id-1:1000:5", Repair(RepairType.FAILOVER, "id-1", 1000, (5,))),
        (f"{PENDING}migrate:id-1:-1:", Repair(RepairType.MIGRATE, "id-1", -1)),
        (
            f"{RESULT}fix-storage:id-1:1000:success:5+6",
            Repair(RepairType.FIX_STORAGE, "id-1", 1000, (5, 6), Outcome.SUCCESS),
        ),
        (
            f"{RESULT}reinstall:id-1:1000:enoperm:",
            Repair(RepairType.REINSTALL, "id-1", 1000, (), Outcome.NOT_ALLOWED),
        ),
    ],
)
def test_tags_are_read_and_written(tag: str, repair: Repair) -> None:
    assert repair.tag == tag
    read = parse(tag)
    assert read is not None
    assert (read.type, read.id, read.time, read.jobs, read.outcome) == (
        *(repair.type, repair.id, repair.time),
        *(repair.jobs, repair.outcome),
    )


@pytest.mark.parametrize(
    "tag",
    [
        "ganeti:watcher:autorepair:failover",
        "ganeti:watcher:autorepair:pending",
        PENDING,
        f"{PENDING}failover:id:1000",
        f"{PENDING}failover:id:1000:5:6",
        f"{PENDING}failover:id:1000:success:5",
        f"{PENDING}repaint:id:1000:5",
        f"{PENDING}failover:id:soon:5",
        f"{PENDING}failover:id:1000:5+",
        f"{PENDING}failover:id:1000:-5",
        f"{PENDING}failover:id:1000:5.0",
        f"{RESULT}failover:id:1000:5",
        f"{RESULT}failover:id:1000:maybe:5",
        f"{RESULT}failover:id:1000:success",
        f"x{PENDING}failover:id:1000:5",
    ],
)
def test_malformed_tags_record_nothing(tag: str) -> None:
    assert parse(tag) is None


def test_a_tag_in_another_notation_keeps_its_text() -> None:
    tag = f"{PENDING}failover:id:01000:007"
    repair = parse(tag)
    assert repair is not None
    assert (repair.jobs, repair.tag) == ((7,), tag)
    assert repair.ended(Outcome.FAILURE, 2000).tag == f"{RESULT}failover:id:2000:failure:7"
