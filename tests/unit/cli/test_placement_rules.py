"""Rules about nodes, by tags, in every tool: what they refuse is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hail, hbal, hcheck, hregroup, hspace, hsqueeze
from ganeti_htools.engine.rules import contradictions
from tests.support import messages
from tests.support.clusters import Shape, cluster

# Two nodes that are full, and two with room, one of them with the tag disk:ssd.
FILE = """\
g|u|preferred||
h|v|preferred||

node1|8000|0|500|90000|90000|40|M|u
node2|8000|0|1500|90000|90000|40|{role}|u
node3|8000|0|8000|90000|90000|40|N|u|1|disk:ssd
node4|8000|0|7000|90000|90000|40|N|u
node5|8000|0|8000|90000|90000|40|N|v

one|3500|1024|1|running|Y|node1||ext|{tags}
two|3500|1024|1|running|Y|node1||ext|{more}
three|3000|1024|1|running|Y|node2||ext|{tags}
four|3000|1024|1|running|Y|node2||ext|{more}
five|1000|1024|1|running|Y|node4||ext|

"""


def run(tmp_path: Path, tool: Any, *options: str, tags: str = "", more: str = "", role: str = "N") -> int:
    (tmp_path / "cluster").write_text(FILE.format(tags=tags, more=more, role=role))
    status: int = tool.main(["-t", str(tmp_path / "cluster"), *options])
    return status


@pytest.mark.parametrize(
    ("tags", "moves", "reasons"),
    [
        ("", [["four", "node4"], ["three", "node3"]], set()),
        ("htools:on:disk:ssd", [["four", "node3"], ["three", "node3"]], set()),
        ("htools:avoid:disk:ssd", [["four", "node4"], ["three", "node4"]], set()),
        ("htools:avoid:disk:ssd,htools:avoid:u", [["four", "node4"], ["three", "node4"]], set()),
        ("htools:apart:x", [["four", "node4"], ["three", "node3"]], set()),
        ("htools:node:node2", [], {"it fits nowhere: FailRule: 3"}),
        ("htools:fixed", [], {"it has the tag htools:fixed"}),
        ("htools:together:x", [], {"it stays together with others (htools:together:x)"}),
    ],
)
def test_evacuating_plan_keeps_the_rules(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tags: str,
    moves: list[list[str]],
    reasons: set[str],
) -> None:
    run(tmp_path, hbal, "-G", "g", "--json", "--evac-mode", "-g0", tags=tags, more=tags, role="Y")
    report = json.loads(capsys.readouterr().out)
    assert sorted([move["instance"], move["to"][0]] for move in report["steps"]) == moves
    assert {left["why"] for left in report["left_on_offline_nodes"]} == reasons


def test_malformed_rule_gives_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, hbal, "-G", "g", "--json", tags="htools:spread:x") == 0
    assert "instance one: tag htools:spread:x is no rule" in capsys.readouterr().err


@pytest.mark.parametrize("tool", [hspace, hcheck, hregroup, hsqueeze])
def test_tools_read_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: Any) -> None:
    options = ["redistribute"] if tool is hregroup else []
    tags = "htools:on:disk:ssd,htools:apart:x,htools:spread:rack:y,htools:together:z,htools:node:node1"
    assert run(tmp_path, tool, *options, "--json", tags=tags) in (0, 1)
    assert json.loads(capsys.readouterr().out)


def test_hcheck_names_broken_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, hcheck, "--no-simulation", tags="htools:on:disk:ssd", more="htools:apart:x")
    assert capsys.readouterr().out.endswith(
        "Broken rules of instances: 2\n"
        "    htools:on:disk:ssd: one on node1\n"
        "    htools:on:disk:ssd: three on node2\n"
    )
    run(tmp_path, hcheck, "--no-simulation", tags="htools:apart:x", more="htools:apart:x")
    shown = capsys.readouterr().out
    assert "    htools:apart:x: one, two on node1\n    htools:apart:x: three, four on node2\n" in shown
    run(tmp_path, hcheck, "--no-simulation", tags="htools:together:x")
    assert "    htools:together:x: one, three on node1, node2\n" in capsys.readouterr().out


def test_hcheck_names_each_tag_to_avoid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(__name__ + ".FILE", FILE.replace("{role}|u", "{role}|u|1|x,y"))
    run(tmp_path, hcheck, "--no-simulation", tags="htools:avoid:x,htools:avoid:y,htools:avoid:z")
    broken = "    htools:avoid:x: three on node2\n    htools:avoid:y: three on node2\n"
    assert f"Broken rules of instances: 2\n{broken}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tags", "more", "options", "line"),
    [
        ("htools:on:nosuch", "", [], "htools:on:nosuch: three (no primary is left)"),
        (
            "htools:on:disk:ssd,htools:avoid:disk:ssd",
            "",
            [],
            "htools:avoid:disk:ssd, htools:on:disk:ssd: one (no primary is left)",
        ),
        ("htools:on:x", "htools:on:x", ["-O", "node5"], "htools:on:x: one (no primary is left)"),
        (
            "htools:apart:x,htools:on:disk:ssd",
            "",
            [],
            "htools:apart:x, htools:on:disk:ssd: one, three (primaries left: node3)",
        ),
        ("htools:apart:x,htools:together:y", "", [], "htools:apart:x, htools:together:y: one, three"),
        ("htools:spread:rack:x", "", [], "htools:spread:rack:x: one, three"),
        (
            "htools:together:x",
            "htools:together:x",
            [],
            "htools:together:x: one, two, three (too large together; no primary is left)",
        ),
    ],
)
def test_hcheck_finds_contradictions(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tags: str,
    more: str,
    options: list[str],
    line: str,
) -> None:
    assert run(tmp_path, hcheck, "--rules", *options, tags=tags, more=more) == 1
    assert f"    {line}\n" in capsys.readouterr().out


def test_hcheck_finds_no_contradiction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, hcheck, "--rules") == 0
    assert run(tmp_path, hcheck, "--rules", tags="htools:apart:x,htools:node:node1,htools:node:node9") == 1
    capsys.readouterr()
    status = run(tmp_path, hcheck, "--rules", tags="htools:apart:x", more="htools:together:y", role="Y")
    assert (status, capsys.readouterr().out) == (
        0,
        "Contradictions in the rules of instances: 0\nNodes that take no instances: node2\n",
    )


def test_hcheck_leaves_oversized_instances_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With less patience than places, rules stay undecided."""
    monkeypatch.setattr(contradictions, "PATIENCE", 0)
    monkeypatch.setattr(
        __name__ + ".FILE", FILE.replace("five|1000|", "five|9000|").replace("|ext|\n", "|ext|{tags}\n")
    )
    assert run(tmp_path, hcheck, "--rules", tags="htools:node:node1,htools:apart:x") == 2
    assert capsys.readouterr().out == (
        "Contradictions in the rules of instances: 0\n"
        "Undecided, too many places to try: one, three\n"
        "Left out, too large for every empty node: five\n"
    )


def test_hbal_repairs_broken_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The only node with the tag takes one of two instances that are to be apart."""
    assert run(tmp_path, hbal, "-G", "g", "--repair-rules", more="htools:apart:x,htools:on:disk:ssd") == 0
    shown = capsys.readouterr().out
    assert "    1. four  node2       => node3 " in shown
    assert "\nSolution length=1\n" in shown
    assert "Broken rules of instances: 1\n    htools:on:disk:ssd: two on node1\n" in shown


def test_hbal_names_rules_that_stay_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, hbal, "-G", "g", "--repair-rules", "--json", tags="htools:together:x") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["steps"] == []
    assert report["broken_rules"] == [
        {"rule": "htools:together:x", "instances": ["one", "three"], "nodes": ["node1", "node2"]}
    ]


def test_machine_readable_hcheck_has_no_key_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(tags: str) -> str:
        run(tmp_path, hcheck, "--machine-readable", "--no-simulation", tags=tags)
        return capsys.readouterr().out

    assert printed("htools:apart:x") == printed("")


@pytest.fixture
def data() -> dict[str, Any]:
    found = cluster(3, Shape(nodes=3, instances=4, fill=0.3))
    for node in found["nodes"].values():
        node["tags"] = []
    return found


def decide(tmp_path: Path, data: dict[str, Any], *options: str, **facts: Any) -> None:
    request = messages.allocate("new.example.org", "drbd", memory=128, disks=[1024]) | facts
    (tmp_path / "request").write_text(messages.encode(messages.message(data, request)))
    assert hail.main([str(tmp_path / "request"), *options]) == 0


def test_hail_goes_where_the_tags_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: dict[str, Any]
) -> None:
    names = sorted(data["nodes"])
    for chosen in (names[:2], names[1:]):
        decide(tmp_path, data, tags=[f"htools:node:{name}" for name in chosen])
        assert sorted(json.loads(capsys.readouterr().out)["result"]) == chosen


def test_hail_names_the_rule_that_refuses_all_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: dict[str, Any]
) -> None:
    decide(tmp_path, data, tags=["htools:on:disk:ssd"])
    info = json.loads(capsys.readouterr().out)["info"]
    assert "FailRule: 6" in info
    assert "most missing: nodes that its tags allow (htools:on:disk:ssd)" in info
    decide(tmp_path, data, "--explain", "--json", tags=["htools:on:disk:ssd"])
    (explained,) = json.loads(capsys.readouterr().out)
    assert {place["why"] for place in explained["places"]} == {"FailRule"}
    assert {place["rules"] for place in explained["places"]} == {"htools:on:disk:ssd"}
