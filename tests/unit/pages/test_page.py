"""Pages about clusters: whole, and safe whatever names there are."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from typing import Any

import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.rules.components import COMPONENTS
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import printable
from ganeti_htools.model.moves import Move, MoveKind, NamedMove
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.pages.answer import safety
from ganeti_htools.pages.markup import command, table
from ganeti_htools.pages.moves import reasons
from ganeti_htools.pages.nodes import DRAWN
from ganeti_htools.pages.page import cluster_page, daemon_page
from ganeti_htools.pages.score import words
from ganeti_htools.pages.sides import Side
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
        name,
        "now",
        state,
        state if moves else None,
        [[move] * bool(cluster.instances)] if moves else None,
        [name] if moves else [],
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


@pytest.mark.parametrize(
    "word", ["fails N+1: it must keep", "without it, these would not", ">offline<", "Broken rules"]
)
def test_faults_are_told_in_words(word: str) -> None:
    assert word in page_of(hostile())


def test_nodes_have_the_words_of_their_states() -> None:
    words = ["drained", "standby", "maintenance", "offline", "silent"]
    page = page_of(in_all_states())
    assert [page.count(f">{word}</span>") for word in words[:-1]] == [1] * 4
    assert '<span class="mark alarm">! silent</span>' in page


CLUSTERS = {
    "none": Cluster(),
    "no nodes": by_hand.cluster({}, []),
    "empty": simu.parse(["p,3,100g,9g,4"]),
    "units": simu.parse(["p,3,100g,9g,4;lvm-vg,ssdvg,9g;rbd,vms,5g"]),
    "many": simu.parse([f"p,{DRAWN + 1},100g,9g,4"]),
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


def test_other_nodes_share_a_picture() -> None:
    few, many = page_of(CLUSTERS["empty"]), page_of(CLUSTERS["many"])
    assert (few.count('class="node"'), few.count("<figure>")) == (3, 0)
    assert (many.count('class="node"'), many.count("<figure>")) == (DRAWN, 3)
    assert "Nodes that are not drawn above: 1 in use" in many


def plan_page(**changes: Any) -> str:
    """A page about a plan that moves an instance off the first of many nodes to the last."""
    sizes = dict.fromkeys(map(str, range(40)), 10_000)
    before, after = (
        derive(by_hand.cluster(sizes, [instance("web", DRBD, node, "1", mem=9_500)])) for node in ("0", "39")
    )
    move, step = Move(0, (), ()), NamedMove("web", "", (), (), ())
    planned = PlannedMove(
        move, step, "web", ("0", "1"), ("39", "1"), "", (), ("gnt-instance move",), 1024, 0, {}
    )
    return cluster_page("title", "now", before, after, [[planned]], **changes)


def test_plan_answers_and_draws_only_nodes_that_change() -> None:
    page = plan_page(command="hbal -D -X")
    assert "1 move, 1.0 GiB to copy; unevenness of " in page
    assert "; nothing gets less safe.</p><pre><code>hbal -D -X</code></pre>" in page
    assert re.findall(r'class="node"><h3>(\w+)', page) == ["39", "0"]
    assert "Nodes that are not drawn above: 38 in use" in page
    assert page.index("<h2>Health after the plan") < page.index("<h2>Moves")


def test_moves_have_reasons() -> None:
    tags = {"a": ("htools:apart:x",), "b": ("htools:apart:x",), "c": (), "d": ()}
    rows = [replace(instance(name, DRBD, "1", "2", mem=3_000), tags=own) for name, own in tags.items()]
    side = Side.of(derive(by_hand.cluster({"0": 10_000, "1": 14_000, "2": 8_000, "3": 10_000}, rows)))
    ways = [(0, 0), (1, 3), (2, 3), (3, 0)]
    made = [Move(row, MoveKind.REPLACE_AND_FAILOVER.parts(node), (node, 1)) for row, node in ways]
    assert list(reasons(side, side, made)) == [
        "mends htools:apart:x",
        "N+1 holds again on 2",
        "spread of memory kept for failovers: 0.1 less",
        "makes room for later moves",
    ]


def test_commands_to_copy_have_lines_of_their_own() -> None:
    assert command("a <b>", "c") == "<pre><code>a &lt;b&gt;\nc</code></pre>"


def test_full_bars_are_marked_for_those_who_see_no_colour() -> None:
    page = plan_page()
    assert "0 % → ▲ 95 %" in page
    assert 'class="full"' in page


def test_instances_that_lose_redundancy_are_named() -> None:
    row = instance("web", DRBD, "a", "b", mem=9_000)
    cluster = by_hand.cluster({"a": 10_000, "b": 10_000, "c": 5_000}, [row])
    worse = replace(cluster, instances=(replace(row, snode="c"),))
    sides = Side.of(derive(cluster)), Side.of(derive(worse))
    assert safety(*sides) == "web would no longer come back after the loss of a node"
    assert safety(*reversed(sides)) == "1 instance more would come back after the loss of a node"


def test_forthcoming_instances_have_components_only_where_they_differ() -> None:
    assert "with forthcoming instances" not in plan_page()
    row = replace(instance("next", DRBD, "0", "1", mem=4_000), forthcoming=True)
    made = by_hand.cluster({"0": 10_000, "1": 10_000, "2": 10_000}, [row])
    assert "memory spread, with forthcoming instances" in page_of(made)


def test_every_component_has_words() -> None:
    assert {words(each.name) for each in COMPONENTS} & {each.name for each in COMPONENTS} == set()
    assert words("free_disk_cv_forth:lvm-vg/ssd") == "disk spread of lvm-vg/ssd, with forthcoming instances"


def test_attention_has_its_command_on_the_page() -> None:
    lines = [
        {"severity": "critical", "text": f"node <{place}> is down", "command": f"repair {place}"}
        for place in range(8)
    ]
    page = daemon_page("title", "now", derive(CLUSTERS["empty"]), lines, {"Plans": "1 running"}, [], 7, {})
    assert "Plans <b>1 running</b>" in page
    for place in range(8):
        assert f"node &lt;{place}&gt; is down" in page
        assert f"<pre><code>repair {place}</code></pre>" in page
    assert "<summary>2 more</summary>" in page
    hours = {"node1": [0.3] * 30 + [0.95] + [0.0] * 137}
    page = daemon_page("title", "now", derive(CLUSTERS["empty"]), [], {}, [], 7, hours)
    assert "Nothing needs attention." in page
    assert "95 % Tue 06h" in page
    assert {"17.86%", "0.60%"} <= {*re.findall(r'width="([^"]*)"', page)}


@pytest.mark.parametrize(("rows", "tables"), [(25, 1), (30, 1), (31, 2), (100, 4)])
def test_last_rows_of_a_table_are_folded(rows: int, tables: int) -> None:
    page = table("title", ("Node",), [(str(row),) for row in range(rows)], (False,))
    assert page.count("<table>") == tables
    assert page.count('scope="row"') == rows


def test_units_are_listed() -> None:
    assert "lvm-vg/ssdvg" in page_of(CLUSTERS["units"])
    assert "Storage units" not in page_of(CLUSTERS["hostile"])
