"""Processes timed from start to exit, and tables of what was measured."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
BIN = TOP / ".venv/bin"
SEED = 2025


class Run(NamedTuple):
    """What a process took: seconds by the wall clock, and at most so many MiB; and what it printed."""

    seconds: float
    memory: int
    output: str


# Starts a program and writes its exit status, time and peak memory (KiB) to a file descriptor. The peak of a
# process counts that of the one that started it, so a small one has to.
_LAUNCHER = """
import os, sys, time
report, *command = sys.argv[1:]
start = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
seconds = time.perf_counter() - start
os.write(int(report), f"{os.waitstatus_to_exitcode(status)} {seconds} {usage.ru_maxrss}".encode())
"""


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Run:
    """Run a program to its end."""
    file = partial(tempfile.TemporaryFile, "w+")
    with file() as output, file() as errors, file() as report:
        subprocess.run(
            [sys.executable, "-ISc", _LAUNCHER, str(report.fileno()), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=[report.fileno()],
            check=True,
        )
        for each in (output, errors, report):
            each.seek(0)
        status, seconds, memory = report.read().split()
        told = errors.read().strip()
        if int(status):
            raise SystemExit(f"bench: {command[0]} failed: {told}")
        if told:
            print(f"bench: {command[0]}: {told}", file=sys.stderr)
        return Run(float(seconds), int(memory) // 1024, output.read())


def progress(text: str) -> None:
    """Say what is going on, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 1e-4:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def verdict(reached: bool) -> str:
    """Whether a target was."""
    return "yes" if reached else "NO"


@dataclass(frozen=True)
class Part:
    """One line of a table about parts of a program: what is measured, in a directory; seconds at most."""

    work: str
    measure: Callable[[Path], float]
    target: float


def measured(rows: Sequence[Part]) -> list[list[str]]:
    """Measure; the table."""
    lines = [["work", "time", "at most", "reached"]]
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
            seconds = row.measure(Path(directory))
        lines.append([row.work, duration(seconds), duration(row.target), verdict(seconds <= row.target)])
    return lines


def compared(ratio: float, target: float) -> list[str]:
    """How many times faster we are, have to be, and whether that is enough."""
    return [
        f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2f}x",
        f"{target:,.0f}x" if target >= 1 else f"{target:.2f}x",
        verdict(ratio >= target),
    ]


def at_most(memory: int, target: int | None) -> str:
    """MiB, and whether they are few enough if there is a target."""
    judged = "" if target is None else f" (at most {target}: {verdict(memory <= target)})"
    return f"{memory} MiB{judged}"


def print_table(title: str, lines: Sequence[Sequence[str]], notes: Mapping[str, str]) -> None:
    """Print lines of cells, the first one the header, and those notes that cells refer to."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"{title}\n")
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    used = [f"{mark} {note}" for mark, note in notes.items() if any(mark in line[0] for line in lines)]
    print("\n".join(["", *used, ""] if used else [""]))
