"""Candidates of a trial as places: with the score and its components, or the reason against."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.explaining.places import (
    ExplainedPlace,
    commonest,
    leave_redundant,
    places,
    with_lacks,
)
from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.engine.rules.components import WEIGHTS
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

STATE = derive(cluster({"a": 10_000, "b": 500, "c": 20_000}, [instance("here", DiskTemplate.PLAIN, "c")]))
EVERYONE = np.ones(3, np.bool_)
BASE = choice.base(STATE, EVERYONE)
ASKED = STATE.requested_instance(instance("new", DiskTemplate.PLAIN, ""))
TRIAL = placements.allocate_one(STATE, ASKED, np.arange(3), EVERYONE)


def test_places() -> None:
    first, second, third = places(TRIAL, np.array([True, True, False]), BASE)
    assert [each.pnode for each in (first, second, third)] == [0, 1, 2]
    assert (first.why, second.why, third.why) == ("", "FailMem", "FailN1")
    assert first.score == pytest.approx(np.dot(WEIGHTS, first.components))


def test_all_candidates_are_redundant_without_check() -> None:
    assert leave_redundant(TRIAL, ASKED, None).all()


UNITS = derive(simu.parse(["p,1,9g,64g,4;lvm-vg,ssdvg,1500", "p,1,9g,64g,4;lvm-vg,hddvg,900"]))


def on_ssdvg(template: DiskTemplate, size: int = 1024) -> RequestedInstance:
    disk = Disk(size, unit=DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    return UNITS.requested_instance(replace(instance("new", template, ""), dsk=size, disks=(disk,)))


def test_names_the_unit_of_a_place_refused_for_disks() -> None:
    asked = on_ssdvg(DiskTemplate.PLAIN)
    found = [
        with_lacks(ExplainedPlace(node, NOWHERE, "FailDisk"), UNITS, asked, node).lacks for node in (0, 1)
    ]
    assert found == ["", "has no lvm-vg/ssdvg"]


def test_says_that_no_secondary_has_room() -> None:
    found = with_lacks(ExplainedPlace(0, NOWHERE, "FailDisk"), UNITS, on_ssdvg(DiskTemplate.DRBD), 0)
    assert found.lacks == "no secondary has room"


@pytest.mark.parametrize(
    ("why", "size"),
    [("FailMem", 1024), ("", 1024), ("FailDisk", 1)],  # the instance policy refuses the last
)
def test_other_places_lack_nothing(why: str, size: int) -> None:
    place = ExplainedPlace(1, NOWHERE, why)
    assert with_lacks(place, UNITS, on_ssdvg(DiskTemplate.PLAIN, size), 1) == place


def test_the_commonest_reason() -> None:
    codes = np.array([CODE[Fail.MEM], CODE[Fail.DISK], CODE[Fail.DISK], CODE[Fail.MEM], CODE[Fail.DISK]])
    assert commonest(codes) == "FailDisk"
    assert FITS not in codes
