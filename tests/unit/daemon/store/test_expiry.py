"""The ends of claims, whatever becomes of the machine's clock."""

import pytest

from htoolsd.store.expiry import ClaimEnds
from htoolsd.store.records import Consumer

HOUR = 3600.0
CLAIM = Consumer("web", "c/web", "claim", expires=1010.0)  # made at 1000, for 10 seconds


def is_due(ends: ClaimEnds, claim: Consumer, epoch: float, now: float) -> bool:
    return ends.due([claim], epoch, now) == [claim]


@pytest.mark.parametrize("step", [0, HOUR, -HOUR])
@pytest.mark.parametrize("noted", [True, False])
def test_claim_lasts_as_long_as_it_should_when_the_clock_is_set(step: float, noted: bool) -> None:
    ends = ClaimEnds()
    if noted:
        ends.note(1010.0, 10.0, 0.0)
    else:
        assert not is_due(ends, CLAIM, 1001.0, 1.0)
    assert not is_due(ends, CLAIM, 1009.0 + step, 9.0)
    assert is_due(ends, CLAIM, 1010.0 + step, 10.0)


def test_claim_of_an_earlier_daemon_ends_by_the_machines_clock() -> None:
    assert not is_due(ClaimEnds(), CLAIM, 1009.0, 0.0)
    assert is_due(ClaimEnds(), CLAIM, 1010.0, 0.0)


def test_renewed_claim_has_its_new_end() -> None:
    ends = ClaimEnds()
    ends.note(1005.0, 5.0, 0.0)
    assert not is_due(ends, CLAIM, 1006.0, 6.0)


@pytest.mark.parametrize("written", [3.0, 100.0])
def test_claim_that_is_written_later_is_not_forgotten(written: float) -> None:
    ends = ClaimEnds()
    ends.note(1010.0, 10.0, 0.0)
    assert ends.due([], 1000.0 + written - 1, written - 1) == []
    assert is_due(ends, CLAIM, 1000.0 + written - HOUR, max(written, 10.0))


def test_end_of_a_claim_that_was_never_written_is_forgotten() -> None:
    ends = ClaimEnds()
    ends.note(1010.0, 10.0, 0.0)
    assert ends.due([], 2000.0, 1000.0) == []
    assert not is_due(ends, CLAIM, 1000.0, 1000.0)
