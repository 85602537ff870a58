"""Everything at once for a while: decisions, claims, policies, and one disturbance after the other.

``make soak HOURS=1`` does this with 200 nodes for an hour. Each answer is compared with that of the one-shot
program. So decisions claim nothing, and claims by hand are of a class that no request demands.
"""

import json
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError, NoReplyError, ask
from ganeti_htools.model.cluster import Cluster
from tests.support.clusters import Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.postgresql import Server
from tests.support.programs import PROGRAMS, Daemon, executable, run, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator, simulator

SECONDS = float(os.environ.get("HTOOLSD_SOAK_SECONDS", "20"))
NODES = 200 if SECONDS > 60 else 20
RATE = 20  # decisions in a second
CLIENTS = 4
GPU, TOTAL = "CUSTOM_GPU", 4
CONFIG = """\
config_seconds = 0.5
live_seconds = 2
claims = "never"
ledger = "{ledger}"
[rebalance]
mode = "act"
hold = 1
every_seconds = 5
start = 0.01
stop = 0.001
min_gain = 0.0001
cool_down_seconds = 60
"""


@dataclass
class Soak:
    """The parts at work, and what went wrong."""

    directory: Path
    ganeti: Simulator
    postgresql: Server
    config: str
    nodes: tuple[str, ...]
    known: list[tuple[Path, Any]]
    daemon: Daemon = field(init=False)
    over: threading.Event = field(default_factory=threading.Event)
    answers: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.daemon = Daemon(self.directory, config=self.config)

    def ask(self, method: str, **arguments: Any) -> Any:
        return ask(str(self.daemon.socket), method, arguments, patience=10)


def decide(soak: Soak, client: int) -> None:
    """Run the executable at an even pace."""
    for turn in range(10**9):
        path, expected = soak.known[(client + turn) % len(soak.known)]
        began = time.monotonic()
        done = executable(soak.daemon.socket, path)
        if done.returncode or decision(done.stdout) != expected:
            soak.wrong.append(f"{path.name}: {done.returncode} {done.stdout} {done.stderr}")
        soak.answers += 1
        if soak.over.wait(max(0.0, CLIENTS / RATE - (time.monotonic() - began))):
            return


def claim(soak: Soak) -> None:
    """Claim and release, and never more than there is; refusals and absences are no faults."""
    rng = random.Random(1)
    for turn in range(10**9):
        node, consumer = rng.choice(soak.nodes[:3]), f"soak{turn % 7}"
        with suppress(CallRefusedError, NoReplyError):
            soak.ask("claim", consumer=consumer, allocations={node: {GPU: rng.randint(1, 2)}}, seconds=5)
        with suppress(CallRefusedError, NoReplyError):
            for provider in soak.ask("usage"):
                used = provider["usages"].get(GPU)
                if used is not None and used["used"] > TOTAL:
                    soak.wrong.append(f"{provider['name']}: {used}")
        if soak.over.wait(0.3):
            return


# Disturbances: each ends before the next one begins.


def kill_daemon(soak: Soak) -> None:
    soak.daemon.process.kill()
    soak.daemon.wait()
    soak.start()


def restart_daemon(soak: Soak) -> None:
    soak.daemon.signal(signal.SIGTERM)
    soak.daemon.wait()
    soak.start()


def reload_daemon(soak: Soak) -> None:
    soak.daemon.signal(signal.SIGHUP)


def stop_luxid(soak: Soak) -> None:
    soak.ganeti.tell("master", False)
    soak.over.wait(1)
    soak.ganeti.tell("master", True)


def cut_answers(soak: Soak) -> None:
    soak.ganeti.tell("cut", 3)
    soak.ganeti.tell("drop", 3)


def silence_nodes(soak: Soak) -> None:
    for node in soak.nodes[3:5]:
        soak.ganeti.tell("lose", node)
    soak.over.wait(1)
    for node in soak.nodes[3:5]:
        soak.ganeti.tell("find", node)


def freeze_postgresql(soak: Soak) -> None:
    with soak.postgresql.frozen():
        soak.over.wait(1)


def restart_postgresql(soak: Soak) -> None:
    soak.postgresql.stop()
    soak.over.wait(0.5)
    soak.postgresql.start()


def fill_disk(soak: Soak) -> None:
    """No file of the daemon can grow."""
    pid, unlimited = soak.daemon.process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, unlimited))
    soak.over.wait(1)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))


DISTURBANCES: tuple[Callable[[Soak], None], ...] = (
    kill_daemon,
    stop_luxid,
    freeze_postgresql,
    silence_nodes,
    reload_daemon,
    fill_disk,
    restart_postgresql,
    cut_answers,
    restart_daemon,
)


def requests(directory: Path) -> list[tuple[Path, Any]]:
    """Return files with requests, and the decisions about them."""
    data, found = cluster(5, Shape(nodes=20, instances=100)), []
    for number in range(8):
        path = directory / f"request{number}"
        path.write_text(
            encode(message(data, allocate(f"new{number}.example.org", memory=1024 << number % 4)))
        )
        found.append((path, decision(run(PROGRAMS / "hail", path).stdout)))
    return found


def decision(answer: str) -> Any:
    """Return what Ganeti does with an answer; its text also tells whether the ledger was missing."""
    document = json.loads(answer)
    return document["success"], document["result"]


@contextmanager
def at_work(directory: Path, data: Cluster, postgresql: Server) -> Iterator[Soak]:
    """Run everything within the block."""
    config = CONFIG.format(ledger=postgresql.database())
    nodes = tuple(node.name for node in data.nodes if not node.offline)
    (directory / "daemon").mkdir()
    with simulator(directory / "daemon", data, "--job-seconds=0.05") as ganeti:
        soak = Soak(directory / "daemon", ganeti, postgresql, config, nodes, requests(directory))
        try:
            wait_until(lambda: soak.daemon.status()["ledger"]["behind_s"] is not None)
            for node in nodes[:3]:
                run(
                    PROGRAMS / "htoolsctl",
                    "--socket",
                    soak.daemon.socket,
                    "inventory",
                    "set",
                    node,
                    GPU,
                    "--total=4",
                )
            yield soak
        finally:
            soak.daemon.process.kill()
            soak.daemon.wait()


def memory(soak: Soak) -> float:
    status: Mapping[str, Any] = soak.daemon.status()
    return float(status["memory_mib"])


@pytest.mark.slow
@pytest.mark.usefixtures("heeding")
def test_nothing_is_wrong_whatever_is_disturbed(tmp_path: Path, postgresql: Server) -> None:
    data = generated(1, Shape(nodes=NODES, instances=NODES * 5))
    with at_work(tmp_path, data, postgresql) as soak, ThreadPoolExecutor(CLIENTS + 1) as pool:
        working = [pool.submit(decide, soak, client) for client in range(CLIENTS)]
        working.append(pool.submit(claim, soak))
        began, warm = time.monotonic(), 0.0
        try:
            for turn in range(10**9):
                DISTURBANCES[turn % len(DISTURBANCES)](soak)
                if (passed := time.monotonic() - began) > SECONDS and turn >= len(DISTURBANCES):
                    break
                if passed < min(600, SECONDS / 2):
                    warm = max(warm, memory(soak))
                time.sleep(SECONDS / 100)
        finally:
            soak.over.set()
        for each in working:
            each.result()
        assert not soak.wrong, soak.wrong[:3]
        assert soak.answers > SECONDS
        wait_until(lambda: not soak.daemon.status()["ledger"]["error"])
        wait_until(lambda: soak.daemon.status()["ledger"]["claims"] == 0)
        assert memory(soak) < 1.2 * warm + 16
        assert not soak.daemon.status()["decisions"]["broken"]
        assert "Traceback" not in soak.daemon.log.read_text()
