"""What only ours says; ``tests/oracle/test_harep.py`` compares the rest with Debian's."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.cli import harep
from ganeti_htools.model.cluster import Cluster
from tests.support.simulators import simulator
from tests.support.worlds import world

ALLOWED = "ganeti:watcher:autorepair:reinstall"


def broken(*node_tags: str) -> Cluster:
    """The world with the first node offline; the cluster allows every repair."""
    rows = world().cluster
    nodes = tuple(
        replace(node, offline=True, drained=False, tags=node_tags, t_mem=0.0, f_mem=0, t_dsk=0.0, t_cpu=0.0)
        if node.name == "one"
        else node
        for node in rows.nodes
    )
    return replace(rows, nodes=nodes, tags=(ALLOWED,))


def test_instances_of_a_node_in_maintenance_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulator(tmp_path, broken("htools:maintenance"), "--job-seconds=0") as ganeti:
        assert harep.main([f"-L{ganeti.socket}", "--job-delay=0"]) == 0
        assert ganeti.tell("jobs") == []
    assert capsys.readouterr().out.splitlines() == [
        "Not repairing mirrored because node one is in maintenance",
        "Not repairing stuck because node one is in maintenance",
        *("-" * 21, "Instance status count", "-" * 21),
        "Healthy: 3",
    ]


def test_repairs_until_nothing_is_left_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulator(tmp_path, broken(), "--job-seconds=0") as ganeti:
        counts = []
        for _ in range(4):
            assert harep.main([f"-L{ganeti.socket}", "--job-delay=0"]) == 0
            ganeti.finish()
            counts.append(capsys.readouterr().out.rpartition("-\n")[2].split("\n")[:-1])
        after = {row.name: row for row in ganeti.rows().instances}
    # A plain instance that should run cannot be reinstalled; the mirrored one fails over, then gets a mirror.
    assert counts == [
        ["Healthy: 1", "Pending repair: 2"],
        ["Failure: 1", "Healthy: 1", "Pending repair: 1"],
        ["Failure: 1", "Healthy: 2"],
        ["Failure: 1", "Healthy: 2"],
    ]
    assert (after["mirrored"].pnode, after["mirrored"].snode) == ("two", "boss")


def test_options_beyond_ganetis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Off a drained node a mirrored instance migrates; one on shared storage goes where there is room."""
    rows = broken()
    nodes = [
        replace(node, offline=node.name == "one", t_mem=4096.0, t_dsk=9000.0, f_mem=1000)
        for node in rows.nodes
    ]
    with simulator(tmp_path, replace(rows, nodes=tuple(nodes)), "--job-seconds=0") as ganeti:
        options = [f"-L{ganeti.socket}", "--job-delay=0", "--json", "--migrate-drained", "--shared"]
        assert harep.main(options) == 0
        report = json.loads(capsys.readouterr().out)
        ganeti.finish()
        after = {row.name: row for row in ganeti.rows().instances}
    assert report["counts"] == {"Healthy": 1, "Pending repair": 2}
    found = {each["name"]: each for each in report["instances"]}
    for name, number in (("mirrored", 1), ("shared", 3)):
        assert found[name]["tag"].startswith("ganeti:watcher:autorepair:pending:migrate:")
        assert (found[name]["needs"], found[name]["jobs"]) == ("migrate", [number])
    assert found["stuck"] == {
        "name": "stuck",
        "state": "Healthy",
        "needs": "migrate",
        "reason": "node one is drained, which plain disks cannot leave",
        "tag": None,
        "jobs": [],
    }
    assert [after[name].pnode for name in ("mirrored", "shared", "stuck")] == ["two", "three", "one"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("-L/nonexistent",), "Error: failed to load data, aborting: /nonexistent: "),
        (("--job-delay=soon",), "Error while parsing command line arguments:\n--job-delay: cannot parse"),
        (("web1",), "Error: This program doesn't take any arguments.\n"),
    ],
)
def test_errors(options: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = harep.main(options)
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 1
    assert capsys.readouterr().err.startswith(error)
