"""What claims cost a decision: two daemons that follow the same cluster, and only one of them claims.

The requests are those of a burst: none of what was decided before is there yet, so there are more claims with
each. Both are asked in turn, so that the machine's other load shows in both.
"""

import os
import random
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import requests, sync
from bench.timing import SEED, Limit, duration, pace, progress
from tests.support.clusters import Shape, cluster
from tests.support.messages import encode, message, random_allocate


@dataclass(frozen=True)
class Row:
    """One line of the table: seconds more, at most."""

    work: str
    nodes: int
    target: float
    requests: int = 30


ROWS = [Row("claims 80 / 800", 80, 0.002), Row("claims 1,000 / 10,000", 1000, 0.005)]
FULL_ROWS: list[Row] = []
TITLE = """One DRBD allocate by iallocator/htoolsd and a warm daemon that claims what it promises, in its
ledger (SQLite), and by one that claims nothing. Medians of whole processes, and of the differences."""
HEADER = ["nodes / instances", "without", "with", "claims, at last", "more", "at most", "reached"]
NOTES: dict[str, str] = {}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    return [HEADER, *(_cells(row) for row in rows)]


def _cells(row: Row) -> list[str]:
    limit = Limit(row.target, pace())
    took: dict[str, list[float]] = {"never": [], "auto": []}
    data, rng = cluster(SEED, Shape(nodes=row.nodes, instances=10 * row.nodes)), random.Random(SEED)
    with ExitStack() as stack:
        sockets = {}
        for mode in took:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="htoolsd-bench-")))
            pair = stack.enter_context(sync.running(row.nodes, directory, f'claims = "{mode}"'))
            sockets[mode] = pair.socket
            request = directory / "request"
        for number in range(row.requests + 1):
            progress(f"{row.work}: {number + 1} of {row.requests + 1}")
            request.write_text(encode(message(data, random_allocate(rng, f"new{number}.example.org"))))
            for mode, seconds in took.items():
                environment = os.environ | {"HTOOLSD_SOCKET": str(sockets[mode])}
                seconds.append(requests.run([requests.EXECUTABLE, request], environment).seconds)
    progress("")
    without, claimed = (seconds[1:] for seconds in took.values())
    more = statistics.median(b - a for a, b in zip(without, claimed, strict=True))
    return [
        row.work,
        duration(statistics.median(without)),
        duration(statistics.median(claimed)),
        str(row.requests + 1),
        duration(more),
        *limit.cells(more),
    ]
