"""Damaged files of the state directory end no daemon, and are named."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ganeti_htools.recording.files import SUFFIX
from ganeti_htools.version import VERSION
from tests.daemon.planning import call, ctl, known
from tests.support.programs import Daemon, hail, request_file, running, small_cluster, wait_until
from tests.support.seeds import few
from tests.support.simulators import simulator
from tests.support.states import CONFIG, STATES


def restore(state: Path) -> list[Path]:
    """Make a state directory as a daemon has left it, and return the files that a daemon reads."""
    shutil.copytree(STATES / VERSION, state)
    for dump in state.glob("*.sql"):
        with closing(sqlite3.connect(dump.with_suffix(".sqlite"))) as database:
            database.executescript(dump.read_text())
        dump.unlink()
    (state / "cluster.data").unlink()
    (state / "notified.json").write_text('{"version": 1, "announced": [], "waiting": []}')
    (state / "standby.data").write_text(
        "group1|uuid-1|preferred||\n\nn0|1|0|1|9|9|6|N|uuid-1|64||N|0|1|1.0\n\n\n\n"
    )
    return [path for path in state.rglob("*") if path.is_file() and path.suffix != SUFFIX]


def works(daemon: Daemon, directory: Path) -> None:
    """Ask the daemon for what rests on its files."""
    known(daemon)
    request = request_file(directory)
    assert call(daemon, "decide", request=request.read_text())["stdout"] == hail(request).stdout
    wait_until(lambda: daemon.status()["history"]["waiting"] == 0)
    assert call(daemon, "history")[-1]["kind"] == "decision"
    for command in ("plans", "policies", "status", "history"):
        done = ctl(daemon, command)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("content", [b"", b"\xff\xd7" * 5000, b"{}", b"[7]"])
def test_files_full_of_damage_are_set_aside_and_named(tmp_path: Path, content: bytes) -> None:
    files = restore(tmp_path / "daemon" / "state")
    for path in files:
        path.write_bytes(content)
    with (
        simulator(tmp_path / "daemon", small_cluster()),
        running(tmp_path / "daemon", config=CONFIG) as daemon,
    ):
        works(daemon, tmp_path)
        # SQLite takes an empty file for a new database.
        spoilt = [path for path in files if content or path.suffix != ".sqlite"]
        wait_until(lambda: len(daemon.status()["set_aside"]) == len(spoilt))
        status = daemon.status()
        assert {path.rpartition(".damaged-")[0] for path in status["set_aside"]} == set(map(str, spoilt))
        (line,) = (each for each in status["attention"] if each["kind"] == "damaged")
        assert line["names"] == status["set_aside"]
        wait_until(lambda: [daemon.status()[part]["error"] for part in ("ledger", "history")] == [None, None])


@pytest.mark.parametrize("seeds", few(range(3), 100))
def test_damaged_bytes_end_no_daemon(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        directory, chance = tmp_path / str(seed), random.Random(seed)
        for path in restore(directory / "state"):
            spoilt = bytearray(path.read_bytes())
            for _ in range(chance.choice((1, 3, 50))):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            path.write_bytes(spoilt)
        with simulator(directory, small_cluster()), running(directory, config=CONFIG) as daemon:
            works(daemon, directory)
