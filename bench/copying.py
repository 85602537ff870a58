"""What balancing copies, and how even it leaves a cluster: the usual plan, ``--optimise`` and ``--front``.

Clusters of 5 to 40 nodes from a seed: DRBD, plain and external storage, mixed; several storage units; tags.
"""

import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.score_bound import costs_of, score_bounds
from bench.timing import BIN, duration, progress, run, verdict
from ganeti_htools.backends import text as text_backend
from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.linear_score import linear_score
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from tests.support.clusters import Shape, cluster
from tests.support.highs import least_value
from tests.support.storage_units import with_four_units
from tests.support.text_format import text

SECONDS = 15  # of the search; the whole process takes up to 20
CLUSTERS = 40
OPTIONS = BalancingOptions()
SEED = 3000
SOLVED = 2_500  # places in models for HiGHS, at most
TEMPLATES = (
    *({"drbd": 1}, {"drbd": 1}, {"ext": 1}, {"drbd": 2, "plain": 2}),
    *({"drbd": 7, "plain": 1, "ext": 2}, {"drbd": 3, "sharedfile": 1}),
)
TAGS = ((), (), ("exclusion",), ("location",), ("exclusion", "desired"), ("migration",))
LOWER, CHEAPER = 0.9, 0.6  # part of the clusters with a lower score; median of the copying


class Row(NamedTuple):
    """A cluster."""

    seed: int

    @property
    def shape(self) -> Shape:
        """Size and contents of the cluster."""
        rng = random.Random(self.seed)
        nodes = rng.choice((5, 7, 10, 12, 15, 20, 25, 30, 40))
        return Shape(
            nodes,
            nodes * rng.choice((4, 6, 8, 10)),
            templates=rng.choice(TEMPLATES),
            fill=rng.choice((0.3, 0.4, 0.55, 0.7, 0.8)),
            offline=rng.choice((0, 0, 0, 1)),
            tags=rng.choice(TAGS),
        )

    @property
    def work(self) -> str:
        """What is measured."""
        shape, units = self.shape, ", four units" if self.seed % 3 == 0 else ""
        return f"copying {shape.nodes} / {shape.instances} {'+'.join(shape.templates)}{units} ({self.seed})"

    def write(self, path: Path) -> None:
        """Write the cluster in the text format."""
        data = cluster(self.seed, self.shape)
        path.write_text(text(with_four_units(data)[0] if self.seed % 3 == 0 else data))


_ROWS = [Row(SEED + number) for number in range(CLUSTERS)]
ROWS = _ROWS[::5]
FULL_ROWS = [row for row in _ROWS if row not in ROWS]

TITLE = f"""hbal for {SECONDS} s: the usual plan, --optimise --price=0, and --front. Scores, and GiB to copy.
Above best: by how much --optimise's score is at most above that of the best plan that copies as little.
By HiGHS: the same by the optimum that it proves for parts of instances (small clusters of bench-full).
At usual GiB: the lowest score of plans that copy no more than the usual one.
At usual score: the least GiB of plans that are as even."""
HEADER = [
    "cluster",
    "usual",
    "--optimise",
    "above best",
    "by HiGHS",
    "at usual GiB",
    "at usual score",
    "of usual GiB",
    "time",
    "reached",
]
NOTES: dict[str, str] = {}


class Point(NamedTuple):
    """Score and MiB of a plan."""

    score: float
    mib: int

    def __str__(self) -> str:
        return f"{self.score:.4f}, {self.mib / 1024:.0f}"


def point(plan: Any) -> Point:
    """Read a plan of the front from JSON."""
    return Point(float(plan["score"]), plan["disk_mib"] + plan["memory_mib"])


def rival(report: Any) -> Point:
    """Read the usual plan from JSON."""
    return Point(
        report["greedy"]["score"],
        report["greedy"]["cost"]["disk_mib"] + report["greedy"]["cost"]["memory_mib"],
    )


def above(best: Point, least: float) -> str:
    """Return by how much a plan is above a least score, in percent."""
    return f"{100 * (best.score / least - 1):.0f} %" if least > 0 else "?"


def by_bound(state: State, best: Point) -> str:
    """Return by how much a plan is at most above the best one, by the proved bound."""
    (least,) = score_bounds(state, np.ones(len(state.group), np.bool_), OPTIONS, None, [best.mib]) or [0.0]
    return above(best, least)


def by_highs(state: State, best: Point) -> str:
    """Return the same by HiGHS, which knows nothing of whole instances; empty if too large."""
    scope = np.ones(len(state.group), np.bool_)
    score = linear_score(state, scope, candidates(state, scope, None))
    if score is None or len(score.rows) * len(score.nodes) ** 2 > SOLVED:
        return ""
    return above(best, least_value(score, costs_of(state, score, OPTIONS), best.mib))


def measure(row: Row, path: Path) -> tuple[Point, Point, Point, Point, float]:
    """Return the usual plan, that of --optimise, the two plans of --front, and its time."""
    row.write(path)
    command: list[str | Path] = [BIN / "hbal", "-t", path, "--json", f"--optimise={SECONDS}"]
    progress(row.work)
    optimised = json.loads(run([*command, "--price=0"]).output)
    ended = run([*command, "--front=100"])
    report = json.loads(ended.output)
    usual, plans = rival(report), [point(plan) for plan in report.get("front", ())]
    even = min((plan for plan in plans if plan.mib <= usual.mib), default=usual)
    cheap = min(
        (plan for plan in plans if plan.score <= usual.score + 1e-8), key=lambda plan: plan.mib, default=usual
    )
    best = Point(optimised["score"]["after"], optimised["cost"]["disk_mib"] + optimised["cost"]["memory_mib"])
    return usual, best, even, cheap, ended.seconds


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; return the table. The last line sums up the clusters with a usual plan."""
    table, lower, parts = [HEADER], list[bool](), list[float]()
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
        for row in rows:
            path = Path(directory) / "cluster"
            usual, optimised, even, cheap, seconds = measure(row, path)
            state = derive(text_backend.parse(path.read_text(), str(path)))
            solved = by_highs(state, optimised) if row in FULL_ROWS else ""
            part = cheap.mib / usual.mib if usual.mib else 1.0
            if usual.mib:
                lower.append(even.score < usual.score - 1e-8)
                parts.append(part)
            worse = even.score > usual.score + 1e-8 or cheap.mib > usual.mib
            cells = [
                *map(str, (usual, optimised, by_bound(state, optimised), solved, even, cheap)),
                f"{part:.2f}",
                duration(seconds),
            ]
            table.append([row.work, *cells, verdict(not worse)])
    if parts:
        better, median = statistics.fmean(lower), statistics.median(parts)
        reached = verdict(better >= LOWER and median <= CHEAPER)
        table.append(
            [
                f"{len(parts)} with a usual plan",
                *[""] * 4,
                f"lower on {better:.0%}",
                "median",
                f"{median:.2f}",
                "",
                reached,
            ]
        )
    return table
