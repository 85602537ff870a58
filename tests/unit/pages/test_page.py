"""Pages about clusters: whole, and safe whatever names there are."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape

import pytest

from ganeti_htools.backends import simu
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.errors import printable
from ganeti_htools.model.moves import Move, NamedMove
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.pages.nodes import CARDS
from ganeti_htools.pages.page import cluster_page
from ganeti_htools.planning import view
from ganeti_htools.planning.jobsets import PlannedMove
from ganeti_htools.planning.view import View
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.unit.model.test_node_state import in_all_states
from tests.unit.pages.test_markup import Recorder

NAMES = ("<script>alert(1)</script>", "a\"b'c&d", "\u202egnp.\u200f.exe", "x" * 300, "</style><svg onload=x>")
DRBD = DiskTemplate.DRBD


def hostile() -> Cluster:
    """A cluster with the names above, and faults of all kinds."""
    rows = [
        instance(f"i{name}", DRBD, name, NAMES[(place + 1) % len(NAMES)], mem=4_000)
        for place, name in enumerate(NAMES)
    ]
    rows.append(replace(instance("b", DiskTemplate.PLAIN, NAMES[0], mem=4_000), tags=("htools:node:<none>",)))
    made = by_hand.cluster(dict.fromkeys(NAMES, 10_000), rows)
    nodes = (*made.nodes[:-1], replace(made.nodes[-1], offline=True))
    return replace(made, groups=(Group("<b>", "uuid-1"),), nodes=nodes)


def page_of(cluster: Cluster, moves: bool = False) -> str:
    state = view.state_of(cluster, View())
    name = NAMES[0]
    made, step = Move(0, (), ()), NamedMove(name, "", (), (), ())
    commands = (f"gnt-instance failover {name}",)
    move = PlannedMove(made, step, name, (name,), (name,), "f", (), commands, 1, 2, {})
    return cluster_page(
        name, "now", state, state if moves else None, [[move]] if moves else None, [name] if moves else []
    )


def test_names_never_become_elements() -> None:
    page = page_of(hostile(), moves=True)
    found = Recorder(page)
    assert not {"script", "i", "a", "img", "link"} & set(found.elements)
    assert found.elements.count("style") == 1
    assert not [key for key, _ in found.attributes if key.startswith("on") or key in ("style", "src", "href")]
    for name in NAMES:
        assert escape(printable(name)) in page


def test_page_loads_nothing() -> None:
    page = page_of(hostile())
    assert "://" not in page
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')


@pytest.mark.parametrize("word", ["fails N+1: it must keep", "cannot be lost: ", "✕ offline", "Broken rules"])
def test_faults_are_told_in_words(word: str) -> None:
    assert word in page_of(hostile())


def test_nodes_have_the_words_of_their_states() -> None:
    words = ["drained", "standby", "maintenance", "offline", "silent"]
    page = page_of(in_all_states())
    assert [page.count(f"✕ {word}<") for word in words] == [2] * 5


CLUSTERS = {
    "none": Cluster(),
    "no nodes": by_hand.cluster({}, []),
    "empty": simu.parse(["p,3,100g,9g,4"]),
    "units": simu.parse(["p,3,100g,9g,4;lvm-vg,ssdvg,9g;rbd,vms,5g"]),
    "many": simu.parse([f"p,{CARDS + 1},100g,9g,4"]),
    "offline": by_hand.cluster({"n": 1}, [], offline=True),
    "hostile": hostile(),
}


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("moves", [False, True])
def test_elements_are_closed_in_order(name: str, moves: bool) -> None:
    page = page_of(CLUSTERS[name], moves)
    stack: list[str] = []
    for end, tag, closed in re.findall(r"<(/?)([a-z0-9]+)[^>]*?(/?)>", page.split("\n", 1)[1]):
        if end:
            assert stack.pop() == tag
        elif not closed and tag != "meta":
            stack.append(tag)
    assert not stack


@pytest.mark.skipif(shutil.which("tidy") is None, reason="needs tidy")
@pytest.mark.parametrize("name", CLUSTERS)
def test_tidy_has_no_complaint(name: str) -> None:
    done = subprocess.run(
        ["tidy", "-q", "-e", "-utf8"],
        input=page_of(CLUSTERS[name], True).encode(),
        capture_output=True,
        check=False,
    )
    assert done.stderr.decode() == ""


def test_many_nodes_share_a_picture() -> None:
    few, many = page_of(CLUSTERS["empty"]), page_of(CLUSTERS["many"])
    assert few.count('class="card"') == 3
    assert many.count('class="card"') == 0
    assert many.count("<figure>") == 3


def test_units_are_listed() -> None:
    assert "lvm-vg/ssdvg" in page_of(CLUSTERS["units"])
    assert "Storage units" not in page_of(CLUSTERS["hostile"])
