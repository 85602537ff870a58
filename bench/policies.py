"""A seeded day of changing load under policies, on the simulator: what it saved, and what it cost."""

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import structlog
import trio

from bench.timing import SEED, Limit, duration, pace, progress
from htoolsd.config.policies import RebalanceSettings, SqueezeSettings
from tests.support.clocks import jumping
from tests.support.days import Log, Site, lived

PACE = 3600.0  # seconds between changes of the load, and between rounds
SQUEEZE = SqueezeSettings(
    mode="act",
    every_seconds=PACE,
    hold=1,
    target_resources=3.0,
    max_nodes=4,
    max_moves=120,
    max_mib=1 << 20,
    moves_per_day=2000,
    mib_per_day=1 << 23,
)
REBALANCE = RebalanceSettings(mode="act", every_seconds=PACE, hold=1, max_moves=10, moves_per_day=60)


class Row(NamedTuple):
    """A site, and how many seconds (of the processor) its day may take."""

    site: Site
    seconds: float

    @property
    def work(self) -> str:
        """What is measured."""
        nodes = self.site.groups * self.site.nodes
        return f"policies {nodes} / {self.site.instances:,}, a day"


ROWS = [Row(Site(5, 20, 2000), 120)]
FULL_ROWS: list[Row] = []
TITLE = """A day under [squeeze] and [rebalance] on the simulator: nodes / instances at most, in groups of 20
nodes; node-hours saved, what was moved for that, and moves after which N+1 or the reserve was lost that was
there before. Processor time."""
HEADER = [
    "work",
    "time",
    "at most",
    "reached",
    "node-hours saved",
    "moves",
    "MiB",
    "moves that broke anything",
]
NOTES: dict[str, str] = {}


def day(site: Site) -> Log:
    """A day of a site."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory, jumping() as clock:

        async def run() -> Log:
            wishes = {"squeeze": SQUEEZE, "rebalance": REBALANCE}
            return await lived(Path(directory), site, Random(SEED), 1.0, PACE, **wishes)

        return trio.run(run, clock=clock)


def cells(row: Row) -> list[str]:
    """Measure a row; as printed."""
    progress(row.work)
    limit = Limit(row.seconds, pace(time.process_time))
    begun = time.process_time()
    log = day(row.site)
    took = time.process_time() - begun
    progress("")
    hours = 24 * row.site.groups * row.site.nodes
    return [
        row.work,
        duration(took),
        *limit.cells(took),
        f"{log.node_hours:.0f} of {hours}",
        f"{len(log.moves):,}",
        f"{log.mib:,}",
        f"{len(log.broken)}",
    ]


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    return [HEADER, *map(cells, rows)]
