"""Candidates of a trial as places: with the score and its components, or the reason against."""

import numpy as np
import pytest

from ganeti_htools.engine.explaining.places import commonest, places, redundant
from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.engine.rules.components import WEIGHTS
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

STATE = derive(cluster({"a": 10_000, "b": 500, "c": 20_000}, [instance("here", DiskTemplate.PLAIN, "c")]))
EVERYONE = np.ones(3, np.bool_)
BASE = choice.base(STATE, EVERYONE)
ASKED = STATE.ask(instance("new", DiskTemplate.PLAIN, ""))
TRIAL = placements.allocate_one(STATE, ASKED, np.arange(3), EVERYONE)


def test_places() -> None:
    first, second, third = places(TRIAL, np.array([True, True, False]), BASE)
    assert [each.pnode for each in (first, second, third)] == [0, 1, 2]
    assert (first.why, second.why, third.why) == ("", "FailMem", "FailN1")
    assert first.score == pytest.approx(np.dot(WEIGHTS, first.components))


def test_all_are_redundant_where_nobody_asks() -> None:
    assert redundant(TRIAL, ASKED, None).all()


def test_the_commonest_reason() -> None:
    codes = np.array([CODE[Fail.MEM], CODE[Fail.DISK], CODE[Fail.DISK], CODE[Fail.MEM], CODE[Fail.DISK]])
    assert commonest(codes) == "FailDisk"
    assert FITS not in codes
