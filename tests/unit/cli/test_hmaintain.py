"""``hmaintain`` on files: plans, refusals, status, JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hcheck, hmaintain
from ganeti_htools.cli.report.maintenance_marks import by_local_time, local_time

# node1 is the master. On node2 there is something of everything.
FILE = """\
g|u|preferred||

node1.org|8000|0|{free}|90000|80000|40|M|u|1|{0}
node2.org|8000|0|5000|90000|80000|40|{role}|u|1|{1}
node3.org|8000|0|7000|90000|80000|40|N|u
node4.org|8000|0|8000|90000|80000|40|N|u

boss.org|{boss}|1024|1|running|Y|node1.org||ext|
pool.org|1000|1024|1|running|Y|{2}||ext|{3}
stopped.org|1000|1024|1|ADMIN_down|Y|node2.org|node3.org|drbd|
mail.org|1000|1024|1|running|Y|node1.org|node2.org|drbd|
local.org|500|1024|1|running|Y|node2.org||plain|

"""
RUN = "20200101T000000Z:ann@node1:7"
SET = "htools:maintenance,htools:maintenance:by:20200101T000000Z:ann@node1,htools:maintenance:reason:RAM"


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on the file with these tags of node1 and node2, place and tags of an instance."""
    monkeypatch.setattr(hmaintain, "new_mark", lambda: RUN)

    def call(
        *argv: str, tags: tuple[str, str] = ("", ""), at: str = "node2.org", home: str = "", boss: int = 3000
    ) -> Any:
        content = FILE.format(*tags, at, home, role="N", boss=boss, free=7000 - boss)
        (tmp_path / "cluster").write_text(content)
        status = hmaintain.main(["-t", str(tmp_path / "cluster"), *argv])
        return status, *capsys.readouterr()

    return call


def commands(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("    gnt-") or " gnt-" in line]


def test_start_tags_drains_and_moves(run: Run) -> None:
    status, out, err = run("start", "node2", "--reason=RAM", "-C")
    assert status == hmaintain.INCOMPLETE
    assert commands(out) == [
        f"gnt-node add-tags node2.org {SET.replace(',', ' ')} htools:maintenance:drained"
        f" htools:maintenance:run:{RUN}",
        "gnt-node modify --drained yes node2.org || gnt-node modify --auto-promote --drained yes node2.org",
        "gnt-instance add-tags pool.org htools:home:node2.org",
        "gnt-instance migrate -f -n node4 pool",
        "gnt-instance add-tags stopped.org htools:home:node2.org",
        "gnt-instance failover -f stopped",
        f"gnt-node remove-tags node2.org htools:maintenance:run:{RUN}",
    ]
    assert "instance local.org stays where it is: plain instances neither migrate nor fail over" in err
    assert "gnt-instance shutdown local.org" in err
    assert "without a mirror meanwhile: stopped.org, mail.org" in err


def test_fixed_instance_is_named(run: Run) -> None:
    status, out, err = run("start", "node2", "-C", home="htools:fixed")
    assert status == hmaintain.INCOMPLETE
    assert not any("pool" in command for command in commands(out))
    stays = "instance pool.org stays where it is: it has the tag htools:fixed; gnt-instance shutdown pool.org"
    assert stays in err


def test_start_with_empty_copies_disks(run: Run) -> None:
    _, out, err = run("start", "node2", "--empty", "-C")
    found = commands(out)
    assert "gnt-instance add-tags stopped.org htools:home:node2.org:node3.org" in found
    assert "gnt-instance add-tags mail.org htools:home:node1.org:node2.org" in found
    assert sum("replace-disks" in command for command in found) == 2
    assert "without a mirror" not in err


def test_master_is_not_drained(run: Run) -> None:
    status, out, err = run("start", "node1", "-C")
    assert status == 0
    assert not any("--drained" in command for command in commands(out))
    assert "node node1.org is not drained" in err


def test_candidate_is_kept_on_request(run: Run) -> None:
    _, out, _ = run("start", "node2", "--keep-candidate", "-C")
    assert not any("drained" in command for command in commands(out))


@pytest.mark.parametrize(
    ("argv", "tags", "why"),
    [
        (("start",), "", "start: expected the names of nodes"),
        (("begin", "node2"), "", "expected one of the actions start, end, roll, status"),
        (("start", "node9"), "", "Unknown node(s): node9"),
        (("start", "node2", "--no-return"), "", "--no-return goes with end only"),
        (("end", "node2", "--empty"), "", "--empty goes with start and roll only"),
        (("roll", "--no-return"), "", "--no-return goes with end only"),
        (("roll", "--explain"), "", "--explain goes with start and end only"),
        (("end", "node2", "--explain", "--balance"), "", "it cannot go with --exec and --balance"),
        (("start", "node2", "--pause"), "", "--pause goes with roll only"),
        (("roll", "-X"), "", "Execution of commands possible only on LUXI"),
        (("status", "node2"), "", "status: expected neither nodes nor -X"),
        (("start", "node2", "node3"), "", "stopped.org: its secondary node3.org takes no instances; --empty"),
        (("start", "node2"), "htools:maintenance:run:2019:bob@node1:1", "(2019:bob@node1:1); --take-over"),
    ],
)
def test_refusals(run: Run, argv: tuple[str, ...], tags: str, why: str) -> None:
    status, out, err = run(*argv, tags=("", tags))
    assert status in (1, 2)
    assert why in err
    assert not out


def test_both_nodes_of_an_instance_are_emptied_in_an_order_that_works(run: Run) -> None:
    _, out, _ = run("start", "node2", "node3", "--empty", "-C")
    moves = [command for command in commands(out) if command.endswith(" stopped")]
    assert [command.split()[1] for command in moves] == ["replace-disks", "failover", "replace-disks"]
    new = [command.split()[3] for command in moves if "replace-disks" in command]
    assert sorted(new) == ["node1", "node4"]


def test_no_place_is_named(run: Run) -> None:
    status, out, err = run("start", "node1", "node3", "node4", "--empty")
    assert (status, out) == (1, "")
    assert "not safe: stopped.org: Can't find any good node" in err


def test_lost_redundancy_is_refused_unless_accepted(run: Run) -> None:
    """Of two remaining nodes one is too small for what the other has."""
    status, _, err = run("start", "node3", "node4", "--empty", boss=4500)
    assert status == 1
    assert "would not come back after the loss of" in err
    assert "--no-capacity-checks accepts that" in err
    assert run("start", "node3", "node4", "--empty", "--no-capacity-checks", boss=4500)[0] == 0


def test_start_explains_places_and_who_stays(run: Run) -> None:
    status, out, err = run("start", "node2", "--explain")
    assert (status, err) == (hmaintain.INCOMPLETE, "")
    pool, stopped, local = out.split("\n\n")
    assert pool.startswith("Places for pool.org, ext, score now ")
    assert [line.split()[0] for line in pool.splitlines() if line.startswith(" node")] == [
        "node4.org", "node3.org", "node1.org", "node2.org"
    ]  # fmt: skip
    assert pool.endswith("Chosen: node4.org")
    assert stopped.endswith("Chosen: node3.org, node2.org")
    assert "No place: plain instances neither migrate nor fail over" in local


def test_start_explains_the_refusal(run: Run) -> None:
    status, out, err = run("start", "node3", "node4", "node1", "--empty", "--explain", "--json")
    assert status == 1
    assert "not safe: stopped.org: Can't find any good node" in err
    found = {each["instance"]: each for each in json.loads(out)}
    assert {name: each["chosen"] for name, each in found.items()} == {
        "boss.org": ["node2.org"],
        "stopped.org": None,
        "mail.org": None,
    }
    assert {tuple(each["nodes"]): each["why"] for each in found["stopped.org"]["places"]} == {
        ("node1.org",): "not to be used",
        ("node2.org",): "has it already",
        ("node3.org",): "has it already",
        ("node4.org",): "not to be used",
    }
    assert "closest: node2.org lacks 1 MiB" in found["mail.org"]["why"]


def test_start_explains_each_copy(run: Run) -> None:
    """A node that is emptied of both roles: the secondary leaves by a copy of its own."""
    _, out, _ = run("start", "node2", "--empty", "--explain", "--json")
    copies = [each["chosen"] for each in json.loads(out) if each["instance"] == "stopped.org"]
    assert [each[0] for each in copies] == ["node3.org"] * 2
    assert copies[0][1] == "node2.org" != copies[1][1]


def test_end_explains_the_way_home_and_what_prevents_it(run: Run) -> None:
    away = {"tags": ("", SET), "at": "node4.org", "home": "htools:home:node2.org"}
    status, out, _ = run("end", "node2", "--explain", **away)
    assert status == 0
    assert out.startswith("Places for pool.org, ext, score now ")
    assert out.endswith("Chosen: node2.org\n")
    full = {**away, "home": "htools:home:node1.org", "tags": (SET, "")}
    status, out, _ = run("end", "node1", "--explain", boss=6500, **full)
    assert status == hmaintain.INCOMPLETE
    assert "FailMem" in out
    assert "most missing: memory; closest: node1.org lacks 501 MiB" in out


def test_end_brings_home_and_removes_tags(run: Run) -> None:
    tags = f"{SET},htools:maintenance:drained"
    status, out, _ = run("end", "node2", "-C", tags=("", tags), at="node4.org", home="htools:home:node2.org")
    assert status == 0
    assert commands(out) == [
        f"gnt-node add-tags node2.org htools:maintenance:run:{RUN}",
        "gnt-node modify --drained no node2.org",
        "gnt-node remove-tags node2.org htools:maintenance:drained",
        "gnt-node volumes node2.org",
        "gnt-instance activate-disks --wait-for-sync mail.org",
        "gnt-instance migrate -f -n node2 pool",
        "gnt-instance remove-tags pool.org htools:home:node2.org",
        f"gnt-node remove-tags node2.org {SET.replace(',', ' ')} htools:maintenance:run:{RUN}",
    ]


def test_second_end_has_nothing_to_do(run: Run) -> None:
    assert run("end", "node2") == (0, "Nothing to do\n", "Warning: node node2.org is not in maintenance\n")


def test_end_without_return_forgets_homes(run: Run) -> None:
    away = {"tags": ("", SET), "at": "node4.org", "home": "htools:home:node2.org"}
    _, out, _ = run("end", "node2", "-C", "--no-return", **away)
    assert not any("migrate" in command for command in commands(out))
    assert "gnt-instance remove-tags pool.org htools:home:node2.org" in commands(out)


def test_end_with_balancing_forgets_homes(run: Run) -> None:
    """The empty node gets something, whose home it need not be."""
    away = {"tags": ("", SET), "at": "node4.org", "home": "htools:home:node2.org"}
    _, out, _ = run("end", "node2", "-C", "--balance", boss=2000, **away)
    found = commands(out)
    assert any("migrate" in command or "failover" in command for command in found)
    assert found.count("gnt-instance remove-tags pool.org htools:home:node2.org") == 1
    assert found[-1].startswith("gnt-node remove-tags node2.org")


def test_file_without_uuids_does_not_tell_homes(run: Run) -> None:
    home = "htools:home:3a1cb0a5-8ef3-4d5a-b7c0-1c6a6a1a2c11"
    _, out, err = run("end", "node2", "-C", tags=("", SET), at="node4.org", home=home)
    assert "pool" not in f"{out}{err}"


def test_second_start_keeps_the_first_home(run: Run) -> None:
    """An instance that left node2 for node1 and leaves that as well still belongs to node2."""
    tags = ("", SET)
    start = "start", "node1", "--empty", "-C"
    _, out, _ = run(*start, tags=tags, at="node1.org", home="htools:home:node2.org")
    assert any(command.startswith("gnt-instance migrate -f -n node") for command in commands(out))
    assert "add-tags pool.org" not in out
    status, out, _ = run("end", "node1", "-C", tags=(SET, SET), at="node4.org", home="htools:home:node2.org")
    assert status == 0
    assert "pool" not in out


def test_status_names_the_nodes_that_hcheck_names(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mirror of mail is on a node in maintenance, so mail does not come back without node1."""
    _, out, _ = run("status", tags=("", SET), at="node4.org")
    assert "Without node1.org not all instances would come back now" in out
    hcheck.main(["-t", str(tmp_path / "cluster"), "--what-if-lost=any", "--json"])
    losses = json.loads(capsys.readouterr().out)["lost"]
    assert [loss["node"] for loss in losses if not loss["survived"]] == ["node1.org"]


def test_status(run: Run) -> None:
    run_tag = f"htools:maintenance:run:{RUN}"
    tagged = {"tags": ("", f"{SET},{run_tag}"), "at": "node4.org", "home": "htools:home:node2.org"}
    assert run("status")[:2] == (0, "No node is in maintenance\nAny node may fail now\n")
    _, out, _ = run("status", **tagged)
    assert out.splitlines()[:5] == [
        f"In maintenance: node2.org since {local_time('20200101T000000Z')} by ann@node1: RAM",
        f"  at work there, or cut off: {RUN}",
        "  primaries: stopped.org, local.org",
        "  secondaries: mail.org",
        "  would return: pool.org",
    ]
    _, out, _ = run("status", **(tagged | {"tags": ("", "")}))
    assert "Not at home: pool.org; hmaintain end NODE tries again" in out
    found = json.loads(run("status", "--json", **tagged)[1])
    (node,) = found["nodes"]
    assert (node["name"], node["returning"], node["runs"]) == ("node2.org", ["pool.org"], [RUN])


def test_roll_shows_order_and_reasons(run: Run) -> None:
    status, out, _ = run("roll")
    assert status == hmaintain.INCOMPLETE
    assert out.splitlines() == [
        "    1. node4.org: 0 moves",
        "    2. node3.org: 0 moves",
        "Left out: node2.org: local.org: plain instances neither migrate nor fail over",
        "Left out: node1.org: it is the master;"
        " on another candidate: hmaintain roll node1.org --master-failover -L",
    ]
    assert run("roll", "node2", "--ignore-non-redundant")[:2] == (0, "    1. node2.org: 2 moves\n")


def test_unfinished_roll(run: Run) -> None:
    by = "20200101T000000Z:ann@node1"
    tags = f"htools:maintenance:rolled:{by}", f"{SET},htools:maintenance:roll:{by}"
    _, out, _ = run("roll", "node1", "node2", tags=tags)
    assert out.splitlines() == [
        f"The roll of {by_local_time(by)} goes on; --anew begins anew",
        "Done: node1.org",
        "    1. node2.org: maintenance has begun",
    ]
    assert f"A roll of {by_local_time(by)}: done node1.org; at node2.org" in run("status", tags=tags)[1]
    found = json.loads(run("roll", "--json", tags=tags)[1])
    assert (found["begun"], found["done"]) == (by, ["node1.org"])
    kept = commands(run("end", "node2", "-C", tags=(tags[0], f"{tags[1]},{tags[0]}"))[1])[-1]
    assert ":roll:" in kept
    assert ":rolled:" not in kept


def test_json(run: Run) -> None:
    found = json.loads(run("start", "node2", "--json")[1])
    assert [move["instance"] for move in found["moves"]] == ["pool.org", "stopped.org"]
    assert found["drained"] == found["nodes"] == ["node2.org"]
    assert found["staying"].keys() == {"local.org"}
    assert found["without_mirror"] == ["stopped.org", "mail.org"]
