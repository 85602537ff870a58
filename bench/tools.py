"""The tools that people run, ours and Debian's side by side on the same clusters.

A figure is the wall-clock time of a whole process, from its start to its exit, and its peak memory.
Debian's tools, which are slow here, run once, ours several times; medians are compared. Where Debian's
cannot do the work at all, we are compared with what it can do, or with ourselves on a smaller cluster.
"""

import re
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.timing import BIN, SEED, Run, at_most, compared, duration, progress, run, verdict
from tests.support.clusters import Shape, cluster
from tests.support.storage_units import FOUR, with_four_units
from tests.support.text_format import text

DEBIAN = Path("/usr/bin")
GIBIBYTE = 1024


class Job(NamedTuple):
    """What a tool is run with; on a generated cluster if there is a shape, with four storage units or one."""

    tool: str
    options: tuple[str, ...] = ()
    nodes: int = 0
    instances: int = 0
    template: str = "drbd"
    four_units: bool = False

    def command(self, programs: Path, directory: Path) -> list[str | Path]:
        """The command line; the cluster is written to the directory unless it is there."""
        if not self.nodes:
            return [programs / self.tool, *self.options]
        path = directory / f"{self.template}-{self.nodes}-{self.instances}-{self.four_units}"
        if not path.exists():
            shape = Shape(nodes=self.nodes, instances=self.instances, templates={self.template: 1})
            data = cluster(SEED, shape)
            path.write_text(text(with_four_units(data)[0] if self.four_units else data))
        return [programs / self.tool, "-t", path, *self.options]


@dataclass(frozen=True)
class Row:
    """One line of the table; ``target`` is how many times faster we have to be than ``rival``."""

    work: str
    job: Job
    target: float
    rival: tuple[Path, Job] | None = None  # programs and job; Debian's at the same job unless given
    runs: int = 5  # of ours
    memory_target: int | None = None  # MiB


FIVE_STEPS = ("-l", "5")


def _empty(nodes: int, *options: str) -> Job:
    simulated = f"--simulate=p,{nodes},1T,64g,16,12"
    return Job("hspace", ("--machine-readable", "--disk-template=drbd", simulated, *options))


# The first group is the default one, which nodes have anyway.
FOUR_UNITS = [f"--simulate-storage=lvm-vg,{group},1T" for group in FOUR[1:]]
TWO_DISKS = [f"--disk=1g,lvm-vg,{group}" for group in FOUR[:2]]

ROWS = [
    Row("hbal 40 / 400, five steps", Job("hbal", FIVE_STEPS, 40, 400), 20),
    Row("hbal 20 / 200, to the end", Job("hbal", (), 20, 200), 25, runs=15),
    Row("hsqueeze 20 / 160 external", Job("hsqueeze", (), 20, 160, "ext"), 30),
]
FULL_ROWS = [
    Row("hbal 80 / 800, five steps", Job("hbal", FIVE_STEPS, 80, 800), 120),
    Row(
        "hbal 1,000 / 10,000, to the end [2]",
        Job("hbal", (), 1000, 10_000),
        1,
        rival=(DEBIAN, Job("hbal", FIVE_STEPS, 80, 800)),
        runs=3,
        memory_target=GIBIBYTE,
    ),
    Row("hspace, 8 empty nodes", _empty(8), 250),
    Row("hspace, 40 empty nodes [3]", _empty(40), 1 / 3, rival=(BIN, _empty(20)), runs=3),
    Row(
        "hbal 80 / 800, five steps, four units [4]",
        Job("hbal", FIVE_STEPS, 80, 800, four_units=True),
        1 / 1.6,
        rival=(BIN, Job("hbal", FIVE_STEPS, 80, 800)),
    ),
    Row(
        "hspace, 8 empty nodes, four units [4]",
        _empty(8, *FOUR_UNITS, *TWO_DISKS),
        1 / 1.6,
        rival=(BIN, _empty(8)),
    ),
]


# The lines that have to be the same in what both print.
RESULTS = {
    "hbal": r"^(?:Initial score:|Cluster score) .*",
    "hspace": r"^HTS_(?:TRL_INST_CNT|TSPEC|ALLOC_INSTANCES)=.*",
    "hsqueeze": r"^node.*",
}


def result(job: Job, ended: Run) -> list[str]:
    """What a job came to."""
    found = re.findall(RESULTS[job.tool], ended.output, re.MULTILINE)
    if not found:
        raise SystemExit(f"bench: {job.tool} {' '.join(job.options)} told no result:\n{ended.output}")
    return found


def agrees(job: Job, ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether a job came to the same, or with hsqueeze to no fewer nodes."""
    return len(ours) >= len(theirs) if job.tool == "hsqueeze" else list(ours) == list(theirs)


def shown(job: Job, lines: Sequence[str]) -> str:
    """A result for people."""
    match job.tool:
        case "hbal":
            return f"score {lines[-1].split()[-1]}"
        case "hspace":
            tiered, _, standard = (line.split("=", 1)[1] for line in lines)
            return f"{tiered} tiered, {standard} standard"
        case _:
            return f"{len(lines)} nodes"


class Bench:
    """Runs of jobs, each done as often as asked for, kept for the rows that come back to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.known: dict[tuple[Path, Job], list[Run]] = {}

    def runs(self, programs: Path, job: Job, times: int) -> list[Run]:
        """Run a job with one of both sets of programs."""
        known = self.known.setdefault((programs, job), [])
        while len(known) < times:
            command = job.command(programs, self.directory)
            progress(f"{' '.join(map(str, command))}: {len(known) + 1} of {times}")
            known.append(run(command))
        progress("")
        return known

    def cells(self, row: Row) -> list[str]:
        """Measure a row; as printed."""
        programs, job = row.rival or (DEBIAN, row.job)
        theirs = self.runs(programs, job, row.runs if programs == BIN else 1)
        ours = self.runs(BIN, row.job, row.runs)
        told = {tuple(result(row.job, ended)) for ended in ours}
        if len(told) > 1:
            raise SystemExit(f"bench: {row.work}: not the same each time")
        (lines,) = told
        agree = "-"
        if job == row.job:
            agree = verdict(all(agrees(job, lines, result(job, ended)) for ended in theirs))
        times = [statistics.median(ended.seconds for ended in runs) for runs in (theirs, ours)]
        return [
            row.work,
            f"{duration(times[0])} ({len(theirs)})",
            f"{duration(times[1])} ({len(ours)})",
            *compared(times[0] / times[1], row.target),
            agree,
            shown(row.job, lines),
            at_most(max(ended.memory for ended in ours), row.memory_target),
        ]


TITLE = """Whole process of a tool: Debian's against ours, one-shot. DRBD instances unless it says otherwise;
empty nodes: --simulate p,N,1T,64g,16,12, tiered and standard. Medians; agree: same score or counts,
no fewer nodes."""
HEADER = [
    "work, nodes / instances",
    "Debian's (runs)",
    "ours (runs)",
    "faster",
    "at least",
    "reached",
    "agree",
    "result",
    "peak memory",
]
NOTES = {
    "[2]": "against Debian's five steps on 80 / 800: to the end of this, it cannot",
    "[3]": "against our own time for 20 nodes, which must be more than a third: Debian's takes hours",
    "[4]": "four storage units on each node, two disks of each instance: against our own time for one",
}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
        bench = Bench(Path(directory))
        return [HEADER, *(bench.cells(row) for row in rows)]
