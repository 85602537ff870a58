"""Decisions per second, ours and Debian's hail side by side on the same requests.

Each row measures a stream of requests as Ganeti sends them: every request asks for another new instance,
contains the instances placed before, and some nodes' free memory and disk have changed. A figure is the
wall-clock time of a whole process, from its start to its exit. Debian's hail answers fewer of the same
requests where it is slow; medians are compared. The first request that a fresh daemon gets is not part of
the median and shown separately.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bench import timing
from bench.timing import BIN, SEED, TOP, at_most, compared, duration, progress
from tests.support.clusters import Json, Shape
from tests.support.messages import encode, stream
from tests.support.storage_units import with_four_units

EXECUTABLE = TOP / "iallocator/htoolsd"
DEBIAN = Path("/usr/lib/ganeti/iallocators/hail")


@dataclass(frozen=True)
class Row:
    """One line of the table; ``target`` is how many times faster we have to be."""

    work: str
    nodes: int
    requests: int  # that we answer, after the first
    debian_requests: int  # how many of them Debian's hail, or what else we are compared with, answers too
    target: float
    debian_options: Sequence[str] = ()
    daemon: bool = True  # otherwise the one-shot hail
    memory_target: int | None = None  # MiB, of the daemon
    four_units: bool = False  # against our own time for one
    nearly_full: bool = False  # plain and DRBD instances, and no room for the loss of a node


ROWS = [
    Row("hail 5 / 50", 5, 40, 40, 1 / 1.5),
    Row("hail 40 / 400", 40, 20, 3, 150),
    Row("hail 20 / 200, refused by N+1, one-shot [3]", 20, 5, 1, 10, daemon=False, nearly_full=True),
    Row(
        "hail 1,000 / 10,000 [1]",
        1000,
        12,
        2,
        100,
        ["--no-capacity-checks"],
        memory_target=400,
    ),
    Row("hail 1,000 / 10,000, four units [2]", 1000, 12, 12, 1 / 1.6, four_units=True),
]
FULL_ROWS = [
    Row("hail 80 / 800", 80, 20, 1, 2000),
    Row("hail 80 / 800, four units [2]", 80, 20, 20, 1 / 1.6, four_units=True),
    Row("hail 80 / 800, one-shot", 80, 10, 1, 250, daemon=False),
]


class Answer(NamedTuple):
    """Wall-clock and CPU time (seconds) of a process, and its answer."""

    seconds: float
    cpu: float
    success: bool
    score: str
    nodes: list[str]


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Answer:
    """Run an iallocator to its end."""
    ended = timing.run(command, environment)
    if ended.messages:
        print(f"bench: {command[0]}: {ended.messages}", file=sys.stderr)
    answer = json.loads(ended.output)
    scores = re.findall(r"score: ([0-9.]+)", answer["info"])
    return Answer(
        ended.seconds, ended.cpu, answer["success"], min(scores, key=float, default=""), answer["result"]
    )


@contextmanager
def daemon(directory: Path) -> Generator[tuple[Path, int], None, None]:
    """A fresh daemon: its socket and process id."""
    socket = directory / "socket"
    command: list[str | Path] = [
        BIN / "htoolsd",
        "--socket",
        socket,
        "--state-dir",
        directory,
        "--luxi",
        "/nonexistent",
    ]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + 20
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit("bench: htoolsd does not start:\n" + (directory / "log").read_text())
            time.sleep(0.02)
        yield socket, process.pid
    finally:
        process.terminate()
        process.wait(20)


def peak_memory(pid: int) -> int:
    """The most memory a process had so far, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


class Result(NamedTuple):
    """What a row gave."""

    ours: list[Answer]
    debian: list[Answer]  # of the same requests, without the first; or our own with one unit
    memory: int | None


class Asking:
    """A stream of requests to one of our programs: a daemon of its own, or one-shot processes."""

    def __init__(self, row: Row, directory: Path, four_units: bool, stack: ExitStack) -> None:
        self.directory, self.four_units = directory, four_units
        shape = Shape(nodes=row.nodes, instances=10 * row.nodes)
        if row.nearly_full:
            shape = replace(shape, fill=0.93, templates={"plain": 1, "drbd": 1})
        self.requests = stream(SEED, shape)
        self.message = next(self.requests)
        self.files: list[Path] = []
        self.answers: list[Answer] = []
        self.command: list[str | Path] = [BIN / "hail"]
        self.environment: Mapping[str, str] | None = None
        self.pid: int | None = None
        directory.mkdir()
        if row.daemon:
            socket, self.pid = stack.enter_context(daemon(directory))
            self.command, self.environment = [EXECUTABLE], os.environ | {"HTOOLSD_SOCKET": str(socket)}

    def ask(self) -> None:
        """The next request."""
        file = self.directory / f"request{len(self.files)}.json"
        file.write_text(encode(on_four_units(self.message) if self.four_units else self.message))
        self.files.append(file)
        self.answers.append(run([*self.command, file], self.environment))
        self.message = self.requests.send(self.answers[-1].nodes)


def on_four_units(message: Json) -> Json:
    """The message with four storage units on each node, and two disks of each instance."""
    data, request = with_four_units(message, message["request"])
    return data | {"request": request}


def measure(row: Row, directory: Path, known: dict[tuple[object, ...], Answer]) -> Result:
    """Run a row. Debian's answers are kept in ``known`` so that rows can share them.

    Four units and one take turns, so that the machine's other load shows in both.
    """
    with ExitStack() as stack:
        variants = (True, False) if row.four_units else (False,)
        asking = [Asking(row, directory / f"four-{each}", each, stack) for each in variants]
        for i in range(1 + row.requests):
            progress(f"{row.work}: ours {i + 1} of {1 + row.requests}")
            for each in asking:
                each.ask()
        ours = asking[0]
        memory = peak_memory(ours.pid) if ours.pid else None
    if row.four_units:
        progress("")
        return Result(ours.answers, asking[1].answers[1:], memory)
    debian = []
    for i in range(1, 1 + row.debian_requests):
        progress(f"{row.work}: Debian's {i} of {row.debian_requests}")
        key = (row.nodes, i, *row.debian_options)
        if key not in known:
            known[key] = run([DEBIAN, ours.files[i], *row.debian_options])
        debian.append(known[key])
    progress("")
    return Result(ours.answers, debian, memory)


def cells(row: Row, result: Result) -> list[str]:
    """A row as printed."""
    theirs = statistics.median(answer.seconds for answer in result.debian)
    ours = statistics.median(answer.seconds for answer in result.ours[1:])
    pairs = zip(result.debian, result.ours[1:], strict=False)
    same = sum((a.success, a.score) == (b.success, b.score) for a, b in pairs)
    return [
        row.work,
        f"{duration(theirs)} ({len(result.debian)})",
        duration(max(answer.seconds for answer in result.debian)),
        duration(statistics.fmean(answer.cpu for answer in result.debian)),
        duration(result.ours[0].seconds),
        f"{duration(ours)} ({len(result.ours) - 1})",
        duration(max(answer.seconds for answer in result.ours[1:])),
        duration(statistics.fmean(answer.cpu for answer in result.ours[1:])),
        *compared(theirs / ours, row.target),
        "-" if row.four_units else f"{same} of {len(result.debian)}",
        "-" if result.memory is None else at_most(result.memory, row.memory_target),
    ]


TITLE = """Whole process for one DRBD allocate in a cluster of mixed instances: Debian's hail against
iallocator/htoolsd with a warm daemon. Median (runs), slowest, mean CPU time (without the daemon's); agree:
same success and score."""
HEADER = [
    "nodes / instances",
    "Debian's (runs)",
    "slowest",
    "CPU",
    "ours, first",
    "ours (runs)",
    "slowest",
    "CPU",
    "faster",
    "at least",
    "reached",
    "agree",
    "peak memory",
]
NOTES = {
    "[1]": "Debian's with --no-capacity-checks, ours with the checks",
    "[3]": "plain and DRBD instances; no room for the loss of a node",
    "[2]": "four storage units on each node, two disks of each instance: against our own time for one",
}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    known: dict[tuple[object, ...], Answer] = {}
    measured = []
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
            measured.append(cells(row, measure(row, Path(directory), known)))
    return [HEADER, *measured]
