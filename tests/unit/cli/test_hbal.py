import json
import os
import pty
import re
import stat
import subprocess
import termios
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hbal
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand, preloaded
from tests.support.by_hand import instance
from tests.support.clusters import Shape, cluster
from tests.support.programs import PROGRAMS
from tests.support.programs import run as run_program
from tests.support.rows import generated
from tests.support.text_format import text as text_of

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN


def uneven() -> Cluster:
    rows = [
        instance("a.org", DRBD, "n0.org", "n1.org"),
        instance("b.org", DRBD, "n0.org", "n1.org"),
        instance("c.org", PLAIN, "n0.org"),
    ]
    return by_hand.cluster({"n0.org": 10_000, "n1.org": 10_000, "n2.org": 10_000}, rows)


def run(tmp_path: Path, described: Cluster, *options: str) -> int:
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(described))
    return hbal.main(["-t", str(path), *options])


def test_json_is_one_document_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, uneven(), "--json", "-v", "-C", "--print-instances") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["group"] == {"name": "group1", "nodes": 3, "instances": 3}
    assert report["score"]["after"] == report["steps"][-1]["score"] < report["score"]["before"]
    for when in ("before", "after"):
        parts = (part["weight"] * part[when] for part in report["components"].values())
        assert sum(parts) == pytest.approx(report["score"][when])
    assert sum(report["cost"]["moves"].values()) == len(report["steps"])
    first = report["steps"][0]
    assert first["from"] == ["n0.org", "n1.org"]
    assert set(first["to"]) <= {"n0.org", "n1.org", "n2.org"}
    assert [step["jobset"] for step in report["steps"]][-1] == report["cost"]["jobsets"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_explain_lists_every_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert run(tmp_path, uneven(), "--explain", "a", "-O", "n1", *options) == 0
    out = capsys.readouterr().out
    if options:
        moves = json.loads(out)
        assert [move["move"] for move in moves] == [
            "replace secondary",
            "replace secondary and fail over",
        ]
        assert all(set(move["to"]) == {"n0.org", "n2.org"} for move in moves)
    else:
        assert "Moves of a.org, drbd, on n0.org, n1.org:" in out
        assert " n0:n2 r:n2 " in out
        assert " n2:n0 r:n2 f " in out


@pytest.mark.parametrize(
    ("options", "tags", "shown"),
    [
        ((), (), "at 100 Mbit/s (default; --bandwidth=RATE or htools:bandwidth tags set others)"),
        (("--bandwidth=1000",), (), "at 1000 Mbit/s (--bandwidth)"),
        (
            ("--bandwidth=1000",),
            ("htools:bandwidth:nic", "htools:bandwidth:nic:a::nic:b::5"),
            "at htools:bandwidth tags, elsewhere 1000 Mbit/s (--bandwidth)",
        ),
    ],
)
def test_time_of_copying_names_its_speed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    tags: tuple[str, ...],
    shown: str,
    short_search: None,
) -> None:
    tagged = replace(uneven(), tags=tags)
    assert run(tmp_path, tagged, "--max-time=10h", "-q", *options) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"Copying takes about \d+ \w+ " + re.escape(shown), last)
    assert run(tmp_path, tagged, "--front", "-q", *options) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Times of copying: {shown}"


def piped_and_shown(tmp_path: Path, columns: int, *options: str) -> tuple[str, str]:
    """The output of hbal in a pipe, and on a terminal of so many columns."""
    path = tmp_path / "cluster.data"
    path.write_text(text_of(cluster(2, Shape(nodes=5, instances=20, templates={"drbd": 1}))))
    arguments = "-t", path, *options
    piped = run_program(PROGRAMS / "hbal", *arguments).stdout
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    assert preloaded.start(str(PROGRAMS / "hbal"), arguments, output=theirs).wait() == 0
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # nobody is at the other end any more
        while more := os.read(ours, 1 << 16):
            shown += more
    os.close(ours)
    return piped, shown.decode()


@pytest.mark.parametrize("columns", [60, 200])
def test_explained_moves_fit_the_terminal(tmp_path: Path, columns: int) -> None:
    piped, shown = piped_and_shown(tmp_path, columns, "--explain", "inst16.example.org")
    rows, usual = (shown.splitlines(), piped.splitlines())
    assert max(map(len, rows)) <= columns
    assert max(map(len, usual)) <= 80
    assert shown.split() == piped.split()
    moves = [row for row in usual if row.startswith(" node")]
    scores = [float(row[row.index(".") - 2 :].split()[0]) for row in moves]
    assert len(scores) > 5
    assert scores == sorted(scores)


def test_cost_of_a_plan_fits_the_terminal(tmp_path: Path) -> None:
    piped, shown = piped_and_shown(tmp_path, 80)
    assert max(map(len, piped.splitlines())) > 80
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.split() == piped.split()


def test_explain_gives_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = instance("d.org", PLAIN, "n2.org", mem=9500)
    rows = (*uneven().instances, full)
    described = by_hand.cluster({"n0.org": 10_000, "n1.org": 10_000, "n2.org": 10_000}, rows)
    assert run(tmp_path, described, "--explain", "a.org") == 0
    assert "FailMem" in capsys.readouterr().out
    assert run(tmp_path, described, "--explain", "d.org") == 0
    assert "none: it cannot be moved" in capsys.readouterr().out
    assert run(tmp_path, described, "--explain", "e.org") == 1
    assert capsys.readouterr().err == "Error: Unknown instance: e.org\n"


@pytest.mark.parametrize(
    ("facts", "options", "why"),
    [
        ({"auto_balance": False}, (), "auto_balance is off"),
        ({"tags": ("htools:fixed",)}, (), "it has the tag htools:fixed"),
        ({}, ("--exclude-instances", "a.org"), "the options leave it out"),
    ],
)
def test_explain_says_why_an_instance_is_never_moved(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    facts: dict[str, Any],
    options: tuple[str, ...],
    why: str,
) -> None:
    rows = tuple(replace(row, **facts) if row.name == "a.org" else row for row in uneven().instances)
    stays = replace(uneven(), instances=rows)
    assert run(tmp_path, stays, "--explain", "a.org", *options) == 0
    assert capsys.readouterr().out.endswith(f":\n  none: {why}\n")
    assert run(tmp_path, stays, "--explain", "a.org", "--json", *options) == 0
    assert {move["fail"] for move in json.loads(capsys.readouterr().out)} == {why}


def test_commands_are_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "commands"
    assert run(tmp_path, uneven(), f"-C{path}") == 0
    assert f"The commands have been written to file '{path}'\n" in capsys.readouterr().out
    fake = tmp_path / "gnt-instance"
    fake.write_text('#!/bin/sh\necho "ran $*"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    ran = subprocess.run(
        ["/bin/sh", str(path)],
        capture_output=True,
        check=True,
        text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert "ran replace-disks -n n" in ran.stdout


def test_saves_clusters_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, uneven(), "--json", "-S", str(tmp_path / "saved"), "-O", "n2.org") == 0
    out, err = capsys.readouterr()
    assert f"The cluster state after balancing has been written to file '{tmp_path}/saved.balanced'" in err
    assert (tmp_path / "saved.original").read_text() == (tmp_path / "cluster.data").read_text()
    saved = text.parse((tmp_path / "saved.balanced").read_text(), "saved")
    places = {row.name: [row.pnode, row.snode] for row in saved.instances}
    last = {step["instance"]: step["to"] for step in json.loads(out)["steps"]}
    assert last
    assert all(places[name] == nodes for name, nodes in last.items())


def test_saves_only_the_group(tmp_path: Path) -> None:
    described = generated(3, Shape(nodes=8, instances=16, groups=2))
    assert run(tmp_path, described, "-G", "group2", "-S", str(tmp_path / "saved")) == 0
    saved = text.parse((tmp_path / "saved.balanced").read_text(), "saved")
    group = next(row.uuid for row in described.groups if row.name == "group2")
    assert {node.group for node in saved.nodes} == {group}
    assert 0 < len(saved.instances) < len(described.instances)


GROUPS = generated(3, Shape(nodes=12, instances=40, groups=3, templates={"drbd": 1}))


def by_group(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The document about each group alone."""
    found = {}
    for group in ("group1", "group2", "group3"):
        assert run(tmp_path, GROUPS, "--json", "-G", group, *options) == 0
        found[group] = json.loads(capsys.readouterr().out)
        assert found[group].pop("plan")["groups"] == [group]
    return found


def test_all_groups_in_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = by_group(tmp_path, capsys)
    options = "--all-groups", "--json", "-S", str(tmp_path / "saved"), f"-C{tmp_path}/commands"
    assert run(tmp_path, GROUPS, *options) == 0
    report = json.loads(capsys.readouterr().out)
    before = [group["score"]["before"] for group in report["groups"]]
    assert before == sorted(before, reverse=True)
    assert len(before) == 3
    jobset = 0
    for told in report["groups"]:
        expected = alone[told["group"]["name"]]
        for step in expected["steps"]:
            step["jobset"] += jobset
        assert {"nodes": 12, "instances": 40, **told} == expected
        jobset += told["cost"]["jobsets"]
    assert report["cost"]["jobsets"] == jobset
    saved = text.parse((tmp_path / "saved.balanced").read_text(), "saved")
    assert (len(saved.nodes), len(saved.instances)) == (12, 40)
    ends = {step["instance"]: step["to"] for told in report["groups"] for step in told["steps"]}
    assert {row.name: [row.pnode, row.snode] for row in saved.instances if row.name in ends} == ends
    assert (tmp_path / "commands").read_text().count("echo jobset ") == jobset


def test_worst_group_is_reported_like_the_group_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = by_group(tmp_path, capsys)
    worst = max(alone.values(), key=lambda told: told["score"]["before"])
    assert run(tmp_path, GROUPS, "--worst-group", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report.pop("plan")["options"] == {"worst_group": True}
    assert report == worst
    name = worst["group"]["name"]
    told = []
    for options in (("--worst-group",), ("-G", name)):
        saved = tmp_path / "saved"
        assert run(tmp_path, GROUPS, *options, "-v", "-p", "-C", "-S", str(saved)) == 0
        told.append((capsys.readouterr(), (tmp_path / "saved.balanced").read_text()))
    assert told[0] == told[1]


def test_worst_group_that_cannot_be_improved_gives_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = sorted(
        by_group(tmp_path, capsys).values(), key=lambda told: told["score"]["before"], reverse=True
    )
    first, second = (told["group"]["name"] for told in order[:2])
    kept = [
        row.name
        for row in GROUPS.instances
        if row.pnode in {node.name for node in GROUPS.nodes if node.group == uuid(first)}
    ]
    options = "--worst-group", f"--exclude-instances={','.join(kept)}"
    assert run(tmp_path, GROUPS, *options) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.startswith("Selected")] == [
        f"Selected node group: {first}",
        f"Selected node group: {second}",
    ]
    assert out.index("No solution found") < out.index(f"Selected node group: {second}")
    assert run(tmp_path, GROUPS, *options, "--json") == 0
    assert json.loads(capsys.readouterr().out)["group"]["name"] == second
    # If none can be, the report is about the worst.
    assert run(tmp_path, GROUPS, "--worst-group", "--json", "-l0") == 0
    assert json.loads(capsys.readouterr().out)["group"]["name"] == first


def uuid(name: str) -> str:
    return next(group.uuid for group in GROUPS.groups if group.name == name)


def test_well_balanced_groups_have_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, GROUPS, "--all-groups", "-e1000", "-S", str(tmp_path / "saved"), "-C") == 0
    out = capsys.readouterr().out
    assert out.count("\nNothing to do in this group\n") == 3
    assert "Commands" not in out
    assert not (tmp_path / "saved.balanced").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["extra"], "This program doesn't take any arguments."),
        (["-O", "n7"], "wrong node name(s) set as offline: n7"),
        (["--select-instances", "z"], "Unknown instance"),
        (["--optimise=1", "--avoid-disk-moves=2"], "it cannot go with --avoid-disk-moves"),
        (["--optimise=1", "--avoid-long-solutions=2"], "it cannot go with --avoid-long-solutions"),
        (["--price=1", "--avoid-disk-moves=2"], "prices and limits of copying cannot go with"),
        (["--pick=1"], "--pick chooses a plan of --front: it needs both"),
        (["--front", "-L", "-X"], "--front shows plans: with --exec, --pick chooses the one to carry out"),
        (["--front", "--all-groups"], "expected one group, and neither repair-rules nor"),
        (["--front", "--price=1"], "expected front or a price"),
        (["--front=2", "--pick=3"], "pick: expected a number up to 2"),
        (["--all-groups", "--explain=a"], "--explain is about one instance, in the group of --group"),
        (
            ["--all-groups", "-G", "group1"],
            "expected only one of the options group, worst-group and all-groups",
        ),
        (["-C/nonexistent/file"], "/nonexistent/file: cannot be written: No such file or directory"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(tmp_path, uneven(), *options) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("Error: ")
    assert message in last


def test_tags_and_policy_come_before_error_about_offline_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, uneven(), "-v", "-O", "nosuch") == 1
    tags, policy = capsys.readouterr().out.splitlines()
    assert tags == "Loaded cluster tags: "
    assert policy.startswith("Loaded cluster ipolicy: ")
    assert run(tmp_path, uneven(), "-v", "--select-instances", "nosuch", "-O", "nosuch") == 1
    assert capsys.readouterr().out == ""


def test_long_steps_are_avoided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Memory is 1,000 MiB, disks are 1,024 MiB; at 10 Mbit/s to copy the one takes 800 seconds.
    slow = replace(uneven(), tags=("htools:bandwidth:nic", "nic:a", "htools:bandwidth:nic:a::nic:a::10"))
    assert run(tmp_path, uneven(), "--avoid-long-solutions=100") == 0
    assert "Solution length=0" not in capsys.readouterr().out
    for rows, *options in ((slow,), (uneven(), "--bandwidth=10")):
        limits = "--avoid-long-solutions=100", "--long-solution-threshold=799"
        assert run(tmp_path, rows, *limits, *options) == 0
        assert "Solution length=0" in capsys.readouterr().out
    assert run(tmp_path, slow, "--avoid-long-solutions=100", "--long-solution-threshold=801") == 0
    assert " a=f\n" in capsys.readouterr().out


def test_optimised_plan_is_compared_with_the_greedy_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Moving one of these is too much, exchanging two is not. All is tried long before the time is over.
    sizes = {"a": 3000, "b": 3000, "c": 1000, "d": 2000, "e": 2000, "f": 1000}
    rows = [
        instance(name, EXT, "n0" if name in "abc" else "n1", mem=mem, spindle_use=0)
        for name, mem in sizes.items()
    ]
    described = by_hand.cluster({"n0": 20_000, "n1": 20_000}, rows)
    options = ("--optimise=3600", "-g", "0")
    assert run(tmp_path, described, *options, "--json", "-S", str(tmp_path / "saved")) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["score"]["after"] == report["steps"][-1]["score"] < report["score"]["before"]
    assert report["greedy"] == {
        "score": report["score"]["before"],
        "cost": {"moves": {}, "disk_mib": 0, "memory_mib": 0, "jobsets": 0},
    }
    assert report["cost"]["moves"] == {"migrations to any node": 2}
    saved = text.parse((tmp_path / "saved.balanced").read_text(), "saved")
    ends = {step["instance"]: step["to"] for step in report["steps"]}
    assert {row.name: [row.pnode] for row in saved.instances if row.name in ends} == ends
    assert sum(row.mem for row in saved.instances if row.pnode == "n0") == 6000
    assert run(tmp_path, described, *options) == 0
    *_, price, greedy, optimised = capsys.readouterr().out.splitlines()
    assert price.startswith(
        f"Default price: {report['default_price']:g} for each TiB, and a gain of at least"
    )
    assert greedy.startswith(
        f"Greedy plan:    score {report['score']['before']:.8f}, 0 moves; to copy: 0 MiB"
    )
    assert optimised.startswith(
        f"Optimised plan: score {report['score']['after']:.8f}, 2 moves; to copy: 0 MiB"
    )


def test_front_lists_plans_and_picks_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], short_search: None
) -> None:
    assert run(tmp_path, uneven(), "--front=2", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["steps"] == []
    plans = shown["front"]
    assert [plan["plan"] for plan in plans] == list(range(len(plans)))
    assert len(plans) > 1
    for plan in plans[1:2]:
        assert run(tmp_path, uneven(), "--front=2", f"--pick={plan['plan']}", "--json") == 0
        picked = json.loads(capsys.readouterr().out)
        assert picked["front"] == plans
        assert picked["score"]["after"] == plan["score"]
        assert len(picked["steps"]) == plan["moves"]
        assert {name: picked["cost"][name] for name in ("disk_mib", "memory_mib")} == {
            name: plan[name] for name in ("disk_mib", "memory_mib")
        }
    assert run(tmp_path, uneven(), "--front=2", "-C") == 0
    out = capsys.readouterr().out
    assert "\n--pick=PLAN makes one of these plans\n" in out
    assert "gnt-instance" not in out
    assert run(tmp_path, uneven(), "--front=9", "--pick=9") == 1
    assert "pick: there is no plan 9; the number of plans is" in capsys.readouterr().err


# What Ganeti's unreleased 2.17 says of this cluster.
POWERED = """\
group-01|fake-uuid-01|preferred||

node-01|16384|0|14336|409600|306600|16|N|fake-uuid-01|1|power:a
node-02|16384|0|16384|409600|357800|16|N|fake-uuid-01|1|power:b
node-03|16384|0|16384|409600|357800|16|N|fake-uuid-01|1|power:a
node-04|16384|0|16384|409600|409600|16|N|fake-uuid-01|1|power:b

inst1|1024|51200|1|running|Y|node-01|node-02|drbd|power:a|1
inst2|1024|51200|1|running|Y|node-01|node-03|drbd|power:a|1

htools:nlocation:power
htools:desiredlocation:power
"""


@pytest.mark.parametrize(("factor", "length"), [("1.2", 1), ("5", 2)])
def test_avoided_disk_moves_must_gain_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: str, length: int
) -> None:
    path = tmp_path / "cluster.data"
    path.write_text(POWERED)
    assert hbal.main(["-t", str(path), "--avoid-disk-moves", factor]) == 0
    assert f"\nSolution length={length}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "it fits nowhere: FailMem: 1"),
        (("--exclude-instances=a",), "the options leave it out"),
        (("--no-instance-moves", "--no-disk-moves"), "no other node is online, or the options do not allow"),
    ],
)
def test_stranded_instances_are_reported_as_text_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], why: str
) -> None:
    rows = [instance("a", EXT, "n0", mem=6000), instance("b", PLAIN, "n0"), instance("c", EXT, "n1")]
    described = by_hand.cluster({"n0": 10_000, "n1": 5000}, rows)
    assert run(tmp_path, described, "-On0", *options, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    left = json.loads(out)["left_on_offline_nodes"]
    assert [(each["instance"], each["nodes"]) for each in left] == [("a", ["n0"]), ("b", ["n0"])]
    assert left[0]["why"].startswith(why)
    assert run(tmp_path, described, "-On0", *options) == 0
    assert capsys.readouterr().err.splitlines() == [
        "Left on nodes that are offline or drained:",
        *(f"  {each['instance']} on n0: {each['why']}" for each in left),
    ]
    assert run(tmp_path, described, "-On0", *options, "-q") == 0
    assert capsys.readouterr().err == ""
