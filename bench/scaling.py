"""Growth of the cost of our programs with the cluster, with nothing to compare with but smaller clusters.

A figure is the CPU time of whole processes, less what the same process takes on a tiny cluster. The exponent
is the slope of a line through the logarithms of CPU time and nodes: 1 where twice the nodes cost twice as
much.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from bench import sync
from bench.timing import BIN, SEED, duration, progress, run, verdict
from bench.tools import Data
from tests.support.clusters import Shape
from tests.support.messages import stream

SIZES = (125, 250, 500, 1000, 2000)
FEW = (16, 32, 64, 128, 256)  # where more take many minutes
EACH = 10  # instances of a node, as in sync.py
TINY = 3  # nodes: its CPU time counts as start-up
STEPS = 50


def _cpu(*command: str | Path) -> float:
    return run(command).cpu


def decision(directory: Path, nodes: int) -> float:
    """Decide one DRBD allocate with the one-shot hail."""
    path = directory / f"request-{nodes}"
    if not path.exists():
        (message,) = islice(stream(SEED, Shape(nodes=nodes, instances=EACH * nodes)), 1)
        path.write_text(json.dumps(message))
    return _cpu(BIN / "hail", path)


def steps(directory: Path, nodes: int) -> float:
    """Find balancing steps, without reading and the first step."""
    data = Data(nodes, EACH * nodes).file(directory)
    many, one = (_cpu(BIN / "hbal", "-t", data, "-l", str(length)) for length in (STEPS + 1, 1))
    return (many - one) / STEPS


def balance(directory: Path, nodes: int) -> float:
    """Balance a cluster to the end."""
    return _cpu(BIN / "hbal", "-t", Data(nodes, EACH * nodes).file(directory))


def capacity(directory: Path, nodes: int) -> float:
    """Count the new instances that fit on a cluster."""
    data = Data(nodes, EACH * nodes).file(directory)
    return _cpu(BIN / "hspace", "-t", data, "--machine-readable", "--disk-template=drbd")


def synchronisation(directory: Path, nodes: int) -> float:
    """Start the daemon and read the cluster."""
    place = Path(tempfile.mkdtemp(dir=directory))
    with sync.running(nodes, place) as pair:
        return sync.cpu(pair.daemon)


@dataclass(frozen=True)
class Row:
    """One line of the table: what is done on clusters of some sizes, and the highest exponent wanted."""

    work: str
    cost: Callable[[Path, int], float]
    wanted: float | None = None
    starts: bool = True  # whether the cost contains the start of a process
    runs: int = 3
    sizes: tuple[int, ...] = SIZES


ROWS: list[Row] = []
FULL_ROWS = [
    Row("growth of a decision, hail one-shot", decision, 1.2),
    Row(f"growth of a balancing step, of {STEPS}", steps, starts=False),
    Row("growth of a balance, to the end", balance, 1.5, runs=1),
    Row("growth of capacity, hspace", capacity, runs=1, sizes=FEW),
    Row("growth of a synchronisation, all", synchronisation, runs=1),
]

TITLE = f"""Growth with the cluster: CPU time of whole processes without their start, by the number of nodes,
which have {EACH} instances each; medians. Exponent: least squares of the logarithms of CPU time and nodes."""
HEADER = ["work", "CPU by nodes", "exponent", "at most", "reached"]
NOTES: dict[str, str] = {}


def exponent(nodes: Sequence[int], seconds: Sequence[float]) -> float:
    """Compute the slope of a line through the logarithms of both."""
    return float(np.polyfit(np.log(nodes), np.log(seconds), 1)[0])


def cells(row: Row, directory: Path) -> list[str]:
    """Measure a row; return its cells."""

    def seconds(nodes: int) -> float:
        found = []
        for number in range(row.runs):
            progress(f"{row.work}: {nodes:,} nodes, {number + 1} of {row.runs}")
            found.append(row.cost(directory, nodes))
        return statistics.median(found)

    start = seconds(TINY) if row.starts else 0.0
    figures = [seconds(nodes) - start for nodes in row.sizes]
    progress("")
    slope = exponent(row.sizes, figures)
    grown = (f"{nodes:,}: {duration(cpu)}" for nodes, cpu in zip(row.sizes, figures, strict=True))
    wanted = ["-", "-"] if row.wanted is None else [f"{row.wanted:.1f}", verdict(slope <= row.wanted)]
    return [row.work, ", ".join(grown), f"{slope:.2f}", *wanted]


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; return the table."""
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
        return [HEADER, *(cells(row, Path(directory)) for row in rows)]
