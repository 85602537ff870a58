from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.deciding.decision import Response
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.claims.claims import Claims
from htoolsd.config.settings import Settings
from htoolsd.sync.job_queue import PendingWork
from tests.support.by_hand import instance
from tests.support.settings import change, settings


def promise(name: str, node: str = "a") -> Promise:
    return Promise(instance(name, DiskTemplate.PLAIN, node), new=True)


def response(*promises: Promise, about: tuple[str, ...] = (), there: tuple[Instance, ...] = ()) -> Response:
    names = about or tuple(each.name for each in promises)
    rows = {row.name: row for row in there}
    return Response(
        "",
        (),
        DecisionSummary("allocate", names),
        promises=promises,
        instances=names,
        promised_instances=rows,
    )


@pytest.fixture
def known() -> Settings:
    return settings()


@pytest.fixture
def claims(known: Settings) -> Claims:
    claims = Claims(known)
    claims.follows_ganeti = True
    return claims


async def test_decision_without_claimant_claims_nothing(claims: Claims) -> None:
    claims.record(response(promise("one")), "job")
    claims.record(response(promise("one", "b"), promise("two")), None)
    assert claims.promises() == (promise("one"),)


async def test_claim_expires(claims: Claims, mock_clock: MockClock) -> None:
    claims.record(response(promise("one")), "job")
    mock_clock.jump(599)
    claims.record(response(promise("two")), "job")
    assert len(claims.promises()) == 2
    mock_clock.jump(1)
    assert claims.promises() == (promise("two"),)


async def test_claim_ends_when_its_job_is_gone(claims: Claims, mock_clock: MockClock) -> None:
    assert not claims.needs_queue()
    claims.record(response(promise("one"), promise("two")), "job")
    assert claims.needs_queue()
    mock_clock.jump(1)
    claims.check(
        PendingWork(trio.current_time(), {1: [{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "two"}]})
    )
    assert claims.promises() == (promise("two"),)
    mock_clock.jump(1)
    claims.check(PendingWork(trio.current_time(), {}))
    assert not claims.needs_queue()


async def test_requests_end_claims_when_ganeti_is_not_followed(claims: Claims, known: Settings) -> None:
    change(known, claims="always")
    claims.record(response(promise("one"), promise("two")), "job")
    up, down = instance("one", DiskTemplate.PLAIN, "b"), instance("two", DiskTemplate.PLAIN, "a")
    there = (up, replace(down, status=Status.DOWN))
    claims.record(response(there=there), None)
    assert len(claims.promises()) == 2
    claims.follows_ganeti = False
    claims.record(response(there=there), None)
    assert claims.promises() == (promise("two"),)


@pytest.mark.parametrize(
    ("mode", "followed", "active"),
    [
        ("auto", True, True),
        ("auto", False, True),  # until what was promised while it was followed has ended
        ("always", False, True),
        ("never", True, False),
    ],
)
async def test_mode_decides_when_claims_count(
    claims: Claims, known: Settings, mode: str, followed: bool, active: bool
) -> None:
    claims.record(response(promise("one")), "job")
    claims.follows_ganeti = followed
    change(known, claims=mode)
    assert claims.active is active
    assert bool(claims.promises()) is active
    assert claims.status() == {"active": active, "living": 1}
    claims.cancel("one")
    assert claims.active is (mode == "always" or (mode == "auto" and followed))
