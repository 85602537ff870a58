"""Processes timed from start to exit, the pace of the machine, and tables of results."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

TOP = Path(__file__).resolve().parent.parent
BIN = TOP / ".venv/bin"
SEED = 2025


class Run(NamedTuple):
    """One process: wall-clock and CPU seconds, peak memory (MiB), standard output and standard error."""

    seconds: float
    cpu: float
    memory: int
    output: str
    messages: str


class TimeLimitError(Exception):
    """A process was stopped at its time limit."""


# Starts a program and writes its exit status, times and peak memory (KiB) to a file descriptor. The peak of a
# process includes that of its parent, so the parent must be small.
_LAUNCHER = """
import os, resource, sys, time
report, limit, *command = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
start = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
seconds = time.perf_counter() - start
cpu = usage.ru_utime + usage.ru_stime
os.write(int(report), f"{os.waitstatus_to_exitcode(status)} {seconds} {cpu} {usage.ru_maxrss}".encode())
"""


def _plain_environment() -> Mapping[str, str]:
    """The environment without what our library sets for itself, so that other programs run as usual."""
    return {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cpu_limit: int = 0
) -> Run:
    """Run a program to its end, or to a limit of CPU seconds if that is not 0.

    Raises TimeLimitError at the limit, SystemExit if the program fails.
    """
    file = partial(tempfile.TemporaryFile, "w+")
    with file() as output, file() as errors, file() as report:
        subprocess.run(
            [sys.executable, "-ISc", _LAUNCHER, str(report.fileno()), str(cpu_limit), *command],
            env=_plain_environment() if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=[report.fileno()],
            check=True,
        )
        for each in (output, errors, report):
            each.seek(0)
        status, seconds, cpu, memory = report.read().split()
        messages = errors.read().strip()
        if int(status) < 0 and cpu_limit:
            raise TimeLimitError
        if int(status):
            raise SystemExit(f"bench: {command[0]} failed: {messages}")
        return Run(float(seconds), float(cpu), int(memory) // 1024, output.read(), messages)


# Seconds that the reference computation takes on the machine for which targets in seconds are set.
_REFERENCE_SECONDS = 0.06


def pace(clock: Callable[[], float] = time.perf_counter) -> float:
    """Measure how many times slower this minute is than the machine for which targets are set.

    The reference computation is fixed: dictionaries and text, then arrays. The result is a median of three.
    """

    def compute() -> float:
        start, table = clock(), dict[int, int]()
        for number in range(300_000):
            key = number % 997
            table[key] = table.get(key, 0) + len(str(number))
        values = np.arange(100_000.0)
        for _ in range(300):
            values = np.sqrt(values * values + 1.0)
        return clock() - start

    return statistics.median(compute() for _ in range(3)) / _REFERENCE_SECONDS


class Limit(NamedTuple):
    """A target in seconds, at the pace of the minute in which it is checked."""

    seconds: float
    pace: float

    @property
    def allowed(self) -> float:
        """Seconds that the work may take in this minute."""
        return self.seconds * self.pace

    def cells(self, seconds: float) -> list[str]:
        """The limit of this minute, and whether the work kept to it."""
        return [duration(self.allowed), verdict(seconds <= self.allowed)]


def progress(text: str) -> None:
    """Show the current work, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Format seconds for people."""
    if seconds < 1e-4:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def verdict(reached: bool) -> str:
    """Whether a target is reached."""
    return "yes" if reached else "NO"


@dataclass(frozen=True)
class Part:
    """One row about a part of a program: the work, its measurement in a directory, the target (seconds)."""

    work: str
    measure: Callable[[Path], float]
    target: float


def measured(rows: Sequence[Part]) -> list[list[str]]:
    """Measure rows; return the table."""
    lines = [["work", "time", "at most", "reached"]]
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
            limit = Limit(row.target, pace())
            seconds = row.measure(Path(directory))
        lines.append([row.work, duration(seconds), *limit.cells(seconds)])
    return lines


def compared(ratio: float, target: float) -> list[str]:
    """Format how many times faster we are, the target, and whether it is reached."""
    return [_times(ratio), _times(target), verdict(ratio >= target)]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2f}x"


def at_most(memory: int, target: int | None) -> str:
    """Format memory (MiB) and, with a target, whether it is kept."""
    kept = "" if target is None else f" (at most {target}: {verdict(memory <= target)})"
    return f"{memory} MiB{kept}"


class Table(NamedTuple):
    """A table of results: lines of cells, the first one the header; notes by the marks in first cells."""

    title: str
    lines: Sequence[Sequence[str]]
    notes: Mapping[str, str]

    @property
    def used_notes(self) -> list[str]:
        """The notes that lines refer to."""
        first = [line[0] for line in self.lines]
        return [f"{mark} {note}" for mark, note in self.notes.items() if any(mark in cell for cell in first)]

    def text(self) -> str:
        """The table in aligned columns."""
        widths = [max(map(len, column)) for column in zip(*self.lines, strict=True)]
        rows = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in self.lines
        )
        return "\n".join([self.title, "", *rows, "", *self.used_notes, *([""] if self.used_notes else [])])

    def markdown(self) -> str:
        """The table in Markdown."""
        header, *rows = ["| " + " | ".join(line) + " |" for line in self.lines]
        rule = "|---" * len(self.lines[0]) + "|"
        notes = [f"* {note}" for note in self.used_notes]
        return "\n".join([self.title, "", header, rule, *rows, *(["", *notes] if notes else []), ""])
