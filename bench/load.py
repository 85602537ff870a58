"""Balancing by measured load: learnt on 21 days, judged on the next 9.

Instances are made from a seed, or are those of a trace (``HTOOLSD_LOAD_TRACE``: a CSV file with the columns
vm, cpus, hour, mean_cores, p95_cores of 30 days). Each plan makes at most as many moves as the static one.
"""

import csv
import os
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.timing import progress, verdict
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Load, Node, with_loads
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.derive import derive
from ganeti_htools.model.load import HOURS, LoadProfile
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DRBD_META
from ganeti_htools.model.types import DiskTemplate

TRACE = "HTOOLSD_LOAD_TRACE"
DAYS, LEARNT = 30, 21
SEED = 4600
FILLED = 0.5  # part of all CPUs that the cluster uses in its worst hour
HOT = 0.8  # of a node's CPUs
STATIC, QUANTILES = 0.75, 0.95  # wanted: the highest node-hour, of that of the other plans
GIBIBYTE = 1024


class Use(NamedTuple):
    """CPU use of instances: virtual CPUs, and cores by instance and hour: mean and 95th percentile."""

    cpus: Sequence[int]
    mean: Floats
    peak: Floats


def generated(seed: int, instances: int) -> Use:
    """Make shapes of days and weeks, noise, bursts and trends; the first hour is Monday, 0 h."""
    rng = np.random.default_rng(seed)
    hours = np.arange(DAYS * 24)
    of_day, weekend = hours % 24, hours // 24 % 7 >= 5
    cpus = rng.choice([1, 2, 4, 8], instances, p=[0.3, 0.35, 0.25, 0.1])
    mean, peak = np.empty((2, instances, len(hours)))
    for row in range(instances):
        kind = rng.choice(["office", "evening", "night", "weekend", "flat"], p=[0.35, 0.2, 0.15, 0.05, 0.25])
        middle = {"office": 13, "evening": 20, "night": 2, "weekend": 15, "flat": 0}[kind] + rng.normal(0, 1)
        width = {"night": 1.5, "evening": 2.5}.get(kind, 3.5)
        away = np.abs((of_day - middle + 12) % 24 - 12)
        shape = np.exp(-0.5 * (away / width) ** 2)
        if kind == "office":
            shape = np.where(weekend, 0.15 * shape, shape)
        if kind == "weekend":
            shape = np.where(weekend, shape, 0.2 * shape)
        if kind == "flat":
            shape = np.full(len(hours), 0.5)
        base, height = rng.uniform(0.01, 0.1), rng.beta(2, 3)
        trend = 1 + rng.normal(0, 0.15) * hours / len(hours)
        use = (base + height * shape) * trend * rng.lognormal(0, 0.2, len(hours))
        use = np.where(rng.random(len(hours)) < 0.004, np.maximum(use, rng.uniform(0.5, 1)), use)
        mean[row] = cpus[row] * np.clip(use, 0, 1)
        peak[row] = cpus[row] * np.clip(use * rng.uniform(1.05, 1.6, len(hours)), 0, 1)
    return Use(cpus.tolist(), mean, peak)


def traced(seed: int, instances: int) -> Use:
    """Draw instances from the trace, each begun on another day; an hour without a figure has no use."""
    rng = np.random.default_rng(seed)
    machines: dict[str, tuple[int, Floats]] = {}
    with Path(os.environ[TRACE]).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            _, figures = machines.setdefault(row["vm"], (int(row["cpus"]), np.zeros((2, DAYS * 24))))
            figures[:, int(row["hour"])] = float(row["mean_cores"]), float(row["p95_cores"])
    names = sorted(machines)
    drawn = [machines[name] for name in rng.choice(names, instances)]
    begins = rng.integers(0, 24, instances)
    mean, peak = np.stack(
        [np.roll(figures, begin, axis=1) for (_, figures), begin in zip(drawn, begins.tolist(), strict=True)],
        axis=1,
    )
    return Use([cpus for cpus, _ in drawn], mean, peak)


def cluster(seed: int, nodes: int, use: Use) -> Cluster:
    """Place instances at random on nodes of two sizes."""
    rng = random.Random(seed)
    larger = [1 + (number % 2) for number in range(nodes)]
    cores = float(use.mean.sum(axis=0).max()) / FILLED / sum(larger)
    memory = [rng.choice((2, 4, 8)) * GIBIBYTE for _ in use.cpus]
    whole = 2.6 * sum(memory) / sum(larger)
    made = [
        Node(f"node{number}", "uuid", t_mem=whole * size, n_mem=1024, t_dsk=8e6 * size, t_cpu=cores * size)
        for number, size in enumerate(larger)
    ]
    free = {node.name: node.t_mem - 1024 for node in made}
    instances = []
    for number, (cpus, size) in enumerate(zip(use.cpus, memory, strict=True)):
        fitting = [node.name for node in made if free[node.name] > size + 0.3 * whole]
        pnode, snode = rng.sample(fitting, 2)
        disk = rng.choice((20, 40, 80)) * GIBIBYTE
        free[pnode] -= size
        instances.append(
            Instance(
                f"inst{number}",
                size,
                disk + DRBD_META,
                (Disk(disk),),
                cpus,
                pnode=pnode,
                snode=snode,
                template=DiskTemplate.DRBD,
            )
        )
    placed = tuple(
        replace(
            node,
            f_mem=int(free[node.name]),
            f_dsk=int(node.t_dsk - sum(row.dsk for row in instances if node.name in (row.pnode, row.snode))),
        )
        for node in made
    )
    return Cluster((Group("default", "uuid"),), placed, tuple(instances))


def weekly(figures: Floats) -> Floats:
    """Return the highest figure of each hour of the week in the days that are learnt (instances by hours)."""
    highest: Floats = figures[:, : LEARNT * 24].reshape(len(figures), -1, HOURS).max(axis=1)
    return highest


def profiles(hours: Floats) -> dict[str, LoadProfile]:
    """Return profiles of CPU use alone, by instance name (instances by hours)."""
    found = {}
    for row, figures in enumerate(hours):
        kinds = np.zeros((4, HOURS))
        kinds[0] = figures
        found[f"inst{row}"] = LoadProfile(kinds, kinds, kinds[:, 0])
    return found


def static(described: Cluster, _use: Use) -> Cluster:
    """What is assigned is balanced."""
    return described


def upstream(described: Cluster, use: Use) -> Cluster:
    """The mean use is balanced as with ``-U``."""
    mean = use.mean[:, : LEARNT * 24].mean(axis=1)
    loads = {f"inst{row}": Load(cpu, 0, 0, 0) for row, cpu in enumerate((mean / mean.mean()).tolist())}
    return with_loads(described, loads)


def quantile_sum(described: Cluster, use: Use) -> Cluster:
    """The sums of each instance's 95th percentile over all hours are balanced."""
    quantiles = np.quantile(use.peak[:, : LEARNT * 24], 0.95, axis=1)
    hours = np.repeat(quantiles[:, np.newaxis], HOURS, axis=1)
    return _real(described, hours)


def real(described: Cluster, use: Use) -> Cluster:
    """The worst hours of the week are balanced."""
    return _real(described, weekly(use.peak))


def _real(described: Cluster, hours: Floats) -> Cluster:
    idle = {row.name: Load(0, 0, 0, 0) for row in described.instances}
    return replace(with_loads(described, idle), load_profiles=profiles(hours))


WAYS: dict[str, Callable[[Cluster, Use], Cluster]] = {
    "static": static,
    "upstream": upstream,
    "quantile-sum": quantile_sum,
    "real": real,
}


class Outcome(NamedTuple):
    """A plan: the highest node-hour of CPU use and node-hours above ``HOT`` in the days that are judged."""

    highest: float
    hot: float
    moves: float
    gib: float


def judged(before: State, after: State, use: Use, moves: int) -> Outcome:
    """Judge the places of instances by what they used afterwards."""
    later = use.mean[:, LEARNT * 24 :]
    cores = np.zeros((len(after.group), later.shape[1]))
    np.add.at(cores, after.pnode, later)
    shares = cores / after.columns.t_cpu[:, np.newaxis]
    was, now = np.stack([before.pnode, before.snode]), np.stack([after.pnode, after.snode])
    copies = (now[:, np.newaxis] != was).all(axis=1).sum(axis=0)
    return Outcome(float(shares.max()), int((shares > HOT).sum()), moves, int(copies @ after.dsk) / GIBIBYTE)


def outcomes(seed: int, nodes: int, use: Use) -> dict[str, Outcome]:
    """Plan in each way, with at most as many moves as the static plan."""
    described, most, found = cluster(seed, nodes, use), -1, dict[str, Outcome]()
    for name, way in WAYS.items():
        before = derive(way(described, use))
        after, steps = rebalance(before, np.ones(nodes, np.bool_), BalancingOptions(max_length=most))
        found[name] = judged(before, after, use, len(steps))
        most = int(found["static"].moves)
    return found


class Row(NamedTuple):
    """Clusters of one size, with instances that are generated or drawn from the trace."""

    nodes: int
    of: Callable[[int, int], Use]
    seeds: int = 20

    @property
    def work(self) -> str:
        """What is measured."""
        return f"load {self.nodes} / {10 * self.nodes}, {self.of.__name__}"


ROWS = [Row(20, generated), Row(20, traced)]
FULL_ROWS = [Row(80, generated), Row(80, traced)]

TITLE = f"""Balancing by measured load: plans after {LEARNT} days of load, judged by the next {DAYS - LEARNT}.
Medians of some seeds; each plan makes at most as many moves as the static one. Highest: the highest use of
CPUs in an hour and node, of 1. Hot: hours of nodes with more than {HOT:.0%}.
Wanted of generated load: real's highest at most {STATIC} of static's, and {QUANTILES} of quantile-sum's."""
HEADER = ["work", "way", "highest", "hot", "moves", "GiB", "real's highest of it", "reached"]
NOTES: dict[str, str] = {}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; return the table. Rows of the trace need the trace."""
    table = [HEADER]
    for row in rows:
        if row.of is traced and TRACE not in os.environ:
            table.append([row.work, f"left out: {TRACE} names no trace", *[""] * (len(HEADER) - 2)])
            continue
        found = []
        for seed in range(SEED, SEED + row.seeds):
            progress(f"{row.work}, seed {seed}")
            found.append(outcomes(seed, row.nodes, row.of(seed, 10 * row.nodes)))
        progress("")
        for name in WAYS:
            medians = Outcome(*np.median([each[name] for each in found], axis=0).tolist())
            part = statistics.median(each["real"].highest / each[name].highest for each in found)
            wanted = {"static": STATIC, "quantile-sum": QUANTILES}.get(name) if row.of is generated else None
            table.append(
                [
                    row.work,
                    name,
                    f"{medians.highest:.2f}",
                    *(f"{figure:.0f}" for figure in medians[1:]),
                    f"{part:.2f}",
                    "" if wanted is None else verdict(part <= wanted),
                ]
            )
    return table
