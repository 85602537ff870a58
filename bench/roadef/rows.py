"""Rows of the benchmark: the challenge's own problems, and generated ones beside what HiGHS finds.

The smallest problem of the challenge is kept here (``instances``). HTOOLSD_ROADEF names a folder with more of
its files, such as model_a1_2.txt and assignment_a1_2.txt; teams have published them with their programs.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.roadef.checker import costs
from bench.roadef.files import read_problem
from bench.roadef.generator import Size, generated
from bench.roadef.pair import CORES, best_of_two
from bench.roadef.problem import Problem
from bench.timing import progress, verdict

SECONDS, SHORT = 300, 30  # CPU time of a search: of the challenge's problems, of the smallest ones
CLOSE = 0.01  # how much more than the best known cost is good
OWN = Path(__file__).parent / "instances"
FOLDERS = OWN, Path(os.environ.get("HTOOLSD_ROADEF", OWN))

# The best of the qualification (A) and of the final (B). Sources: S. Gualandi, "Challenging MIPs instances",
# 2012; the results of the final.
BEST = {
    "a1_1": 44_306_501, "a1_2": 777_532_896, "a1_3": 583_005_717, "a1_4": 252_728_589, "a1_5": 727_578_309,
    "a2_1": 198, "a2_2": 816_523_983, "a2_3": 1_306_868_761, "a2_4": 1_681_353_943, "a2_5": 336_170_182,
    "b_1": 3_339_186_879, "b_2": 1_015_553_800, "b_3": 156_835_787, "b_4": 4_677_823_040,
    "b_5": 923_092_380, "b_6": 9_525_857_752, "b_7": 14_835_149_752, "b_8": 1_214_458_817,
    "b_9": 15_885_486_698, "b_10": 18_048_515_118,
}  # fmt: skip
SIZES = Size(4, 20, 12), Size(5, 30, 18, 4), Size(6, 40, 20, 3, balances=2)


class Row(NamedTuple):
    """A problem: one of the challenge by its name, or one from a seed."""

    name: str
    size: Size | None = None

    @property
    def work(self) -> str:
        """What is measured."""
        return f"roadef {self.name}"

    @property
    def folder(self) -> Path | None:
        """Where the files of the problem are."""
        return next((each for each in FOLDERS if (each / f"model_{self.name}.txt").exists()), None)

    def problem(self) -> Problem:
        """Read or generate the problem."""
        if self.size:
            return generated(len(self.name), self.size)
        assert self.folder
        return read_problem(*(self.folder / f"{kind}_{self.name}.txt" for kind in ("model", "assignment")))


ROWS: list[Row] = []
FULL_ROWS = [row for row in map(Row, BEST) if row.folder]
FULL_ROWS += [Row(f"{size.machines} / {size.processes} generated", size) for size in SIZES]
TITLE = f"""ROADEF/EURO 2012, machine reassignment: {SECONDS} s of CPU time on each of {CORES} cores.
Cost at first and found, both by an independent checker; the best of the teams of the challenge, or what HiGHS
finds (generated problems, {SHORT} s)."""
HEADER = ["problem", "machines / processes", "at first", "found", "best known", "above it", "within 1 %"]
NOTES: dict[str, str] = {}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Search; return the table."""
    return [HEADER, *(_cells(row) for row in rows)]


def _cells(row: Row) -> list[str]:
    progress(row.work)
    problem = row.problem()
    best = _by_highs(problem) if row.size else float(BEST[row.name])
    found = costs(problem, best_of_two(problem, SHORT if row.size else SECONDS)).total
    progress("")
    return [
        row.work,
        f"{len(problem.machines)} / {len(problem.processes)}",
        f"{costs(problem, problem.initial).total:,}",
        f"{found:,}",
        f"{best:,.0f}",
        f"{found / best - 1:.2%}",
        verdict(found <= (1 + CLOSE) * best),
    ]


def _by_highs(problem: Problem) -> float:
    """Return the least cost that HiGHS finds; not a number without it."""
    try:
        from bench.roadef.highs import solve
    except ImportError:
        return float("nan")
    return round(solve(problem, SHORT).cost)
