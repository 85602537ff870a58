"""The program, on real sockets."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.luxi.framing import encode
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.program import main
from tests.support.programs import wait_until
from tests.support.simulators import PATIENCE, ask, raw, simulator
from tests.support.worlds import delay, instance, migrate, world

CLUSTER = world().file_cluster()


def test_program_serves_loses_and_regains_the_role(tmp_path: Path) -> None:
    with simulator(tmp_path, CLUSTER, "--job-seconds=0", "--lose=three") as ganeti:
        assert ganeti.ask("Query", "node", ["mfree"], ["=", "name", "three"])["data"] == [[[2, None]]]
        ganeti.tell("find", "three")
        assert ganeti.cluster() == ganeti.file.read_text()
        # A connection lost in the middle of the answer: what was asked for happens all the same.
        ganeti.tell("cut", 1)
        cut = raw(ganeti.socket, encode({"method": "SubmitJob", "args": [[migrate("mirrored")]]}))
        assert cut
        assert b"\x03" not in cut
        assert ganeti.ask("QueryJobs", [], ["id"]) == [[1]]
        # The role handed over and back: jobs are still known.
        ganeti.tell("master", False)
        wait_until(lambda: not ganeti.socket.exists())
        ganeti.tell("master", True)
        assert ganeti.process.stdout is not None
        assert ganeti.process.stdout.readline() == f"htools-simulator: serving on {ganeti.socket}\n"
        assert ganeti.ask("QueryJobs", [1], ["id"]) == [[1]]
        # The end comes at once, whatever is under way.
        ganeti.ask("SubmitJob", [delay(1e5)])
        ganeti.process.send_signal(signal.SIGTERM)
        assert ganeti.process.wait(PATIENCE) == 0
        assert not ganeti.socket.exists()
        assert not ganeti.control.exists()


def test_warns_of_a_second_rbd_pool_in_a_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    units = (DesiredUnit(StorageType.RADOS, key) for key in ("fast", "fast", "slow"))
    row = replace(instance("web", DiskTemplate.RBD, "one"), disks=tuple(Disk(1, unit=unit) for unit in units))
    file = tmp_path / "pools.data"
    file.write_text(text.dump(replace(CLUSTER, instances=(row,))))
    assert main([str(file), "--socket=luxi", "--lose=nobody"]) == 1
    assert "group default has RBD disks on slow; as in Ganeti" in capsys.readouterr().err


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*options: str) -> str:
        assert main([str(tmp_path / "served.data"), *options]) == 1
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        return said.err

    luxi = f"--socket={tmp_path / 'luxi'}"
    assert "served.data: cannot be read" in error(luxi)
    with simulator(tmp_path, CLUSTER) as ganeti:
        assert "luxi: somebody listens there" in error(luxi)
        assert ask(ganeti.socket, "QueryTags", "cluster", "") == []
        assert "--lose=nobody: unknown node" in error("--lose=nobody", luxi)
        assert "expected a regular expression" in error("--fail=(", luxi)
        assert "served.data: exists and is no socket" in error(f"--socket={ganeti.file}")
        assert "none/luxi: No such file" in error(f"--socket={tmp_path}/none/luxi")


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        with simulator(tmp_path, CLUSTER) as ganeti:
            assert ganeti.ask("QueryTags", "cluster", "") == []
        assert ganeti.socket.exists()  # it was killed
