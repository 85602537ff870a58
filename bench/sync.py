"""What it takes to follow a cluster: a real htoolsd and a real htools-simulator in Ganeti's place.

A figure is what the daemon tells of a poll, from its first request to the model that comes of it, so the
simulator's part is in it.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.timing import BIN, SEED, Limit, duration, pace, progress
from ganeti_htools.client.calls import CallRefusedError, NoReplyError, ask
from tests.support.clusters import Shape, cluster
from tests.support.simulators import ask as ask_simulator
from tests.support.text_format import text

TICKS = os.sysconf("SC_CLK_TCK")
CONFIGURATION, LIVE = "configuration", "live"


@dataclass(frozen=True)
class Row:
    """One line of the table: the kinds of data that are read, ``target`` seconds at most."""

    work: str
    nodes: int
    kinds: tuple[str, ...]
    target: float
    changed: int = 0  # instances, before each poll
    runs: int = 10


def _rows(nodes: int) -> list[Row]:
    size = f"sync {nodes:,} / {10 * nodes:,}"
    return [
        Row(f"{size}, all", nodes, (CONFIGURATION, LIVE), 1.5, runs=1),
        Row(f"{size}, configuration unchanged", nodes, (CONFIGURATION,), 0.3),
        Row(f"{size}, an instance changed", nodes, (CONFIGURATION,), 0.3, changed=1),
        Row(f"{size}, live data unchanged", nodes, (LIVE,), 0.3),
    ]


ROWS = _rows(1000)
FULL_ROWS: list[Row] = []


class Pair(NamedTuple):
    """The daemon and the simulator: their process ids and sockets."""

    daemon: int
    simulator: int
    socket: Path
    luxi: Path

    def status(self) -> Any:
        """What the daemon knows of the cluster; none before it can be asked."""
        try:
            return ask(str(self.socket), "status", {})["cluster"]
        except (NoReplyError, CallRefusedError):
            return {"nodes": None}


@contextmanager
def running(nodes: int, directory: Path, config: str = "") -> Generator[Pair, None, None]:
    """Both, at work; the daemon polls only when it is told. ``config`` is more of its configuration."""
    shape = Shape(nodes=nodes, instances=10 * nodes)
    (directory / "cluster").write_text(text(cluster(SEED, shape)))
    (directory / "config").write_text(f"config_seconds = 1e6\nlive_seconds = 1e6\n{config}\n")
    luxi, socket = directory / "luxi", directory / "socket"
    simulator: list[str | Path] = [BIN / "htools-simulator", directory / "cluster", "--socket", luxi]
    daemon: list[str | Path] = [BIN / "htoolsd", "--config", directory / "config", "--luxi", luxi]
    daemon += ["--socket", socket, "--state-dir", directory]
    with (directory / "log").open("w") as log:
        processes = [_start([*simulator, "--job-seconds", "0"], log)]
        try:
            _wait_until(luxi.exists)
            processes.append(_start(daemon, log))
            pair = Pair(processes[1].pid, processes[0].pid, socket, luxi)
            _wait_until(lambda: pair.status()["nodes"] == nodes)
            yield pair
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(20)


def _start(command: Sequence[str | Path], log: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        if time.monotonic() > give_up:
            raise SystemExit("bench: the daemon and the simulator do not come together")
        time.sleep(0.02)


def cpu(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Measured(NamedTuple):
    """Seconds of each poll, and seconds of CPU for one of them."""

    seconds: list[float]
    daemon: float
    simulator: float


def measure(row: Row, pair: Pair, names: list[str]) -> Measured:
    """Poll, and read what the daemon says of it."""
    if row.runs == 1:  # what it did first of all
        return Measured([_last(pair, row.kinds)], cpu(pair.daemon), cpu(pair.simulator))
    seconds, before = [], (cpu(pair.daemon), cpu(pair.simulator))
    for run in range(row.runs):
        progress(f"{row.work}: {run + 1} of {row.runs}")
        for _ in range(row.changed):
            _change(pair, names.pop())
        ask(str(pair.socket), "refresh", {})
        seconds.append(_last(pair, row.kinds))
    progress("")
    return Measured(
        seconds, (cpu(pair.daemon) - before[0]) / row.runs, (cpu(pair.simulator) - before[1]) / row.runs
    )


def _last(pair: Pair, kinds: Sequence[str]) -> float:
    polls = pair.status()["polls"]
    return max(float(polls[kind]["last_ms"]) for kind in kinds) / 1000


def _change(pair: Pair, name: str) -> None:
    opcode = {
        "OP_ID": "OP_TAGS_SET",
        "kind": "instance",
        "name": name,
        "tags": ["changed"],
        "reason": [["bench", "", 1]],
    }
    (job,) = (number for _, number in ask_simulator(pair.luxi, "SubmitManyJobs", [[opcode]]))
    while ask_simulator(pair.luxi, "QueryJobs", [job], ["status"]) != [["success"]]:
        time.sleep(0.01)


def cells(row: Row, pair: Pair, names: list[str]) -> list[str]:
    """Measure a row; return its cells."""
    limit, measured = Limit(row.target, pace()), measure(row, pair, names)
    median = statistics.median(measured.seconds)
    return [
        row.work,
        f"{duration(median)} ({len(measured.seconds)})",
        *limit.cells(median),
        duration(measured.daemon),
        duration(measured.simulator),
    ]


TITLE = """A poll of Ganeti by htoolsd, with htools-simulator for Ganeti; medians. CPU times are those of a
refresh, which polls both kinds of data, and in the row of all of them from the start of the processes."""
HEADER = ["work, nodes / instances", "time (runs)", "at most", "reached", "CPU of ours", "CPU of Ganeti's"]
NOTES: dict[str, str] = {}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    measured = []
    for nodes in dict.fromkeys(row.nodes for row in rows):
        with (
            tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory,
            running(nodes, Path(directory)) as pair,
        ):
            table = ask_simulator(pair.luxi, "Query", "instance", ["name"], None)
            names = [row[0][1] for row in table["data"]]
            measured += [cells(row, pair, names) for row in rows if row.nodes == nodes]
    return [HEADER, *measured]
