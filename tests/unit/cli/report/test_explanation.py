"""``--explain``: the best first, the refused last, as text and as JSON alike."""

import json
from typing import Any

import numpy as np
import pytest

from ganeti_htools.cli.report.explanation import tell_moves, tell_places
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.balancing.balance import Balancing, score_of
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.request import Allocate, Placement
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
    tell_moves(state, rows, line, Balancing(), choice.base(state, rows), score_of(state, rows))
    return capsys.readouterr().out


def test_moves_with_the_best_first(capsys: pytest.CaptureFixture[str]) -> None:
    title, header, *rows = moves("i0", capsys).splitlines()
    assert title == "Moves of i0, ext, on n0:"
    assert header.split()[:4] == ["Nodes", "Moves", "Score", "Change"]
    told: Any = json.loads(moves("i0", capsys, text=False))
    assert sorted(row.split()[0] for row in rows) == sorted(each["to"][0] for each in told) == ["n1", "n2"]
    scores = [each["score"] for each in told if "score" in each]
    assert rows[0].split()[2] == f"{min(scores):.8f}"
    assert all(set(each) == {"move", "to", "fail"} for each in told if "score" not in each)


def test_an_instance_that_cannot_be_moved(capsys: pytest.CaptureFixture[str]) -> None:
    assert moves("p", capsys) == "Moves of p, plain, on n1:\n  none: it cannot be moved\n"


def test_an_instance_of_another_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HtoolsError, match=r"^p is not in this node group$"):
        moves("p", capsys, scope="yny")


def places(capsys: pytest.CaptureFixture[str], *, text: bool) -> str:
    state = derive(CLUSTER, [NEW.placement.instance])
    tell_places(state, NEW, Options(capacity=False), not text)
    return capsys.readouterr().out


def test_places_with_the_chosen_one_first(capsys: pytest.CaptureFixture[str]) -> None:
    title, header, first, *rest, chosen = places(capsys, text=True).splitlines()
    assert title.startswith("Places for new, ext, score without it ")
    assert header.split()[:3] == ["Nodes", "Score", "Change"]
    (told,) = json.loads(places(capsys, text=False))
    assert chosen == f"Chosen: {first.split()[0]}" == f"Chosen: {told['chosen'][0]}"
    refused = [each for each in told["places"] if "why" in each]
    assert [each["nodes"] for each in refused] == [["n2"]]
    assert rest[-1].split() == ["n2", *refused[0]["why"].split()]
