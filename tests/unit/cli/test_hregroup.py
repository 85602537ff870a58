import json
import re
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hregroup

# Three racks of two nodes; node1, offline, still has two instances, and its rack has no room for them.
RACKS = """\
rack1|u1|preferred||
rack2|u2|preferred||
rack3|u3|last_resort||

node1.org|8000|0|2500|100000|97872|40|Y|u1
node2.org|8000|0|3000|100000|98872|40|N|u1
node3.org|8000|0|8000|100000|100000|40|N|u2
node4.org|8000|0|8000|100000|100000|40|N|u2
node5.org|8000|0|8000|100000|100000|40|N|u3
node6.org|8000|0|8000|100000|100000|40|N|u3

shop.org|3500|2000|1|running|Y|node1.org||ext||1|1|N
mail.org|2000|1128|1|running|Y|node1.org|node2.org|drbd||1|1|N
full.org|5000|2000|1|running|Y|node2.org||ext||1|1|N

{tags}
"""


def run(tmp_path: Path, *argv: str, tags: str = "") -> int:
    path = tmp_path / "cluster.data"
    path.write_text(RACKS.format(tags=tags))
    return hregroup.main([*argv, "-t", str(path)])


def test_a_group_is_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "redistribute", f"-S{tmp_path / 'saved'}", "-C") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Repaired: rack1" in lines
    assert any("shop.org" in line or "shop" in line.split() for line in lines)
    after = text.parse((tmp_path / "saved.regrouped").read_text(), "")
    groups = {node.name: node.group for node in after.nodes}
    assert {groups[row.pnode] for row in after.instances if row.name != "full.org"} == {"u2"}
    before = text.parse((tmp_path / "saved.original").read_text(), "")
    assert {row.pnode for row in before.instances} == {"node1.org", "node2.org"}


def test_report_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "redistribute", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["action"], told["repaired"], told["unrepairable"]) == ("redistribute", ["rack1"], [])
    moves = {move["instance"]: move for move in told["moves"]}
    assert moves.keys() == {"shop.org", "mail.org"}
    assert (moves["mail.org"]["from_group"], moves["mail.org"]["to_group"]) == ("rack1", "rack2")
    assert [command.split()[1] for command in moves["mail.org"]["commands"]] == [
        "migrate",
        "replace-disks",
        "migrate",
        "replace-disks",
    ]
    assert moves["mail.org"]["disk_mib"] == 2 * 1128
    health = {
        group["name"]: (group["before"]["health"], group["after"]["health"]) for group in told["groups"]
    }
    assert health["rack1"][0] == "unhealthy"
    assert health["rack1"][1] != "unhealthy"


def test_cluster_tag_forbids_moves_between_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "redistribute", tags="htools:nointergroup") == 3
    assert "Not repaired: rack1" in capsys.readouterr().out
    assert run(tmp_path, "groups", "--json", tags="htools:nointergroup") == 0
    closed = json.loads(capsys.readouterr().out)["closed"]
    assert len(closed) == 6
    assert {each["why"] for each in closed} == {"the cluster has the tag htools:nointergroup"}


def test_only_some_groups_take_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "redistribute", "-Grack1", "-Grack3", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert {move["to_group"] for move in told["moves"]} == {"rack3"}


def test_explain_lists_places_of_an_instance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "redistribute", "--explain=mail", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["instance"], told["obstacle"]) == ("mail.org", None)
    assert [place["group"] for place in told["places"]] == ["rack2", "rack3"]
    assert run(tmp_path, "redistribute", "--explain=mail", "-Grack1", "-Grack2") == 0
    assert "rack3: it is left out" in capsys.readouterr().out


def test_a_group_is_emptied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "compress", "--group=rack1", f"-S{tmp_path / 'saved'}") == 0
    assert "Emptied: rack1" in capsys.readouterr().out
    after = text.parse((tmp_path / "saved.regrouped").read_text(), "")
    assert {row.pnode for row in after.instances}.isdisjoint({"node1.org", "node2.org"})
    assert run(tmp_path, "compress", "--group=rack2") == 0
    assert "Nothing to do" in capsys.readouterr().out


def test_a_group_that_cannot_be_emptied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "compress", "--group=rack1", "--no-disk-moves") == 3
    assert "Not emptied: rack1: instance mail.org: its disks must not be moved" in capsys.readouterr().out
    assert run(tmp_path, "compress", "--group=rack1", "--max-moves=2", "--json") == 3
    told = json.loads(capsys.readouterr().out)
    assert told["unrepairable"] == [{"group": "rack1", "why": "it takes 3 moves"}]
    assert run(tmp_path, "compress", "--group=rack1", "--max-copy=1000") == 3
    assert re.search("Not emptied: rack1: it copies [0-9.]+ GiB", capsys.readouterr().out)


# Two racks with two instances each, and a third that is not to be filled.
FULL = """\
east|e|preferred||
west|w|preferred||
spare|s|preferred||

e1|9000|0|7000|100000|100000|40|N|e
e2|9000|0|9000|100000|100000|40|N|e
w1|9000|0|3000|100000|100000|40|N|w
w2|9000|0|9000|100000|100000|40|N|w
s1|9000|0|9000|100000|100000|40|N|s
s2|9000|0|9000|100000|100000|40|N|s

small|1000|2000|1|running|Y|e1||ext||1|1|N
other|1000|2000|1|running|Y|e1||ext||1|1|N
large|4000|2000|4|running|Y|w1||ext||1|1|N
huge|2000|2000|2|running|Y|w1||ext||1|1|N


"""


def full(tmp_path: Path, *argv: str, loads: str = "") -> int:
    path, dynamic = tmp_path / "full.data", tmp_path / "loads"
    path.write_text(FULL)
    dynamic.write_text(loads)
    return hregroup.main([*argv, "-t", str(path), *([f"-U{dynamic}"] if loads else [])])


def test_lists_every_group_that_could_be_emptied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert full(tmp_path, "compress", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["possible"] == [
        {"group": "east", "moves": 2, "mib": 2000},
        {"group": "west", "moves": 2, "mib": 6000},
    ]
    assert told["emptied"] == ["east"]
    assert {move["to_group"] for move in told["moves"]} == {"west"}
    assert full(tmp_path, "compress") == 0
    assert "Could be emptied: west: 2 moves, 5.9 GiB" in capsys.readouterr().out


def test_a_reserve_stays_free_or_nothing_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert full(tmp_path, "compress", "--reserve=60") == 0
    out = capsys.readouterr().out
    assert "Not emptied: east: instance small: no room for the reserve in west; empty" in out
    assert full(tmp_path, "compress", "--reserve=4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["emptied"] == ["east"]


def test_the_load_of_groups_is_balanced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert full(tmp_path, "balance", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    load = told["load"]
    assert not load["dynamic"]
    assert load["groups"][1]["before"] == {"vcpus": pytest.approx(2.25), "memory": pytest.approx(2.25)}
    assert {"group": "west", "component": "vcpus"} in load["outliers"]
    assert load["after"] < load["before"]
    assert {(move["instance"], move["from_group"], move["to_group"]) for move in told["moves"]} == {
        ("huge", "west", "spare")
    }
    assert full(tmp_path, "balance") == 0
    out = capsys.readouterr().out
    assert "No dynamic utilisation is known: the score counts virtual CPUs and memory" in out
    assert "Outlier: west: vcpus 2.25 => 1.50 times the mean" in out
    assert "Load: " not in out
    loads = "small 1 1 1 1\nother 1 1 1 1\nlarge 1.5 1 1 1\nhuge 1 1 1 1\n"
    assert full(tmp_path, "balance", "-v", "-Gwest", "-Geast", loads=loads) == 0
    assert "Load: east: cpu 0.89 => 0.89 times the mean" in capsys.readouterr().out


def test_known_dynamic_load_is_balanced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loads = "small 3 1 0 0\nother 3 1 0 0\nlarge 0 0 0 0\nhuge 0 0 0 0\n"
    assert full(tmp_path, "balance", "--json", "--max-moves=1", loads=loads) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["load"]["dynamic"]
    assert [move["from_group"] for move in told["moves"]] == ["east"]
    assert full(tmp_path, "balance", "--min-gain=2", loads=loads) == 0
    assert capsys.readouterr().out.startswith("Nothing to do\n")


# A healthy rack of two nodes, a rack with one online node, and one of which no node can be lost.
UNEVEN = """\
rack1|u1|preferred||
single|u2|preferred||
fragile|u3|preferred||

node1.org|8000|0|6000|100000|98000|40|N|u1
node2.org|8000|0|8000|100000|100000|40|N|u1
node3.org|16000|0|15000|100000|99000|40|N|u2
node4.org|16000|0|16000|100000|100000|40|{drained}|u2
node5.org|16000|0|3000|100000|99000|40|N|u3
node6.org|16000|0|1000|100000|99000|40|N|u3

shop.org|2000|2000|1|running|Y|node1.org||ext||1|1|N
alone.org|1000|1000|1|running|Y|node3.org||ext||1|1|N
five.org|13000|1000|1|running|Y|node5.org||ext||1|1|N
six.org|15000|1000|1|running|Y|node6.org||ext||1|1|N

"""


def compressed(tmp_path: Path, drained: str, *more: str) -> int:
    path = tmp_path / "uneven.data"
    path.write_text(UNEVEN.format(drained=drained))
    return hregroup.main(["compress", "--group=rack1", "-t", str(path), *more])


def test_no_group_takes_instance_that_could_not_come_back_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compressed(tmp_path, "Y") == 3
    told = capsys.readouterr().out
    assert "Emptied: " not in told.replace("Not emptied: ", "")
    assert "no room in single (shop.org would not come back after the loss of node3.org, unlike now)" in told
    assert "no room in fragile (shop.org would not come back after the loss of node5.org, unlike now)" in told
    assert compressed(tmp_path, "N", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["emptied"] == ["rack1"]
    assert report["redundancy"] == {"lost": [], "gained": []}


def test_drained_node_is_no_refuge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "uneven.data"
    health = {}
    for drained in "NY":
        path.write_text(UNEVEN.format(drained=drained))
        assert hregroup.main(["groups", "--json", "-t", str(path)]) == 0
        groups = json.loads(capsys.readouterr().out)["groups"]
        health[drained] = {each["name"]: (each["health"], each["why"]) for each in groups}
    assert health["N"]["single"] == ("healthy", [])
    assert health["Y"]["single"] == ("not redundant", ["node3.org cannot fail without loss"])
