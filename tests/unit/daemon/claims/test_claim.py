"""The end of a claim: no job carries out the promise any more."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.claims.claim import Claim, check_claim, is_fulfilled, new_claim
from htoolsd.sync.job_queue import PendingWork
from tests.support.by_hand import instance

ROW = instance("new.example.org", DiskTemplate.DRBD, "a", "b")
CREATED, MOVED = Promise(ROW, new=True), Promise(ROW, new=False)
CLAIM = new_claim(CREATED, 100.0, 600.0, "job")


def opcode(kind: str, **fields: Any) -> dict[str, Any]:
    return {"OP_ID": f"OP_{kind}", **fields}


def work(asked: float, *opcodes: dict[str, Any]) -> PendingWork:
    """Return the work of jobs that have one of these opcodes and a delay each."""
    return PendingWork(asked, {number: [each, opcode("TEST_DELAY")] for number, each in enumerate(opcodes)})


CREATING = opcode("INSTANCE_CREATE", instance_name="new.example.org")
MANY = opcode("INSTANCE_MULTI_ALLOC", instances=[opcode("INSTANCE_CREATE", instance_name="old"), CREATING])


@pytest.mark.parametrize("job", [CREATING, MANY, CREATING | {"instance_name": "new"}])
def test_time_of_its_job_does_not_count(job: dict[str, Any]) -> None:
    first = check_claim(CLAIM, work(150.0, job))
    assert first
    assert (first.expires, first.job_seen) == (750.0, True)
    second = check_claim(first, work(2000.0, job))
    assert second
    assert second.expires == 2600.0
    assert check_claim(second, work(2001.0)) is None


@pytest.mark.parametrize(
    "job",
    [
        CREATING | {"dry_run": True},
        CREATING | {"instance_name": "new.example.or"},
        CREATING | {"instance_name": "ne"},
        CREATING | {"instance_name": ""},
        opcode("TEST_ALLOCATOR", name="new.example.org", mode="allocate"),
        opcode("INSTANCE_STARTUP", instance_name="new.example.org"),
        opcode("NODE_EVACUATE", node_name="a"),
        opcode("INSTANCE_MULTI_ALLOC", instances=["new.example.org"]),
    ],
)
def test_unrelated_jobs_do_not_keep_a_claim(job: dict[str, Any]) -> None:
    assert check_claim(CLAIM, work(101.0, job)) is None


def test_earlier_poll_changes_nothing() -> None:
    assert check_claim(CLAIM, work(100.0)) is CLAIM
    assert check_claim(CLAIM, work(99.0)) is CLAIM


@pytest.mark.parametrize(
    "job",
    [
        opcode("NODE_EVACUATE", node_name="a"),
        opcode("GROUP_EVACUATE", group_name="a"),
        opcode("INSTANCE_MIGRATE", instance_name="new"),
        opcode("INSTANCE_REPLACE_DISKS", instance_name="new.example.org"),
        opcode("INSTANCE_SET_PARAMS", instance_name="new.example.org"),
    ],
)
def test_moves_match_move_opcodes_only(job: dict[str, Any]) -> None:
    moving = new_claim(MOVED, 100.0, 600.0, "job")
    assert check_claim(moving, work(101.0, job))
    assert check_claim(moving, work(101.0, CREATING)) is None


def test_claim_by_hand_waits_for_its_job() -> None:
    by_hand: Claim | None = new_claim(CREATED, 100.0, 600.0, "hand")
    for asked, jobs in ((200.0, []), (300.0, []), (400.0, [CREATING])):
        assert by_hand
        by_hand = check_claim(by_hand, work(asked, *jobs))
    assert by_hand
    assert by_hand.expires == 800.0
    assert check_claim(by_hand, work(401.0)) is None


def test_promise_is_fulfilled_by_the_instance() -> None:
    assert is_fulfilled(CREATED, replace(ROW, pnode="c", snode=None))
    assert not is_fulfilled(CREATED, replace(ROW, status=Status.DOWN))
    assert is_fulfilled(MOVED, replace(ROW, status=Status.DOWN))
    assert not is_fulfilled(MOVED, replace(ROW, snode="c"))
