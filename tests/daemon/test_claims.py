"""Claims of decisions with real programs: no resource is promised twice."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from htoolsd.store.database import VERSION
from tests.support.clusters import Json, Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.postgresql import Server
from tests.support.programs import PROGRAMS, Daemon, executable, run, running, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator, simulator
from tests.support.worlds import opcode

EACH, NODES, MEMORY = 5, 6, 1024  # instances for which there is room on each node


def full_after(instances: int, nodes: int = NODES) -> Json:
    """Return a cluster whose nodes are full after so many instances each."""
    data = cluster(1, Shape(nodes=nodes, instances=0))
    free = instances * MEMORY + 512
    figures = {"total_memory": free + 1024, "reserved_memory": 1024, "free_memory": free}
    figures |= dict.fromkeys(("total_disk", "free_disk"), 1 << 20)
    return data | {"nodes": {name: node | figures for name, node in data["nodes"].items()}}


def request(directory: Path, name: str, data: Json) -> Path:
    path = directory / name
    path.write_text(encode(message(data, allocate(name, "plain", memory=MEMORY))))
    return path


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "daemon", config='claims = "always"') as daemon:
        yield daemon


def decide(daemon: Daemon, path: Path) -> Json:
    finished = executable(daemon.socket, path, "--no-capacity-checks=")
    assert (finished.returncode, finished.stderr) == (0, "")
    answer: Json = json.loads(finished.stdout)
    return answer


def test_thirty_of_forty_concurrent_requests_find_room(daemon: Daemon, tmp_path: Path) -> None:
    data = full_after(EACH)
    files = [request(tmp_path, f"new{number}.example.org", data) for number in range(40)]
    with ThreadPoolExecutor(len(files)) as pool:
        answers = list(pool.map(lambda path: decide(daemon, path), files))
    promised = [answer["result"] for answer in answers if answer["success"]]
    assert Counter(node for nodes in promised for node in nodes) == dict.fromkeys(data["nodes"], EACH)
    for answer in answers:
        if not answer["success"]:
            assert "; resources are claimed for new" in answer["info"]
            assert answer["info"].endswith(" and 27 more, without these claims more would find a place")
    assert daemon.status()["claims"] == {"active": True, "living": EACH * NODES}


def by_hand(daemon: Daemon, path: Path, *options: str) -> Json:
    finished = run(PROGRAMS / "htoolsctl", "--socket", daemon.socket, "decide", path, "--json", *options)
    assert (finished.returncode, finished.stderr) == (0, "")
    answer: Json = json.loads(finished.stdout)
    return answer


def test_decision_by_hand_counts_only_with_claim(daemon: Daemon, tmp_path: Path) -> None:
    data = full_after(1, nodes=2)
    files = [request(tmp_path, f"new{number}.example.org", data) for number in range(3)]
    assert all("promised" not in by_hand(daemon, path)["info"] for path in files)
    assert by_hand(daemon, files[0], "--claim")["success"]
    assert "; resources are claimed for new0.example.org" in by_hand(daemon, files[1])["info"]
    assert "; resources are claimed for new0.example.org" in decide(daemon, files[2])["info"]
    assert daemon.status()["claims"]["living"] == 2


@pytest.fixture
def ganeti(tmp_path: Path) -> Iterator[Simulator]:
    (tmp_path / "daemon").mkdir()
    with simulator(tmp_path / "daemon", generated(1, Shape()), "--job-seconds=3600") as ganeti:
        yield ganeti


@pytest.fixture
def new(ganeti: Simulator) -> str:
    """An instance that a job is creating."""
    name, disks = "new.example.org", [{"size": 1024}]
    create = opcode("INSTANCE_CREATE", instance_name=name, disk_template="plain", disks=disks)
    ganeti.ask("SubmitJob", [create | {"pnode": "node1.example.org"}])
    return name


@contextmanager
def following(directory: Path, config: str = "") -> Iterator[Daemon]:
    """Run a daemon whose ledger is in step with Ganeti."""
    with running(directory / "daemon", config=f"config_seconds = 0.05\n{config}") as daemon:
        wait_until(lambda: daemon.status()["ledger"]["lag_s"] is not None)
        yield daemon


def decide_without_ledger(daemon: Daemon, path: Path, error: str) -> None:
    """Decide without the ledger; check the note in the answer and the one line in the log."""
    answer = decide(daemon, path)
    assert answer["success"]
    assert f"; decided without the ledger: {error}" in answer["info"]
    assert daemon.status()["claims"]["living"] == 1
    assert daemon.status()["ledger"]["error"].startswith(error)
    assert [each["event"] for each in daemon.events() if each["level"] in ("warning", "error")] == [
        "ledger unavailable"
    ]


def newer_version() -> str:
    return f"ledger: schema version 9999 is newer than this htoolsd ({VERSION}); install a newer htoolsd"


def test_ledger_that_a_newer_daemon_upgrades_needs_attention(daemon: Daemon) -> None:
    path = daemon.state / "ledger.sqlite"
    wait_until(lambda: daemon.status()["ledger"]["providers"] is not None)
    set_version(path, "9999")
    wait_until(lambda: daemon.status()["ledger"]["error"])
    (line,) = [each for each in daemon.status()["attention"] if each["kind"] == "ledger"]
    assert line["text"] == f"the ledger cannot be used: {newer_version()}"
    set_version(path, VERSION)
    wait_until(lambda: daemon.told("ledger available again"))
    assert len(daemon.told("ledger unavailable")) == 1


def set_version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as ledger:
        ledger.execute("UPDATE ledger_version SET version_num = ?", [version])
        ledger.commit()


def test_claim_is_written_later_when_postgresql_was_down(
    tmp_path: Path, ganeti: Simulator, new: str, postgresql: Server
) -> None:
    with following(tmp_path, f'ledger = "{postgresql.database()}"\n') as daemon:
        postgresql.stop()
        try:
            path = request(tmp_path, new, full_after(EACH))
            wait_until(lambda: daemon.status()["ledger"]["error"])
            decide_without_ledger(daemon, path, "postgresql://tester@/postgres?")
        finally:
            postgresql.start()
        wait_until(lambda: daemon.status()["ledger"]["claims"] == 1)
        assert len(daemon.told("ledger available again")) == 1
        ganeti.finish()
