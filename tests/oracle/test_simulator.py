"""Debian's tools on the simulator: they behave as with a Ganeti master."""

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clusters import MOVABLE, TIGHT, Shape
from tests.support.oracle import Oracle
from tests.support.rows import with_master
from tests.support.simulators import PATIENCE, Simulator, simulator

pytestmark = pytest.mark.oracle

TAGS = ("exclusion", "location", "migration", "desired")
SHAPES = {
    "plain": Shape(nodes=4, instances=12),
    "mixed": Shape(nodes=8, instances=40, groups=2, offline=1, drained=1, down=0.3, tags=TAGS, policies=True),
    "spindles": Shape(nodes=6, instances=30, fill=TIGHT, exclusive_storage=True),
    "forthcoming": Shape(nodes=6, instances=30, forthcoming=0.2),
    "empty": Shape(nodes=2, instances=0),
}


def run(oracle: Oracle, tool: str, *options: object, status: int = 0) -> str:
    """Run a tool; return what it prints on both streams."""
    result = subprocess.run(
        [oracle.hbal.with_name(tool), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == status, result.stdout
    return result.stdout


def final_score(report: str) -> str:
    """Return the last score in a report of hbal that has moves."""
    return next(line for line in report.splitlines() if "score improved" in line).split()[-1]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_hscan_saves_the_served_file(oracle: Oracle, tmp_path: Path, shape: Shape) -> None:
    with simulator(tmp_path, with_master(1, shape)) as ganeti:
        run(oracle, "hscan", f"-L{ganeti.socket}", "-d", tmp_path)
        assert (tmp_path / "LOCAL.data").read_text() == ganeti.file.read_text() == ganeti.cluster()


TOOLS = [
    ("hinfo", ("-p", "--print-instances"), 0),
    ("hspace", ("--machine-readable",), 0),
    ("hbal", ("-C", "-p", "-G", "group1"), 0),
    ("hroller", ("--ignore-non-redundant",), 0),
    ("hsqueeze", ("-v",), 0),
    ("hcheck", (), 1),
]


def test_tools_print_the_same_as_for_the_file(oracle: Oracle, tmp_path: Path) -> None:
    with simulator(tmp_path, with_master(2, SHAPES["mixed"])) as ganeti:
        for tool, options, status in TOOLS:
            live = run(oracle, tool, *options, f"-L{ganeti.socket}", status=status)
            assert live == run(oracle, tool, *options, "-t", ganeti.file, status=status)
            assert live


def test_hbal_reaches_its_planned_score(oracle: Oracle, tmp_path: Path) -> None:
    shape = Shape(nodes=6, instances=30, templates=MOVABLE, drained=1)
    with simulator(tmp_path, with_master(3, shape), "--job-seconds=0.01") as ganeti:
        planned = run(oracle, "hbal", f"-L{ganeti.socket}", "-l6")
        executed = run(oracle, "hbal", f"-L{ganeti.socket}", "-l6", "-X")
        assert final_score(executed) == final_score(planned)
        assert {state for _, state in ganeti.tell("jobs")} == {"success"}
        after = tmp_path / "after.data"
        after.write_text(ganeti.cluster())
        scores = (
            run(oracle, "hbal", "-t", after, "-l1", "-v"),
            run(oracle, "hbal", f"-L{ganeti.socket}", "-v"),
        )
        for report in scores:
            assert f"Initial score: {final_score(planned)}\n" in report


def test_hbal_stops_after_a_failed_job(oracle: Oracle, tmp_path: Path) -> None:
    shape = Shape(nodes=6, instances=30, templates=MOVABLE, drained=1)
    with simulator(tmp_path, with_master(3, shape), "--job-seconds=0", "--fail=INSTANCE") as ganeti:
        report = run(oracle, "hbal", f"-L{ganeti.socket}", "-X", status=1)
        assert "Not all jobs completed successfully" in report
        assert {state for _, state in ganeti.tell("jobs")} == {"error"}
        assert ganeti.cluster() == ganeti.file.read_text()


def test_hsqueeze_powers_a_node_down(oracle: Oracle, tmp_path: Path) -> None:
    rows = with_master(4, Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.05, down=0))
    name = next(node.name for node in rows.nodes if not node.master)
    nodes = (
        replace(node, tags=("htools:standby:manual",)) if node.name == name else node for node in rows.nodes
    )
    with simulator(tmp_path, replace(rows, nodes=tuple(nodes)), "--job-seconds=0") as ganeti:
        assert offline(ganeti) == set()
        run(oracle, "hsqueeze", f"-L{ganeti.socket}", "-X")
        down = offline(ganeti)
        assert down
        assert down.isdisjoint(row.pnode for row in ganeti.rows().instances)
        for node in down - {name}:
            assert ganeti.ask("QueryTags", "node", node) == ["htools:standby:auto"]
        # Debian's tries to take nodes online before it powers them on, which Ganeti refuses.
        more = ("--minimal-resources=100", "--target-resources=200")
        with pytest.raises(AssertionError, match="JOB_STATUS_ERROR"):
            run(oracle, "hsqueeze", f"-L{ganeti.socket}", "-X", *more)
        assert offline(ganeti) == down


def offline(ganeti: Simulator) -> set[str]:
    """Return the nodes that LUXI reports as offline."""
    answer = ganeti.ask("Query", "node", ["name", "offline"], None)
    return {name for (_, name), (_, marked) in answer["data"] if marked}


def test_hinfo_names_a_silent_node(oracle: Oracle, tmp_path: Path) -> None:
    rows = with_master(1, SHAPES["plain"])
    with simulator(tmp_path, rows, "--lose", rows.nodes[1].name) as ganeti:
        said = subprocess.run(
            [oracle.hbal.with_name("hinfo"), f"-L{ganeti.socket}"], capture_output=True, text=True
        )
        assert said.returncode == 1
        assert rows.nodes[1].name in said.stderr
        ganeti.tell("find", rows.nodes[1].name)
        run(oracle, "hinfo", f"-L{ganeti.socket}")


def test_sigterm_ends_the_simulator_and_removes_its_sockets(oracle: Oracle, tmp_path: Path) -> None:
    with simulator(tmp_path, with_master(1, SHAPES["empty"]), "--job-seconds=1000") as ganeti:
        delay = {"OP_ID": "OP_TEST_DELAY", "duration": 1000, "reason": []}
        assert ganeti.ask("SubmitJob", [delay]) == 1
        ganeti.process.send_signal(signal.SIGTERM)
        assert ganeti.process.wait(PATIENCE) == 0
        assert not ganeti.socket.exists()
        assert not ganeti.control.exists()
