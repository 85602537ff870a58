"""``[relieve]`` hour by hour, on the instances and days of ``bench/load.py``.

Each hour has six rounds: at the end of a hot hour a node has been hot for ``hold`` rounds, and gives an
instance. So the hours that count are those of nodes that were hot in the hour before as well.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bench.load import (
    DAYS,
    HOT,
    LEARNT,
    SEED,
    TRACE,
    Use,
    cluster,
    generated,
    profiles,
    static,
    traced,
)
from bench.timing import progress, verdict
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.derive import derive
from ganeti_htools.model.load import HOURS, PresentLoad
from ganeti_htools.model.options import BalancingOptions
from htoolsd.config.policies import RelieveSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.relieve import Relieve
from htoolsd.policies.remedy import PlanBounds

REMOVED = 0.7  # wanted, of the hours that one migration could have removed
SETTINGS = RelieveSettings(mode="act", start=100 * HOT)
REST = round(SETTINGS.cool_down_seconds / 3600)  # hours


class Outcome(NamedTuple):
    """Node-hours above ``HOT``, those after the hold that one migration could have removed, and moves.

    ``late`` are the moves after the first day, ``often`` instances that moved more than once a week.
    """

    hot: float
    removable: float
    moves: float
    late: float
    often: float


def judged(described: Cluster, later: Floats, worst: Floats, hours: Floats | None) -> Outcome:
    """Live through hours (instances by hours) with what is known of the week; without it nothing is moved.

    ``worst`` are the hours of the week as they will be.
    """
    capacity = np.array([node.t_cpu for node in described.nodes])
    nodes = {node.name: row for row, node in enumerate(described.nodes)}
    known = profiles(hours) if hours is not None else {}
    names, remedy = [row.name for row in described.instances], Relieve(SETTINGS)
    hot, removable, moved, before = 0, 0, list[tuple[int, str]](), np.zeros(len(nodes), np.bool_)
    for hour, cores in enumerate(later.T):
        places = [(nodes[row.pnode], nodes[row.snode or ""]) for row in described.instances]
        pnode, snode = np.array(places).T
        used = np.bincount(pnode, cores, len(nodes))
        now = used > HOT * capacity
        hot += int(now.sum())
        late = np.flatnonzero((now & before)[pnode])
        if len(late):
            sums = np.zeros((len(nodes), worst.shape[1]))
            np.add.at(sums, pnode, worst)
            leaves = used[pnode[late]] - cores[late] <= HOT * capacity[pnode[late]]
            highest = (sums[snode[late]] + worst[late]).max(axis=1)
            stays = highest < SETTINGS.stop / 100 * capacity[snode[late]]
            removable += len({*pnode[late][leaves & stays].tolist()})
        before = now
        if not known or not now.any():
            continue
        resting = tuple(name for when, name in moved if when > hour - REST)
        names_of_hot = tuple(node.name for node in described.nodes if now[nodes[node.name]])
        bounds = PlanBounds("default", room=Budget(10, 1 << 40), resting=resting, hot=names_of_hot)
        seen = replace(
            described,
            load_profiles=known,
            present_load=PresentLoad(dict(zip(names, cores.tolist(), strict=True)), {}, {}),
        )
        steps = remedy.plan(seen, bounds, lambda _text: None).proposal.found["steps"]
        moved += [(hour, step["instance"]) for step in steps]
        described = _moved(described, {step["instance"]: step["to"] for step in steps})
    often = {
        name for when, name in moved for again, other in moved if other == name and 0 < again - when < 168
    }
    return Outcome(hot, removable, len(moved), sum(when >= 24 for when, _ in moved), len(often))


def _moved(described: Cluster, places: Mapping[str, tuple[str, str]]) -> Cluster:
    """Return the cluster with instances on these nodes, primary first, and the memory that is free then."""
    rows = [
        replace(row, pnode=places[row.name][0], snode=places[row.name][1]) if row.name in places else row
        for row in described.instances
    ]
    used = {node.name: sum(row.mem for row in rows if row.pnode == node.name) for node in described.nodes}
    nodes = [replace(node, f_mem=int(node.t_mem - node.n_mem - used[node.name])) for node in described.nodes]
    return replace(described, nodes=tuple(nodes), instances=tuple(rows))


def learnt(figures: Floats) -> Floats:
    """Return the hours of the week as the daemon knows them: the newest week has half of the weight."""
    weeks = figures[:, : LEARNT * 24].reshape(len(figures), -1, HOURS)
    hours: Floats = np.average(weeks, axis=1, weights=[0.25, 0.25, 0.5])
    return hours


def outcomes(seed: int, nodes: int, use: Use) -> dict[str, Outcome]:
    """Live through the days after a plan by what is assigned."""
    state = derive(static(cluster(seed, nodes, use), use))
    after, _ = rebalance(state, np.ones(nodes, np.bool_), BalancingOptions())
    begin = _moved(after.to_cluster(), {})
    later = use.mean[:, LEARNT * 24 :]
    steady = np.repeat(use.mean.mean(axis=1, keepdims=True), later.shape[1], axis=1)
    worst = use.peak[:, LEARNT * 24 :][:, :HOURS]
    flat = steady[:, :HOURS]
    return {
        "without": judged(begin, later, worst, None),
        "[relieve]": judged(begin, later, worst, learnt(use.peak)),
        "hindsight": judged(begin, later, worst, worst),
        "[relieve], steady load": judged(begin, steady, flat, flat),
    }


class Row(NamedTuple):
    """Clusters of one size, with instances that are generated or drawn from the trace."""

    nodes: int
    of: Callable[[int, int], Use]
    seeds: int = 20

    @property
    def work(self) -> str:
        """What is measured."""
        return f"relieve {self.nodes} / {10 * self.nodes}, {self.of.__name__}"


ROWS = [Row(20, generated), Row(20, traced)]
FULL_ROWS = [Row(80, generated, 5), Row(80, traced, 5)]

TITLE = f"""Relief of hot nodes: {DAYS - LEARNT} days under [relieve], after {LEARNT} days of load.
Medians of some seeds. Hot: hours of nodes with more than {HOT:.0%}. Removable: those after the end of
the hold that one migration could have removed, to a node that stays below the stop in its real worst hour.
Removed: of those without [relieve], in all seeds. Often: instances that moved more than once a week.
Hindsight: the policy knows these hours.
Wanted of generated load: {REMOVED:.0%} removed; no moves after the first day under steady load."""
HEADER = ["work", "way", "hot", "removable", "removed", "moves", "after a day", "often", "reached"]
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
        before = sum(each["without"].removable for each in found)
        for way in found[0]:
            medians = Outcome(*np.median([each[way] for each in found], axis=0).tolist())
            removed = 1 - sum(each[way].removable for each in found) / max(1, before)
            reached = {"[relieve]": removed >= REMOVED, "[relieve], steady load": medians.late == 0}
            table.append(
                [
                    row.work,
                    way,
                    f"{medians.hot:.0f}",
                    f"{medians.removable:.0f}",
                    "" if way in ("without", "[relieve], steady load") else f"{removed:.0%}",
                    *(f"{figure:.0f}" for figure in medians[2:]),
                    verdict(reached[way]) if row.of is generated and way in reached else "",
                ]
            )
    return table
