"""Everything at once for a while: decisions, claims, policies, and one disturbance after the other.

``make soak HOURS=1`` does this with 200 nodes for an hour. Each answer is compared with that of the one-shot
program. So decisions claim nothing, and claims by hand are of a class that no request demands.

Memory is measured in one process. So the daemon is killed and restarted first of all, and killed at the end.
The daemon is a program of its own: a fork shares memory with its parent.
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
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError, NoReplyError, ask
from ganeti_htools.model.cluster import Cluster
from tests.support.clusters import Shape, cluster
from tests.support.machine import Clock, Disk, movable_clock, small_disk
from tests.support.messages import allocate, encode, message
from tests.support.postgresql import Server
from tests.support.programs import PROGRAMS, Daemon, executable, run, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator, simulator
from tests.support.worlds import migrate

SECONDS = float(os.environ.get("HTOOLSD_SOAK_SECONDS", "5"))
WARM = min(600, SECONDS / 2)  # seconds until memory must not grow
NODES = 200 if SECONDS > 60 else 20
LAST = 0.3 if SECONDS < 600 else 5  # seconds that most disturbances last, and that pass between them
RATE = 20 if SECONDS > 60 else 5  # decisions in a second
CLIENTS = 4
DISK = 64  # MiB, with a history of up to 16
GPU, TOTAL = "CUSTOM_GPU", 4
CONFIG = """\
config_seconds = 0.5
live_seconds = 2
history_mib = 16
claims = "never"
ledger = "{ledger}"
[rebalance]
mode = "act"
hold = 1
every_seconds = 5
start = 0.01
stop = 0.001
min_gain = 0.0001
max_moves = 3
moves_per_day = 1_000_000
mib_per_day = 999_999_999
cool_down_seconds = 5
back_off_seconds = 1
failures = 1_000_000
"""


@dataclass
class Soak:
    """The parts at work, and what went wrong."""

    directory: Path
    ganeti: Simulator
    postgresql: Server
    disk: Disk | None
    clock: Clock | None
    data: Cluster
    config: str
    known: list[tuple[Path, Any]]
    daemon: Daemon = field(init=False)
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    over: threading.Event = field(default_factory=threading.Event)
    answers: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = [node.name for node in self.data.nodes if not node.offline]
        self.start()

    def start(self) -> None:
        prefix = self.disk.prefix if self.disk else ("setpriv", "--pdeathsig=KILL")
        surroundings = self.clock.environment if self.clock else None
        # Meanwhile all decisions are made without the daemon, which keeps a machine busy.
        self.daemon = Daemon(
            self.directory, config=self.config, prefix=prefix, environment=surroundings, patience=300
        )

    def ask(self, method: str, **arguments: Any) -> Any:
        return ask(str(self.daemon.socket), method, arguments, patience=10)

    def pause(self) -> None:
        self.over.wait(LAST)


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
        node = rng.choice(soak.nodes[:3])
        with suppress(CallRefusedError, NoReplyError):
            soak.ask("claim", consumer=f"soak{turn}", allocations={node: {GPU: rng.randint(1, 2)}}, seconds=5)
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


def unbalance(soak: Soak) -> None:
    """Let some instances migrate, so that the policy has reasons to act."""
    movable = [row.name for row in soak.data.instances if row.snode is not None]
    soak.ganeti.ask("SubmitManyJobs", [[migrate(name)] for name in soak.rng.sample(movable, 10)])


def stop_luxid(soak: Soak) -> None:
    soak.ganeti.tell("master", False)
    soak.pause()
    soak.ganeti.tell("master", True)


def cut_answers(soak: Soak) -> None:
    for number in 3, 0:
        soak.ganeti.tell("cut", number)
        soak.ganeti.tell("drop", number)
        soak.pause()


def silence_nodes(soak: Soak) -> None:
    silent = soak.rng.sample(soak.nodes, 2)
    for node in silent:
        soak.ganeti.tell("lose", node)
    wait_until(lambda: set(silent) <= set(soak.daemon.status()["cluster"]["silent"]))
    soak.pause()
    for node in silent:
        soak.ganeti.tell("find", node)


def freeze_postgresql(soak: Soak) -> None:
    with soak.postgresql.frozen():
        soak.pause()


def restart_postgresql(soak: Soak) -> None:
    soak.postgresql.stop()
    soak.pause()
    soak.postgresql.start()


def fill_disk(soak: Soak) -> None:
    """Let no file of the daemon grow."""
    if soak.disk is not None:
        with soak.disk.full():
            soak.pause()
        return
    pid, unlimited = soak.daemon.process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, unlimited))
    soak.pause()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))


def move_clock(soak: Soak) -> None:
    """Set the daemon's clock forward, back, and right again."""
    if soak.clock is not None:
        for seconds in 3600, -3600, 0:
            soak.clock.move(seconds)
            soak.pause()


Disturbance = Callable[[Soak], None]
RESTARTS: tuple[Disturbance, ...] = (kill_daemon, restart_daemon)
DISTURBANCES: tuple[Disturbance, ...] = (
    unbalance,
    stop_luxid,
    freeze_postgresql,
    silence_nodes,
    move_clock,
    reload_daemon,
    fill_disk,
    restart_postgresql,
    cut_answers,
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
    parts = directory / "daemon"
    (parts / "state").mkdir(parents=True)
    with (
        small_disk(parts / "state", DISK) as disk,
        simulator(parts, data, "--job-seconds=0.05") as ganeti,
    ):
        clock = movable_clock(directory)
        if disk is None:
            print("no disk is filled, since no disk can be mounted; no file of the daemon grows instead")
        if clock is None:
            print("the clock is not moved: install libfaketime")
        soak = Soak(parts, ganeti, postgresql, disk, clock, data, config, requests(directory))
        try:
            wait_until(lambda: soak.daemon.status()["ledger"]["lag_s"] is not None)
            for node in soak.nodes[:3]:
                words = "inventory", "set", node, GPU, f"--total={TOTAL}"
                run(PROGRAMS / "htoolsctl", "--socket", soak.daemon.socket, *words)
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
        began = time.monotonic()
        grown: list[tuple[float, float]] = []  # seconds since the beginning, MiB
        try:
            for disturb in (*RESTARTS, *DISTURBANCES):
                disturb(soak)
                soak.pause()
            pid = soak.daemon.process.pid
            for disturb in cycle(DISTURBANCES):
                grown.append((time.monotonic() - began, memory(soak)))
                if grown[-1][0] > SECONDS:
                    break
                disturb(soak)
                soak.pause()
            assert soak.daemon.status()["pid"] == pid
            unbalance(soak)
            wait_until(lambda: soak.daemon.status()["plans"].get("done"))
        finally:
            soak.over.set()
        for each in working:
            each.result()
        rate = soak.answers / (time.monotonic() - began)
        warm = max(mib for passed, mib in grown if passed <= max(WARM, grown[0][0]))
        last = max(mib for _, mib in grown[-len(DISTURBANCES) :])
        print(f"{rate:.1f} decisions a second; {warm} MiB after {WARM:.0f} s, {last} MiB at the end")
        assert not soak.wrong, soak.wrong[:3]
        assert last < 1.1 * warm + 8
        # A claim that was made while the clock was wrong ends in time only by the daemon that made it.
        wait_until(lambda: at_rest(soak.daemon.status()))
        kill_daemon(soak)
        wait_until(lambda: at_rest(soak.daemon.status()))
        assert "Traceback" not in soak.daemon.log.read_text()


def at_rest(status: Any) -> bool:
    """Whether nothing is left of disturbances and claims."""
    errors = [status["luxi"]["error"], status["ledger"]["error"], status["history"]["error"]]
    leaked = status["ledger"]["claims"] or status["claims"]["living"]
    return errors == [None] * 3 and not leaked and not status["cluster"]["silent"]
