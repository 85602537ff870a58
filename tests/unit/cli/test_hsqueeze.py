import json
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hsqueeze
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.tags import SQUEEZING
from ganeti_htools.model.wording import counted, size
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from tests.support.squeezing import outgrown

# Four nodes that are nearly empty; node1 is the master.
FILE = """\
g|u|preferred||

node1.org|8000|0|6000|1000|1000|40|M|u
node2.org|8000|0|8000|1000|1000|40|N|u
node3.org|8000|0|7000|1000|1000|40|N|u
node4.org|8000|0|8000|1000|1000|40|{role}|u|1|{tag}

inst1.org|1000|10|1|running|Y|node1.org||ext|
inst2.org|1000|10|1|ADMIN_down|Y|node2.org||ext|
inst3.org|1000|10|1|running|Y|node3.org||rbd|
inst4.org|1000|10|1|running|Y|node1.org||ext|

"""
LOOSE = FILE.format(role="N", tag="")
ASLEEP = FILE.format(role="Y", tag="htools:standby:auto")


def run(tmp_path: Path, content: str, *argv: str) -> int:
    path = tmp_path / "cluster.data"
    path.write_text(content)
    return hsqueeze.main(["-t", str(path), *argv])


def test_commands_empty_nodes_then_power_them_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, LOOSE, "-C", "--target-resources=0") == 0
    told = capsys.readouterr().out
    nodes = [line for line in told.splitlines() if line.startswith("node")]
    assert nodes == ["node2.org", "node3.org", "node4.org"]
    assert told.splitlines()[0] == "'Nodes to offline'"
    assert "gnt-instance failover -f -n node1 inst2.org" in told
    assert "gnt-instance migrate -f -n node1 inst3.org" in told
    lines = [line.strip() for line in told.splitlines()]
    drained = "gnt-node modify --drained yes {0} || gnt-node modify --auto-promote --drained yes {0}"
    assert [line for line in lines if line.startswith("gnt-node")] == [
        *(text for node in nodes for text in (f"gnt-node add-tags {node} {SQUEEZING}", drained.format(node))),
        *(f"gnt-node add-tags {node} htools:standby:auto" for node in nodes),
        *(f"gnt-node modify --offline yes {node}" for node in nodes),
        *(f"gnt-node power -f off {node}" for node in nodes),
        *(f"gnt-node remove-tags {node} {SQUEEZING}" for node in nodes),
    ]
    moves = [row for row, line in enumerate(lines) if line.startswith("gnt-instance")]
    last_drain = lines.index(drained.format("node4.org"))
    assert (
        last_drain < moves[0] < moves[-1] < lines.index(f"gnt-node add-tags {nodes[0]} htools:standby:auto")
    )


def test_standby_nodes_are_powered_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, ASLEEP, "-C", "--minimal-resources=50") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["'Nodes to online'", "node4.org"]
    commands = [line.strip() for line in lines if " gnt-" in line]
    assert commands[:-1] == [
        f"gnt-node add-tags node4.org {SQUEEZING}",
        "gnt-node power -f on node4.org",
        "timeout 600 sh -c 'until gnt-node modify --offline no node4.org; do sleep 15; done'",
        f"gnt-node remove-tags node4.org {SQUEEZING} htools:standby:auto",
    ]
    assert commands[-1].startswith("gnt-instance migrate -f -n node4 ")


def test_replaced_nodes_are_listed_after_new_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, options = text.dump(outgrown()), ("--minimal-resources=40",)
    heading = "'Nodes to offline then, which are not needed any more'"
    lists = ["'Nodes to online'", "large", heading, "small"]
    assert run(tmp_path, content, *options, "-C") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == lists
    power = [line.strip() for line in lines if "gnt-node power" in line]
    assert power == ["gnt-node power -f on large", "gnt-node power -f off small"]
    assert run(tmp_path, content, *options, "--no-headers") == 0
    assert capsys.readouterr().out.splitlines() == lists[1:]
    assert run(tmp_path, content, *options, "--max-nodes=0") == 0
    assert capsys.readouterr().out.splitlines() == lists[:2]
    assert run(tmp_path, content, *options, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["action"], report["nodes"]) == ("online", ["large"])
    assert [(phase["action"], phase["nodes"]) for phase in report["phases"]] == [
        ("online", ["large"]),
        ("offline", ["small"]),
    ]


def test_reports_no_action(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, LOOSE, "-C", "--target-resources=70", "--minimal-resources=0") == 0
    told = capsys.readouterr().out
    assert told == "'No action'\n\nCommands to run:\n  echo Nothing to do\n"
    path = tmp_path / "run.sh"
    assert run(tmp_path, LOOSE, f"-C{path}", "--target-resources=70", "--minimal-resources=0") == 0
    assert path.read_text().endswith("}\n\necho Nothing to do")


def test_reports_too_few_standby_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warning = (
        "Warning: not enough standby nodes: with all of them up, group g still lacks minimal resources\n"
    )
    assert run(tmp_path, ASLEEP, "-v", "--minimal-resources=1000") == 0
    out, err = capsys.readouterr()
    assert "Onlining all nodes will not yield enough capacity" in out
    assert err == warning
    assert run(tmp_path, ASLEEP, "--json", "--minimal-resources=1000") == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["enough"], json.loads(out)["lacking_groups"]) == (False, ["g"])
    assert err == warning
    full = ASLEEP.replace("|8000|0|7000|", "|8000|0|-1|")
    assert run(tmp_path, full, "--no-headers", "--minimal-resources=0") == 0
    assert "not enough" not in capsys.readouterr().err
    assert run(tmp_path, ASLEEP, "--json", "--minimal-resources=10") == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["enough"], json.loads(out)["lacking_groups"], err) == (True, [], "")


def test_the_script_stops_when_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sh"
    assert run(tmp_path, LOOSE, f"-C{path}", "--target-resources=0") == 0
    content = path.read_text()
    assert content.startswith("#!/bin/sh\n")
    assert content.count("\n  check\n") == content.count("echo job ")
    assert f"The commands have been written to file '{path}'" in capsys.readouterr().out


@pytest.mark.parametrize(("content", "action"), [(LOOSE, "offline"), (ASLEEP, "online")])
def test_json_is_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, action: str
) -> None:
    path = tmp_path / "run.sh"
    argv = ["--json", "-v", "-C", f"-C{path}", "--target-resources=0"]
    argv += ["--minimal-resources=50"] if action == "online" else []
    assert run(tmp_path, content, *argv) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["action"] == action
    script = path.read_text()
    assert all(node.removesuffix(".org") in script for node in report["nodes"])
    for move in (move for jobs in report["jobsets"] for move in jobs):
        assert all(command in script for command in move["commands"])
        assert move["from"] != move["to"]


@pytest.mark.parametrize("factor", ["", "x", "-1", "nan", "1e300"])
def test_factors_are_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: str) -> None:
    with pytest.raises(SystemExit) as caught:
        run(tmp_path, LOOSE, f"--minimal-resources={factor}")
    assert caught.value.code == 1
    assert "--minimal-resources: cannot parse string" in capsys.readouterr().err


def test_defaults_are_those_of_ganeti() -> None:
    assert hsqueeze.squeeze_options(CommandLine()).factors == (2.0, 2.0)


@pytest.mark.parametrize(
    ("minimum", "target", "used"),
    [(None, 1.0, (1.0, 1.0)), (None, 5.0, (2.0, 5.0)), (4.0, None, (4.0, 4.0)), (0.0, None, (0.0, 2.0))],
)
def test_one_factor_bounds_the_default_of_the_other(
    minimum: float | None, target: float | None, used: tuple[float, float]
) -> None:
    options = SqueezeOptions(minimal_resources=minimum, target_resources=target)
    assert (options.factors, options.target_warning) == (used, None)


# What a live cluster tells of nodes that are off: nothing.
OFF = """\
g|u|preferred||

node1.org|8000|0|6500|1000|1000|40|M|u
node2.org|16000|0|16000|1000|1000|40|N|u
node4.org|0|0|0|0|0|0|Y|u|1|htools:standby:auto

inst1.org|1000|10|1|running|Y|node1.org||ext|
inst4.org|500|10|1|running|Y|node1.org||ext|

"""


def test_standby_nodes_have_known_or_similar_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What they had before, else what the smallest similar node has; the standard instance has 128 MiB."""
    full = OFF.replace("node1.org|8000|0|6500", "node1.org|8000|0|100").replace("|1000|10|", "|7400|10|", 1)
    full = full.replace("node2.org|16000|0|16000", "node2.org|8000|0|100")
    full = full.replace("\n\ninst1", "\n\ninst2.org|7900|10|1|running|Y|node2.org||ext|\ninst1")
    assert run(tmp_path, full, "--minimal-resources=1", "-S", str(tmp_path / "x")) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["'Nodes to online'", "node4.org"]
    assert "\nnode4.org|8000|0|" in (tmp_path / "x.squeezed").read_text()
    assert "\nnode4.org|0|0|0|" in (tmp_path / "x.original").read_text()
    before = tmp_path / "before.data"
    before.write_text(full.replace("node4.org|0|0|0|0|0|0|Y", "node4.org|9000|0|9000|1000|1000|40|N"))
    options = ("--minimal-resources=1", f"--standby-data={before}", "-S", str(tmp_path / "y"))
    assert run(tmp_path, full, *options) == 0
    assert "\nnode4.org|9000|0|" in (tmp_path / "y.squeezed").read_text()
    assert run(tmp_path, full, f"--standby-data={tmp_path}/none") == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("Error: --standby-data: ")


def test_reports_cost_and_reasons_of_nodes_that_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--target-resources=0", "--never=node2")
    assert run(tmp_path, LOOSE, *options, "-v", "-v") == 0
    told = capsys.readouterr().out.splitlines()
    assert "Node node1.org stays: is the master" in told
    assert "Node node2.org stays: is in --never" in told
    assert run(tmp_path, LOOSE, *options, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["kept"]) | set(report["nodes"]) == {f"node{row}.org" for row in range(1, 5)}
    moves = sum(report["cost"]["moves"].values())
    assert f"{counted(moves, 'move')}: 0 MiB of disks, {size(report['cost']['memory_mib'])} of memory" in told
    assert f"Group g: at least {size(report['least_free_mib']['g'])} free" in told


# Four nodes with an instance each that is on its node; node1 is the master.
LOCAL = """\
g|u|preferred||

node1.org|8000|0|7000|100000|90000|40|M|u
node2.org|8000|0|7000|100000|90000|40|N|u
node3.org|8000|0|7000|100000|90000|40|N|u
node4.org|8000|0|8000|100000|90000|40|N|u

inst1.org|1000|10000|1|running|Y|node1.org||plain|
inst2.org|1000|10000|1|running|Y|node2.org||plain|
inst3.org|1000|10000|1|running|Y|node3.org||file|
inst4.org|1000|10000|1|ADMIN_down|Y|node4.org||plain|

"""


def test_warns_of_stopped_instances(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--allow-all", "--target-resources=0", "--minimal-resources=0")
    assert run(tmp_path, LOCAL, *options, "-C", "-vv") == 0
    told = capsys.readouterr()
    said = "Warning: stopped while they are copied: 2 instances, inst2.org, inst3.org"
    assert said in told.err.splitlines()
    assert "gnt-instance move -f -n node1 inst4.org" in told.out
    assert run(tmp_path, LOCAL, *options, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["stopped"] == ["inst2.org", "inst3.org"]
    assert report["cost"]["moves"] == {"moves of stopped instances": 3}
    assert report["cost"]["disk_mib"] == 30000
    for less in ("--allow-drbd", "-v"):
        assert run(tmp_path, LOCAL, less, *options[1:], "--json") == 0
        assert json.loads(capsys.readouterr().out)["action"] == "nothing"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("file", "has instances on its own storage"),
        ("diskless", "has diskless instances, which stay"),
        ("ext", "is in --never"),
    ],
)
def test_reports_why_a_candidate_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], template: str, reason: str
) -> None:
    """Nodes with such instances are counted as candidates by Debian's, though these cannot leave."""
    content = LOOSE.replace("node3.org||rbd|", f"node3.org||{template}|")
    assert run(tmp_path, content, "-vv", "--never=node3") == 0
    out = capsys.readouterr().out
    assert f"Node node3.org stays: {reason}" in out
    nothing = ("--minimal-resources=0", "--target-resources=0")
    assert run(tmp_path, content, "-vv", "--allow-all", *nothing) == 0
    stays = "Node node3.org stays: has diskless instances" in capsys.readouterr().out
    assert stays == (template == "diskless")


@pytest.mark.parametrize("content", [LOOSE, ASLEEP, LOCAL, OFF])
@pytest.mark.parametrize("options", [(), ("--allow-all",), ("--target-resources=0",), ("--never=node2",)])
def test_every_node_goes_or_has_a_reason_to_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, options: tuple[str, ...]
) -> None:
    assert run(tmp_path, content, *options, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    nodes = {line.split("|")[0]: line.split("|")[7] for line in content.splitlines() if line[:4] == "node"}
    names = {name for name, role in nodes.items() if report["action"] != "online" or role == "Y"}
    assert {*report["nodes"]} | {*report["kept"]} == names
    assert not {*report["nodes"]} & {*report["kept"]}
    assert "nothing would be gained" not in report["kept"].values()
    assert set(report["least_free_mib"]) == {"g"}
    assert run(tmp_path, content, *options, "-v", "-v") == 0
    told = capsys.readouterr().out
    assert all(f"Node {node} stays: {why}" in told for node, why in report["kept"].items())


# Two nodes are full. On node3 is all the room there is; a fourth node is off, and too small for any instance.
CROWDED = """\
g|u|preferred||

node1.org|8000|0|1000|1000|1000|40|M|u
node2.org|8000|0|3000|1000|1000|40|N|u
node3.org|8500|0|7500|1000|1000|40|N|u
node4.org|2000|0|2000|1000|1000|40|Y|u|1|htools:standby:auto

inst1.org|7000|10|1|running|Y|node1.org||ext|
inst2.org|2500|10|1|running|Y|node2.org||ext|
inst3.org|2500|10|1|running|Y|node2.org||ext|
inst4.org|1000|10|1|running|Y|node3.org||ext|

"""


def test_instance_stays_if_its_move_takes_redundancy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, CROWDED, "--minimal-resources=12", "--json") == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert report["redundancy"]["lost"] == []
    why = "inst1.org would not come back after the loss of node1.org, unlike now"
    assert report["refused"] == dict.fromkeys(report["refused"], why)
    assert f"Warning: instance inst2.org stays where it is: {why}" in told.err
