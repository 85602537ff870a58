"""``--explain``: the best first, the refused last, as text and as JSON alike."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.cli.report.explanation import tell_moves, tell_places
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.request import Allocate, Placement
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

EXT, PLAIN = DiskTemplate.EXT, DiskTemplate.PLAIN
ROWS = [*(instance(f"i{row}", EXT, "n0") for row in range(3)), instance("p", PLAIN, "n1")]
CLUSTER = by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 1500}, ROWS)
NEW = Allocate(Placement(instance("new", EXT, "", mem=2000), 1, None), None)


def moves(name: str, capsys: pytest.CaptureFixture[str], *, text: bool = True, scope: str = "yyy") -> str:
    state = derive(CLUSTER)
    rows = np.array([letter == "y" for letter in scope])
    line = CommandLine(explain=name, json=not text)
    tell_moves(state, rows, line, BalancingOptions(), choice.base(state, rows), score_of(state, rows))
    return capsys.readouterr().out


def test_an_instance_of_another_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HtoolsError, match=r"^p is not in this node group$"):
        moves("p", capsys, scope="yny")


def places(capsys: pytest.CaptureFixture[str], *, text: bool) -> str:
    state = derive(CLUSTER, [NEW.placement.instance])
    tell_places(state, NEW, PlacementOptions(capacity=False), not text)
    return capsys.readouterr().out


def test_places_that_lack_a_unit_say_which(capsys: pytest.CaptureFixture[str]) -> None:
    disk = Disk(2048, unit=DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    row = replace(instance("new", PLAIN, ""), dsk=2048, disks=(disk,))
    made = simu.parse(["p,2,9g,64g,4;lvm-vg,ssdvg,2g"])
    without = replace(made.nodes[1], storage=(made.nodes[1].storage or ())[:1])
    state = derive(replace(made, nodes=(made.nodes[0], without)), [row])
    request = Allocate(Placement(row, 1, None), None)
    tell_places(state, request, PlacementOptions(capacity=False), json=False)
    *_, first, second, why = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=2) == [
        "node-01-001",
        "FailDisk",
        "lacks 1 MiB of disk space on lvm-vg/ssdvg",
    ]
    assert second.split(maxsplit=2)[:2] == ["node-01-002", "FailDisk"]
    assert second.rstrip().endswith("FailDisk        has no lvm-vg/ssdvg")
    assert "most missing: disk space on lvm-vg/ssdvg; closest: node-01-001 lacks 1 MiB" in why
    tell_places(state, request, PlacementOptions(capacity=False), json=True)
    (told,) = json.loads(capsys.readouterr().out)
    assert [place["storage"] for place in told["places"]] == [
        "lacks 1 MiB of disk space on lvm-vg/ssdvg",
        "has no lvm-vg/ssdvg",
    ]


def test_moves_to_nodes_that_lack_a_unit_say_which(capsys: pytest.CaptureFixture[str]) -> None:
    made = simu.parse(["p,3,9g,64g,4;lvm-vg,ssdvg,2g"])
    lacks = replace(made.nodes[2], storage=(made.nodes[2].storage or ())[:1])
    disk = Disk(1024, unit=DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    row = replace(instance("i", DiskTemplate.DRBD, "node-01-001", "node-01-002"), disks=(disk,))
    state = derive(replace(made, nodes=(*made.nodes[:2], lacks), instances=(row,)))
    scope = np.ones(3, np.bool_)
    line = CommandLine(explain="i", json=True)
    tell_moves(state, scope, line, BalancingOptions(), choice.base(state, scope), score_of(state, scope))
    refused = [each for each in json.loads(capsys.readouterr().out) if "fail" in each]
    assert {each["storage"] for each in refused} == {"has no lvm-vg/ssdvg"}
    assert len(refused) == 4
