"""The tools that people run, ours and Debian's side by side on the same clusters.

A figure is the wall-clock time of a whole process, from its start to its exit, its CPU time, and its peak
memory. Debian's tools, which are slow here, run once, ours several times; medians are compared. Where
Debian's cannot do the work, the rival is what Debian's can do, ourselves on a smaller cluster, or a time
limit.
"""

import re
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from bench.timing import (
    BIN,
    SEED,
    TOP,
    Limit,
    Run,
    TimeLimitError,
    at_most,
    compared,
    duration,
    pace,
    progress,
    run,
    verdict,
)
from tests.support.clusters import Shape, cluster
from tests.support.storage_units import FOUR, with_four_units
from tests.support.text_format import text

DEBIAN = Path("/usr/bin")
GIBIBYTE = 1024


@dataclass(frozen=True)
class Data:
    """A generated cluster of instances of one disk template.

    ``fill`` is the used part of memory and disk; ``four_units``: nodes have four storage units, not one.
    """

    nodes: int
    instances: int
    template: str = "drbd"
    seed: int = SEED
    groups: int = 1
    fill: float = 0.4
    down: float = 0.05
    four_units: bool = False

    def file(self, directory: Path) -> Path:
        """The file with the cluster in the text format; written if it is missing."""
        path = directory / "-".join(map(str, astuple(self)))
        if not path.exists():
            shape = Shape(
                self.nodes,
                self.instances,
                self.groups,
                templates={self.template: 1},
                fill=self.fill,
                down=self.down,
            )
            data = cluster(self.seed, shape)
            path.write_text(text(with_four_units(data)[0] if self.four_units else data))
        return path


@dataclass(frozen=True)
class Job:
    """A command: a tool (or another program), its options, and its cluster if it reads one."""

    tool: str
    options: tuple[str, ...] = ()
    data: Data | None = None

    def command(self, programs: Path, directory: Path) -> list[str | Path]:
        """The command line for one set of programs."""
        read = ("-t", self.data.file(directory)) if self.data else ()
        return [programs / self.tool, *read, *self.options]


class Rival(NamedTuple):
    """The comparison of a row: a set of programs, and its job for each of the row's jobs."""

    programs: Path
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    The rival is Debian's program on the same jobs unless ``rival`` or ``seconds`` is given. ``target`` is how
    many times faster ours has to be, in CPU time if ``by_cpu`` is set. ``seconds`` is a time limit instead.
    ``more`` allows each job that many times the CPU time of Debian's, plus ``START_SECONDS``.
    """

    work: str
    jobs: tuple[Job, ...]
    target: float = 0.0
    rival: Rival | None = None
    seconds: float | None = None
    more: float | None = None
    by_cpu: bool = False
    runs: int = 5  # of ours
    rival_runs: int = 1
    memory_target: int | None = None  # MiB


START_SECONDS = 0.3  # CPU time that a nearly full cluster may always take more, at the pace of the machine
DEBIAN_CPU_LIMIT = 10  # seconds for one job of a row with many


def _generated(tool: str, nodes: int, instances: int, *options: str, template: str = "drbd") -> Job:
    return Job(tool, options, Data(nodes, instances, template))


def _on_four_units(job: Job) -> Job:
    return replace(job, data=replace(job.data, four_units=True) if job.data else None)


def _empty(nodes: int, *options: str) -> Job:
    simulated = f"--simulate=p,{nodes},1T,64g,16,12"
    return Job("hspace", ("--machine-readable", "--disk-template=drbd", simulated, *options))


# The first group is the default one, which nodes have anyway.
FOUR_UNITS = [f"--simulate-storage=lvm-vg,{group},1T" for group in FOUR[1:]]
TWO_DISKS = [f"--disk=1g,lvm-vg,{group}" for group in FOUR[:2]]


def _nearly_full(seed: int, existing: str, new: str) -> Job:
    """Count the new instances that fit on a small cluster without much room, by their disk template."""
    nodes, each, fill = 4 + seed * 7 % 9, (4, 6, 8, 10)[seed % 4], (0.85, 0.9, 0.95)[seed % 3]
    groups = 2 if nodes > 7 and seed % 5 == 0 else 1
    data = Data(nodes, nodes * each, existing, seed, groups, fill, down=0.0)
    return Job("hspace", ("--machine-readable", f"--disk-template={new}"), data)


def _existing(*templates: str) -> list[tuple[int, str]]:
    """Twenty seeds, and the disk template of the instances that each cluster has."""
    return [(seed, templates[seed % 7 % 3]) for seed in range(20)]


FIVE_STEPS = ("-l", "5")
WITHOUT_N1 = ("--target-resources=0", "--minimal-resources=0")  # as Debian's hsqueeze always is
EIGHTY = _generated("hbal", 80, 800, *FIVE_STEPS)
THOUSAND = _generated("hbal", 1000, 10_000)
TINY = Data(3, 6)
REQUEST = str(TOP / "examples/allocate.json")
IMPORT_NUMPY = Rival(BIN, (Job("python", ("-c", "import numpy")),))


def _start(work: str, job: Job) -> Row:
    return Row(f"{work} [1]", (job,), 1 / 1.3, IMPORT_NUMPY, by_cpu=True, runs=15, rival_runs=15)


ROWS = [
    _start("hbal --version", Job("hbal", ("--version",))),
    _start("hbal, start", Job("hbal", (), TINY)),
    _start("hail, start", Job("hail", (REQUEST,))),
    Row("hbal 40 / 400, five steps", (_generated("hbal", 40, 400, *FIVE_STEPS),), 20),
    Row("hbal 20 / 200, to the end", (_generated("hbal", 20, 200),), 25, runs=15),
    Row("hbal 1,000 / 10,000, 300 steps", (replace(THOUSAND, options=("-l", "300")),), seconds=10, runs=3),
    Row(
        "hsqueeze 15 / 120 external [6]", (_generated("hsqueeze", 15, 120, *WITHOUT_N1, template="ext"),), 10
    ),
    Row(
        "hsqueeze 20 / 160 external [6]", (_generated("hsqueeze", 20, 160, *WITHOUT_N1, template="ext"),), 20
    ),
    Row("hsqueeze 60 / 480 external", (_generated("hsqueeze", 60, 480, template="ext"),), seconds=5, runs=3),
    Row(
        "hspace, 20 nearly full clusters, unmirrored [2]",
        tuple(
            _nearly_full(seed, template, template)
            for seed, template in _existing("plain", "ext", "sharedfile")
        ),
        more=3,
        runs=1,
    ),
    Row(
        "hspace, 20 nearly full clusters, drbd [2]",
        tuple(_nearly_full(seed, template, "drbd") for seed, template in _existing("drbd", "ext", "plain")),
        more=3,
        runs=1,
    ),
    Row("hspace, 8 empty nodes", (_empty(8),), seconds=0.5),
    Row(
        "hcheck 1,000 / 10,000, no simulation",
        (_generated("hcheck", 1000, 10_000, "--machine-readable", "--no-simulation"),),
        seconds=1,
    ),
]
FULL_ROWS = [
    Row("hbal 80 / 800, five steps", (EIGHTY,), 120),
    Row(
        "hbal 1,000 / 10,000, to the end [3]",
        (THOUSAND,),
        1,
        rival=Rival(DEBIAN, (EIGHTY,)),
        runs=1,
        memory_target=GIBIBYTE,
    ),
    Row("hspace, 8 empty nodes, with Debian's", (_empty(8),), 80),
    Row("hspace, 40 empty nodes [4]", (_empty(40),), 1 / 3, Rival(BIN, (_empty(20),)), runs=3, rival_runs=3),
    Row(
        "hbal 80 / 800, five steps, four units [5]",
        (_on_four_units(EIGHTY),),
        1 / 1.6,
        rival=Rival(BIN, (EIGHTY,)),
        rival_runs=5,
    ),
    Row(
        "hspace, 8 empty nodes, four units [5]",
        (_empty(8, *FOUR_UNITS, *TWO_DISKS),),
        1 / 1.6,
        rival=Rival(BIN, (_empty(8),)),
        rival_runs=5,
    ),
]


# The lines that must be the same in the output of both.
RESULTS = {
    "hail": r'"result":.*',
    "hbal": r"^(?:Initial score:|Cluster score) .*",
    "hcheck": "^HCHECK_INIT_CLUSTER_.*",
    "hspace": r"^HTS_(?:TRL_INST_CNT|TSPEC|ALLOC_INSTANCES)=.*",
    "hsqueeze": r"^node.*",
}


def result(job: Job, ended: Run) -> list[str]:
    """The result of a job: lines of its output, none for a program that only starts."""
    return re.findall(RESULTS[job.tool], ended.output, re.MULTILINE)


def agree(job: Job, ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether the results are the same, or with hsqueeze no fewer nodes."""
    return len(ours) >= len(theirs) if job.tool == "hsqueeze" else list(ours) == list(theirs)


def summary(job: Job, lines: Sequence[str]) -> str:
    """A result in a few words."""
    match job.tool:
        case "hbal" if lines:
            return f"score {lines[-1].split()[-1]}"
        case "hspace":
            tiered, _, standard = (line.split("=", 1)[1] for line in lines)
            return f"{tiered} tiered, {standard} standard"
        case "hsqueeze":
            return f"{len(lines)} nodes"
        case _:
            return ""


class Measured(NamedTuple):
    """The runs of both on one job; None for Debian's if they did not end in time."""

    job: Job
    ours: list[Run]
    theirs: list[Run] | None


class Bench:
    """Runs of jobs, made once for all rows that use them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.known: dict[tuple[Path, Job], list[Run]] = {}
        self.stopped: set[tuple[Path, Job]] = set()  # at the limit of their CPU time

    def run_up_to(self, programs: Path, job: Job, times: int, cpu_limit: int = 0) -> list[Run]:
        """Run a job once more, unless it has run so often; return its runs, none if it was stopped."""
        runs = self.known.setdefault((programs, job), [])
        if len(runs) < times and (programs, job) not in self.stopped:
            command = job.command(programs, self.directory)
            progress(" ".join(map(str, command)))
            try:
                runs.append(run(command, cpu_limit=cpu_limit))
            except TimeLimitError:
                self.stopped.add((programs, job))
        return runs

    def measure(self, row: Row) -> list[Measured]:
        """Run the jobs of a row, ours and the rival's in turns."""
        programs, rivals = row.rival or Rival(DEBIAN, row.jobs if row.seconds is None else ())
        limit = DEBIAN_CPU_LIMIT if len(row.jobs) > 1 else 0
        found = []
        for job, other in zip_longest(row.jobs, rivals):
            theirs: list[Run] = []
            for number in range(1, max(row.runs, row.rival_runs) + 1):
                ours = self.run_up_to(BIN, job, min(number, row.runs))
                if other:
                    theirs = self.run_up_to(programs, other, min(number, row.rival_runs), limit)
            found.append(Measured(job, ours, theirs or None))
        progress("")
        return found

    def cells(self, row: Row) -> list[str]:
        """Measure a row; return its cells."""
        limit = Limit(row.seconds, pace()) if row.seconds is not None else None
        measured = self.measure(row)
        both = [each for each in measured if each.theirs]
        ours = [ended for each in measured for ended in each.ours]
        theirs = [ended for each in both for ended in each.theirs or ()]
        for each in measured:
            if len({tuple(result(each.job, ended)) for ended in each.ours}) != 1:
                raise SystemExit(f"bench: {row.work}: the result is not the same each time")
        return [
            row.work,
            *_times(theirs),
            *_times(ours),
            *_judged(row, measured, limit),
            _agreement(row, both),
            summary(row.jobs[0], result(row.jobs[0], ours[0])) if len(row.jobs) == 1 else "",
            at_most(max(ended.memory for ended in ours), row.memory_target),
        ]


def _times(runs: Sequence[Run]) -> list[str]:
    """Median and slowest wall-clock time, and mean CPU time."""
    if not runs:
        return ["-", "-", "-"]
    seconds = [ended.seconds for ended in runs]
    return [
        f"{duration(statistics.median(seconds))} ({len(runs)})",
        duration(max(seconds)),
        duration(statistics.fmean(ended.cpu for ended in runs)),
    ]


def _judged(row: Row, measured: Sequence[Measured], limit: Limit | None) -> list[str]:
    """How many times faster ours is, the target, and whether it is reached."""
    both = [each for each in measured if each.theirs]
    median = statistics.median(ended.seconds for each in measured for ended in each.ours)
    if limit is not None:
        return ["-", *limit.cells(median)]
    if row.more is not None:
        cpu = [(m.ours[0].cpu, m.theirs[0].cpu if m.theirs else DEBIAN_CPU_LIMIT) for m in measured]
        start = START_SECONDS * pace()
        kept = sum(ours <= start + row.more * theirs for ours, theirs in cpu)
        ratio = sum(theirs for _, theirs in cpu) / sum(ours for ours, _ in cpu)
        return [f"{ratio:.2f}x", f"{kept} of {len(cpu)} in bounds", verdict(kept == len(cpu))]
    theirs = [ended for each in both for ended in each.theirs or ()]
    if row.by_cpu:
        ours = [ended for each in measured for ended in each.ours]
        medians = [statistics.median(ended.cpu for ended in runs) for runs in (theirs, ours)]
        return compared(medians[0] / medians[1], row.target)
    return compared(statistics.median(ended.seconds for ended in theirs) / median, row.target)


def _agreement(row: Row, both: Sequence[Measured]) -> str:
    """On how many jobs both have the same result, where both do the same work."""
    if row.rival is not None or not both:
        return "-"
    same = sum(agree(m.job, result(m.job, m.ours[0]), result(m.job, m.theirs[0])) for m in both if m.theirs)
    return f"{same} of {len(both)}"


TITLE = """Whole process of a tool: Debian's against ours, one-shot. DRBD instances unless the row says
otherwise; empty nodes: --simulate p,N,1T,64g,16,12, tiered and standard. Median (runs), slowest, mean CPU
time; agree: same score or counts, no fewer nodes."""
HEADER = [
    "work, nodes / instances",
    "Debian's (runs)",
    "slowest",
    "CPU",
    "ours (runs)",
    "slowest",
    "CPU",
    "faster",
    "at least",
    "reached",
    "agree",
    "result",
    "peak memory",
]
NOTES = {
    "[1]": "against `python -c 'import numpy'`, by CPU time",
    "[2]": (
        "4 to 12 nodes; bounds: three times Debian's CPU time and 0.3 s; Debian's for 10 s at most;"
        " counts differ where only ours checks the redundancy of the whole after each instance"
    ),
    "[3]": "against Debian's five steps on 80 / 800: Debian's cannot do the work of this row",
    "[4]": "against our own time for 20 nodes, which must be more than a third: Debian's takes hours",
    "[5]": "four storage units on each node, two disks of each instance: against our own time for one",
    "[6]": "with --target-resources=0: Debian's does not keep N+1, ours only then does not",
}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; return the table."""
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
        bench = Bench(Path(directory))
        return [HEADER, *(bench.cells(row) for row in rows)]
