"""Nodes in maintenance by plans of the daemon."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.cli.report.maintenance_marks import by_local_time
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import AT_ONCE, ctl, following, known, result, started, tool
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.lines import next_line
from tests.support.programs import PATIENCE, PROGRAMS, wait_until
from tests.support.simulators import Simulator

pytestmark = pytest.mark.usefixtures("heeding")


def four_nodes() -> Cluster:
    """The master and three others, with a mirrored instance and one on shared storage."""
    rows = [instance("mail", DiskTemplate.DRBD, "n1", "n2"), instance("web", DiskTemplate.EXT, "n1")]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), rows)
    first, *others = made.nodes
    return replace(made, nodes=(replace(first, master=True), *others))


def on_node(ganeti: Simulator, name: str) -> list[str]:
    rows = ganeti.rows().instances
    return [row.name for row in rows if name in (row.pnode, row.snode)]


def test_daemon_empties_and_refills(tmp_path: Path) -> None:
    """The end waits for a node that does not report yet."""
    with following(tmp_path, four_nodes(), AT_ONCE) as (daemon, ganeti):
        source = f"-D{daemon.socket}"
        done = tool("hmaintain", "start", "n1", "--empty", "--reason=new RAM", source, "-X")
        assert (done.returncode, done.stderr) == (0, "")
        assert on_node(ganeti, "n1") == []
        known(daemon)
        assert ctl(daemon, "refresh").returncode == 0
        (line,) = (line for line in ctl(daemon, "status").stdout.splitlines() if "maintained" in line)
        assert line.startswith("  maintained n1 since ")
        assert line.endswith(": new_RAM")
        refused = tool("hmaintain", "start", "n0", "n2", "n3", source, "-X")
        assert (refused.returncode, "not safe" in refused.stderr) == (1, True)
        ganeti.tell("lose", "n1")
        assert ctl(daemon, "refresh").returncode == 0
        assert daemon.status()["cluster"]["silent"] == ["n1"]
        with started(PROGRAMS / "hmaintain", "end", "n1", source, "-X") as back:
            assert next_line(back.stderr) == "Waiting: nodes that are in use do not report: n1\n"
            ganeti.tell("find", "n1")
            status, _, err = result(back)
            assert (status, err) == (0, "")
        assert on_node(ganeti, "n1") == ["mail", "web"]
        assert not any(row.tags for row in ganeti.rows().nodes)


def nodes_of(ganeti: Simulator) -> dict[str, tuple[str, ...]]:
    return {row.name: row.tags for row in ganeti.rows().nodes}


def program(directory: Path, script: str) -> str:
    path = directory / "program"
    path.write_text(f"#!/bin/sh\necho $* >>{directory}/log\n{script}\n")
    path.chmod(0o755)
    return f"--command={path}"


@pytest.mark.parametrize("way", ["-L", "-D"])
def test_roll_stops_at_a_failure_and_goes_on(tmp_path: Path, way: str) -> None:
    """It has been through n1 and n3, and n2 stays in maintenance."""
    with following(tmp_path, four_nodes(), AT_ONCE) as (daemon, ganeti):
        source = f"{way}{daemon.socket if way == '-D' else ganeti.socket}"
        failing = program(tmp_path, "case $* in n2) exit 1; esac")
        stopped = tool("hmaintain", "roll", source, "-X", failing)
        assert stopped.returncode == 1
        assert "The roll stops at n2: the same command with --take-over goes on there" in stopped.stderr
        assert MAINTENANCE in nodes_of(ganeti)["n2"]
        (roll,) = json.loads(tool("hmaintain", "status", "--json", source).stdout)["rolls"]
        assert (roll["done"], roll["working"]) == (["n1", "n3"], ["n2"])
        assert ctl(daemon, "refresh").returncode == 0
        begun = by_local_time(roll["name"])
        assert f"rolling    roll of {begun}: done n1, n3; at n2" in ctl(daemon, "status").stdout
        again = tool("hmaintain", "roll", source, "-X", program(tmp_path, ""))
        assert "another run is at work there or was cut off" in again.stderr
        done = tool("hmaintain", "roll", source, "-X", program(tmp_path, ""), "--take-over")
        assert done.returncode == 0
        assert (tmp_path / "log").read_text().splitlines() == ["n1 n3", "n2", "n2"]
        assert on_node(ganeti, "n1") == ["mail", "web"]
        assert not any(nodes_of(ganeti).values())


def marked(ganeti: Simulator) -> list[str]:
    return [name for name, tags in nodes_of(ganeti).items() if any(":run:" in tag for tag in tags)]


@pytest.mark.parametrize("way", ["-L", "-D"])
def test_roll_is_not_taken_over_while_its_program_runs(tmp_path: Path, way: str) -> None:
    """Nor does a second one change anything. Once the first has been killed, one goes on with its batch."""
    with following(tmp_path, four_nodes(), AT_ONCE) as (daemon, ganeti):
        source = f"{way}{daemon.socket if way == '-D' else ganeti.socket}"
        waiting = program(tmp_path, f"read line <{tmp_path}/go")
        os.mkfifo(tmp_path / "go")
        roll = ["hmaintain", "roll", "n2", source, "-X", waiting, "--set-offline"]
        with started(PROGRAMS / roll[0], *roll[1:]) as first:
            wait_until((tmp_path / "log").exists)
            before = nodes_of(ganeti), ganeti.cluster()
            ending = ["hmaintain", "end", "n2", source, "-X"]
            for words in (roll, [*roll, "--take-over"], [*ending, "--take-over"]):
                refused = tool(*words)
                assert (refused.returncode, "at work there" in refused.stderr) == (1, True), refused
                assert (f"(process {first.pid})" in refused.stderr) == ("--take-over" in words)
            assert (nodes_of(ganeti), ganeti.cluster()) == before
            first.kill()
            (tmp_path / "go").write_text("\n")  # its program ends
        program(tmp_path, "")
        assert tool(*roll, "--take-over").returncode == 0
        assert (tmp_path / "log").read_text().splitlines() == ["n2", "n2"]
        assert not any(nodes_of(ganeti).values())


@pytest.mark.parametrize("shell", [[], ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_roll_that_is_stopped_between_jobs_gives_its_mark_back(
    tmp_path: Path, number: signal.Signals, shell: list[str]
) -> None:
    """Also if it was started to ignore SIGINT, as by a shell in the background."""
    with following(tmp_path, four_nodes(), AT_ONCE) as (_, ganeti):
        roll = ["hmaintain", "roll", "n2", f"-L{ganeti.socket}", "-X"]
        with started(*shell, PROGRAMS / roll[0], *roll[1:], "--pause") as first:
            assert first.stderr is not None
            next(line for line in first.stderr if "to go on" in line)
            assert marked(ganeti) == ["n2"]
            first.send_signal(number)
            if shell and number is signal.SIGINT:
                first.send_signal(signal.SIGTERM)
            assert (first.wait(PATIENCE), first.stderr.read().splitlines()[0]) == (
                130,
                "The roll stops at n2: the same command goes on there, 'hmaintain end n2' ends their"
                " maintenance",
            )
        assert (marked(ganeti), MAINTENANCE in nodes_of(ganeti)["n2"]) == ([], True)
        assert tool(*roll, program(tmp_path, "")).returncode == 0
        assert (tmp_path / "log").read_text().splitlines() == ["n2"]
        assert not any(nodes_of(ganeti).values())


def test_roll_that_is_stopped_while_its_program_runs_keeps_its_mark(tmp_path: Path) -> None:
    with following(tmp_path, four_nodes(), AT_ONCE) as (_, ganeti):
        roll = ["hmaintain", "roll", "n2", f"-L{ganeti.socket}", "-X"]
        with started(PROGRAMS / roll[0], *roll[1:], program(tmp_path, "exec sleep 60")) as first:
            wait_until((tmp_path / "log").exists)
            first.terminate()
            assert first.wait(PATIENCE) == 130
        assert marked(ganeti) == ["n2"]
        assert tool(*roll, program(tmp_path, ""), "--take-over").returncode == 0


def test_roll_waits_for_another_boot(tmp_path: Path) -> None:
    with following(tmp_path, four_nodes(), AT_ONCE) as (_, ganeti):
        words = "roll", "n1", f"-L{ganeti.socket}", "-X", "--rebooted", "--command=true"
        with started(PROGRAMS / "hmaintain", *words) as roll:
            assert roll.stderr is not None
            for line in roll.stderr:
                if line.startswith("Waiting: nodes have not booted yet: "):
                    ganeti.tell("find", line.split()[-1])
            assert roll.wait(PATIENCE) == 0
        assert not any(nodes_of(ganeti).values())
