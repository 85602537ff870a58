"""Nodes in maintenance by plans of the daemon."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import AT_ONCE, ctl, following, known, tool
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.programs import PATIENCE, PROGRAMS
from tests.support.simulators import Simulator

pytestmark = pytest.mark.usefixtures("heeding")


def four_nodes() -> Cluster:
    """The master and three others, with a mirrored instance and one on shared storage."""
    rows = [instance("mail", DiskTemplate.DRBD, "n1", "n2"), instance("web", DiskTemplate.EXT, "n1")]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), rows)
    first, *others = made.nodes
    return replace(made, nodes=(replace(first, master=True), *others))


def on_node(ganeti: Simulator, name: str) -> list[str]:
    rows = text.parse(ganeti.cluster(), "").instances
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
        command = [str(PROGRAMS / "hmaintain"), "end", "n1", source, "-X"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as back:
            assert back.stderr is not None
            assert back.stderr.readline() == "Waiting: nodes that are in use do not report: n1\n"
            ganeti.tell("find", "n1")
            assert (back.wait(PATIENCE), back.stderr.read()) == (0, "")
        assert on_node(ganeti, "n1") == ["mail", "web"]
        assert not any(row.tags for row in text.parse(ganeti.cluster(), "").nodes)
