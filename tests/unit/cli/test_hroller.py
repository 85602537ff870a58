import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hroller
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance


@pytest.fixture
def described() -> Cluster:
    """Four nodes, the first of which is the master; n2 has an instance without secondary."""
    instances = [
        instance("a", DiskTemplate.DRBD, "n0", "n1"),
        instance("b", DiskTemplate.EXT, "n2"),
    ]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), instances)
    master = replace(made.nodes[0], master=True, tags=("red",))
    return replace(made, nodes=(master, *made.nodes[1:3], replace(made.nodes[3], tags=("blue", "red"))))


def run(tmp_path: Path, described: Cluster, *options: str) -> int:
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(described))
    return hroller.main(["-t", str(path), *options])


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_groups_with_the_master_last(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, described, "--print-moves") == 0
    assert lines(capsys) == ["'Node Reboot Groups'", "n1", "n2,n3,n0", "  b n1"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--skip-non-redundant"], ["n1", "n3,n0"]),
        (["--skip-non-redundant", "--offline-maintenance"], ["n1,n3", "n0"]),
        # The nodes between those with the tag are emptied as well, so the instance of n2 has to go to n3.
        (["--node-tags=red"], ["n3", "n0"]),
        (["--node-tags=red", "--ignore-non-redundant"], ["n3,n0"]),
        (["--node-tags=blue,none"], ["n3"]),
        (["-O", "n1"], ["n3", "n2,n0"]),
        (["-G", "group1", "-O", "n3"], ["n1", "n2,n0"]),
        (["-G", "uuid-1", "--skip-non-redundant", "--one-step-only"], ["n1"]),
        (["--one-step-only", "--offline-maintenance", "--print-moves"], ["n1", "n2", "n3", "  b n0"]),
    ],
)
def test_some_of_the_nodes(
    options: Sequence[str],
    expected: Sequence[str],
    tmp_path: Path,
    described: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path, described, "--no-headers", *options) == 0
    assert lines(capsys) == expected


def test_the_first_group_alone(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, described, "--one-step-only", "--print-moves") == 0
    assert lines(capsys) == ["'First Reboot Group'", "n1"]


def test_the_graph_and_its_colourings(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, described, "-v", "-v", "--offline-maintenance") == 0
    printed = lines(capsys)
    assert printed[0] == "Node Graph: array (0,3) [(0,[1]),(1,[0]),(2,[]),(3,[])]"
    assert printed[1] == "Dcolor: 2 (3,1) TIE Dsatur: 2 (3,1) TIE LF: 2 (3,1)"


def test_the_report_as_json(tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, described, "--json", "-v", "-v", "--full-evacuation") == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert sorted(node for group in groups for node in group["nodes"]) == ["n0", "n1", "n2", "n3"]
    assert groups[-1] == {
        "nodes": ["n2", "n0"],
        "moves": [
            {"instance": "a", "primary": "n1", "secondary": "n3"},
            {"instance": "b", "primary": "n1"},
        ],
    }


@pytest.mark.parametrize("options", [[], ["--skip-non-redundant"]])
@pytest.mark.parametrize("change", [{"offline": True}, {"tags": (MAINTENANCE,)}])
def test_warns_of_instance_whose_secondary_takes_none_and_leaves_it_out_of_json(
    options: Sequence[str],
    change: dict[str, Any],
    tmp_path: Path,
    described: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = described.nodes
    closed = replace(described, nodes=(rows[0], replace(rows[1], **change), *rows[2:]))
    warning = "Warning: a cannot leave n0: its secondary takes no instances\n"
    assert run(tmp_path, closed, "--no-headers", *options) == 0
    printed = capsys.readouterr()
    assert ("n0" in printed.out.replace("\n", ",").split(","), printed.err) == (True, warning)
    assert run(tmp_path, closed, "--json", *options) == 0
    printed = capsys.readouterr()
    nodes = {node for group in json.loads(printed.out)["groups"] for node in group["nodes"]}
    assert (nodes, printed.err) == ({"n3"} if options else {"n2", "n3"}, warning)
    assert run(tmp_path, closed, "--json", "--offline-maintenance", *options) == 0
    printed = capsys.readouterr()
    assert ("n0" in printed.out, printed.err) == (True, "")


def test_full_evacuation_moves_nothing_to_a_node_of_the_same_group(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The instance of n1, which is not rebooted, stays there."""
    mirrored = replace(described, instances=(instance("a", DiskTemplate.DRBD, "n1", "n0"),))
    options = "--node-tags=red", "--full-evacuation", "--print-moves", "--no-headers"
    assert run(tmp_path, mirrored, *options) == 0
    assert lines(capsys) == ["n3,n0", "  a n1 n2"]


def test_what_was_loaded_is_saved(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = tmp_path / "saved"
    assert run(tmp_path, described, "-S", str(prefix), "-O", "n3") == 0
    assert (tmp_path / "saved.original").read_text() == text.dump(described)
    assert capsys.readouterr().err == (
        f"The cluster state before hroller run has been written to file '{prefix}.original'\n"
    )


def test_a_master_is_needed_or_force(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = replace(described, nodes=tuple(replace(node, master=False) for node in described.nodes))
    assert run(tmp_path, nobody) == 1
    told = "No master node found (maybe not supported by backend)."
    assert capsys.readouterr() == ("", f"Error: {told}\n")
    assert run(tmp_path, nobody, "--force") == 0
    assert capsys.readouterr().err == f"Warning: {told}\n"
    everybody = replace(described, nodes=tuple(replace(node, master=True) for node in described.nodes))
    assert run(tmp_path, everybody, "--force") == 1
    assert capsys.readouterr().err == 'Error: Found more than one master node: ["n0","n1","n2","n3"]\n'


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["x"], "This program doesn't take any arguments."),
        (["-G", "group7"], "Cannot find target group."),
        (["--node-tags=green"], "Cannot create node graph"),
        (["-O", "n2", "-O", "n3", "--full-evacuation"], "Not enough capacity to move secondaries"),
    ],
)
def test_errors(
    options: Sequence[str],
    error: str,
    tmp_path: Path,
    described: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path, described, *options) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"Error: {error}"
