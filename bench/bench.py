"""Decisions per second, ours and Debian's hail side by side on the same requests.

Each row measures a stream of requests as Ganeti sends them: every request asks for another new instance,
contains the instances placed before, and some nodes' free memory and disk have changed. A figure is the
wall-clock time of a whole process, from its start to its exit. Debian's hail answers fewer of the same
requests where it is slow; medians are compared. The first request that a fresh daemon gets is not part of
the median and shown separately.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))  # for tests.*

from tests.clusters import Shape  # noqa: E402
from tests.messages import encode, stream  # noqa: E402

BIN = TOP / ".venv/bin"
EXECUTABLE = TOP / "iallocator/htoolsd"
DEBIAN = Path("/usr/lib/ganeti/iallocators/hail")
SEED = 2025


@dataclass(frozen=True)
class Row:
    """One line of the table; ``target`` is how many times faster we have to be."""

    work: str
    nodes: int
    requests: int  # that we answer, after the first
    debian_requests: int  # how many of them Debian's hail answers too
    target: float
    debian_options: Sequence[str] = ()
    daemon: bool = True  # otherwise the one-shot hail
    memory_target: int | None = None  # MiB, of the daemon


ROWS = [
    Row("5 / 50", 5, 40, 40, 1 / 1.5),
    Row("40 / 400", 40, 20, 3, 150),
    Row(
        "1,000 / 10,000 [1]",
        1000,
        12,
        2,
        100,
        ["--no-capacity-checks"],
        memory_target=400,
    ),
]
FULL_ROWS = [
    Row("80 / 800", 80, 20, 1, 2000),
    Row("80 / 800, one-shot hail", 80, 10, 1, 250, daemon=False),
]


class Answer(NamedTuple):
    """What a process took, and what it said."""

    seconds: float
    success: bool
    score: str
    nodes: list[str]


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Answer:
    """Run an iallocator to its end."""
    start = time.perf_counter()
    process = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"bench: {command[0]} failed: {process.stderr.strip()}")
    if process.stderr:
        print(f"bench: {command[0]}: {process.stderr.strip()}", file=sys.stderr)
    answer = json.loads(process.stdout)
    scores = re.findall(r"score: ([0-9.]+)", answer["info"])
    return Answer(seconds, answer["success"], min(scores, key=float, default=""), answer["result"])


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
    debian: list[Answer]  # of the same requests, without the first
    memory: int | None


def measure(row: Row, directory: Path, known: dict[tuple[object, ...], Answer]) -> Result:
    """Run a row. Debian's answers are kept in ``known`` so that rows can share them."""
    requests = stream(SEED, Shape(nodes=row.nodes, instances=10 * row.nodes))
    message = next(requests)
    files, ours = [], []

    def ask(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        nonlocal message
        for i in range(1 + row.requests):
            progress(f"{row.work}: ours {i + 1} of {1 + row.requests}")
            files.append(directory / f"request{i}.json")
            files[i].write_text(encode(message))
            ours.append(run([*command, files[i]], environment))
            message = requests.send(ours[i].nodes)

    memory = None
    if row.daemon:
        with daemon(directory) as (socket, pid):
            ask([EXECUTABLE], os.environ | {"HTOOLSD_SOCKET": str(socket)})
            memory = peak_memory(pid)
    else:
        ask([BIN / "hail"])
    debian = []
    for i in range(1, 1 + row.debian_requests):
        progress(f"{row.work}: Debian's {i} of {row.debian_requests}")
        key = (row.nodes, i, *row.debian_options)
        if key not in known:
            known[key] = run([DEBIAN, files[i], *row.debian_options])
        debian.append(known[key])
    progress("")
    return Result(ours, debian, memory)


def progress(text: str) -> None:
    """Say what is going on, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds for people."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def verdict(reached: bool) -> str:
    """Whether a target was."""
    return "yes" if reached else "NO"


def cells(row: Row, result: Result) -> list[str]:
    """A row as printed."""
    theirs = statistics.median(answer.seconds for answer in result.debian)
    ours = statistics.median(answer.seconds for answer in result.ours[1:])
    ratio = theirs / ours
    pairs = zip(result.debian, result.ours[1:], strict=False)
    same = sum((a.success, a.score) == (b.success, b.score) for a, b in pairs)
    target = f"{row.target:,.0f}x" if row.target >= 1 else f"{row.target:.2f}x"
    memory = "-" if result.memory is None else f"{result.memory} MiB"
    if row.memory_target is not None and result.memory is not None:
        memory += f" (at most {row.memory_target}: {verdict(result.memory <= row.memory_target)})"
    return [
        row.work,
        f"{duration(theirs)} ({len(result.debian)})",
        duration(result.ours[0].seconds),
        f"{duration(ours)} ({len(result.ours) - 1})",
        f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2f}x",
        target,
        verdict(ratio >= row.target),
        f"{same} of {len(result.debian)}",
        memory,
    ]


HEADER = [
    "nodes / instances",
    "Debian's hail (runs)",
    "ours, first",
    "ours (runs)",
    "faster",
    "at least",
    "reached",
    "agree",
    "peak memory",
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure decisions, side by side with Debian's hail.")
    parser.add_argument("--full", action="store_true", help="also the rows where Debian's takes minutes")
    options = parser.parse_args()
    if not DEBIAN.exists():
        raise SystemExit("bench: nothing to compare with: install Debian's package ganeti-htools")

    lines = [HEADER]
    known: dict[tuple[object, ...], Answer] = {}
    for row in ROWS + (FULL_ROWS if options.full else []):
        directory = Path(tempfile.mkdtemp(prefix="htoolsd-bench-"))
        try:
            lines.append(cells(row, measure(row, directory, known)))
        finally:
            shutil.rmtree(directory)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print("Whole process for one DRBD allocate in a cluster of mixed instances: Debian's hail against")
    print("iallocator/htoolsd with a warm daemon. Medians; agree: same success and score.\n")
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print("\n[1] Debian's with --no-capacity-checks, ours with the checks")


if __name__ == "__main__":
    main()
