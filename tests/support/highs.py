"""The least value of a convex score over places, by HiGHS (``highspy``), which proves its optimum.

Deviations become variables above tangent planes. Planes are added where the solution lies below the
deviation, until it hardly does; the optimum of each round is a lower bound.
"""

from typing import Any

import highspy
import numpy as np

from bench.score_bound import PlaceCosts
from ganeti_htools.engine.balancing.linear_score import PRIMARY, SECONDARY, LinearScore
from ganeti_htools.model.columns import NOWHERE

MEMORY = 1024.0  # MiB in the unit of the model, in which numbers are of one size


def least_value(score: LinearScore, costs: PlaceCosts, budget: float, close: float = 1e-4) -> float:
    """Compute a lower bound, within ``close``, of the least value of mixtures of places within a budget."""
    model, inf = highspy.Highs(), highspy.kHighsInf
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)  # in one process HiGHS always runs with as many threads as at first
    size, places = len(score.nodes), _places(score, costs)
    who, p, s = places.T
    mirrored, spreads = s != NOWHERE, score.spreads
    cost = costs.parts[PRIMARY, who, p] + np.where(mirrored, costs.parts[SECONDARY, who, s], 0.0)
    home = mirrored & (p == score.pnode[who]) & (s == score.snode[who])
    cost -= np.where(home, costs.detour[who], 0.0)
    linear = score.rest_effects[PRIMARY, who, p] + np.where(
        mirrored, score.rest_effects[SECONDARY, who, s], 0.0
    )
    linear += np.where(mirrored, score.together[p, s], 0.0)
    added = [
        spread.effects[PRIMARY, who, p][:, np.newaxis] * (p[:, np.newaxis] == np.arange(size))
        + (mirrored * spread.effects[SECONDARY, who, s])[:, np.newaxis]
        * (s[:, np.newaxis] == np.arange(size))
        for spread in spreads
    ]
    first, number = len(places), len(places) + len(spreads) + size  # places, deviations, memory of nodes
    upper = np.concatenate([np.ones(first), np.full(number - first, inf)])
    model.addVars(number, np.zeros(number), upper)
    weights = [spread.weight for spread in spreads]
    model.changeColsCost(
        number, _ints(range(number)), np.concatenate([linear, weights, MEMORY * score.per_mib])
    )
    for which in range(len(score.rows)):
        _row(model, 1.0, 1.0, np.flatnonzero(who == which), 1.0)
    for node in range(size):
        for peer in range(size):
            some = np.flatnonzero((p == peer) & (s == node))
            columns = np.append(some, first + len(spreads) + node)
            memory = np.append(-score.memory[who[some]] / MEMORY, 1.0)
            _row(model, score.kept[peer, node] / MEMORY, inf, columns, memory)
    if np.isfinite(budget):
        _row(model, -inf, budget / MEMORY, np.arange(first), cost / MEMORY)
    while True:
        model.run()
        found, least = np.array(model.getSolution().col_value), model.getInfo().objective_function_value
        missing = 0.0
        for which, (spread, effects) in enumerate(zip(spreads, added, strict=True)):
            values = np.where(spread.counted, spread.values + found[:first] @ effects, 0.0)
            distances = np.where(spread.counted, values - values[spread.counted].mean(), 0.0)
            deviation = np.sqrt((distances**2).sum() / spread.counted.sum())
            if deviation > found[first + which] + 1e-7:
                missing += spread.weight * (deviation - found[first + which])
                slope = distances / (deviation * spread.counted.sum())
                columns = np.append(np.arange(first), first + which)
                _row(model, float(slope @ spread.values), inf, columns, np.append(-effects @ slope, 1.0))
        if missing < close:
            return float(least + score.rest)


def _places(score: LinearScore, costs: PlaceCosts) -> Any:
    """List all places: instances, primaries and secondaries."""
    nodes = range(len(score.nodes))
    return np.array(
        [
            (which, primary, secondary)
            for which, home in enumerate(score.snode.tolist())
            for primary in nodes
            for secondary in (nodes if home != NOWHERE else [NOWHERE])
            if primary != secondary and costs.reach[PRIMARY, which, primary]
            if secondary == NOWHERE or costs.reach[SECONDARY, which, secondary]
        ]
    )


def _ints(values: Any) -> Any:
    return np.array(values, np.int32)


def _row(model: Any, low: float, high: float, columns: Any, values: Any) -> None:
    values = np.broadcast_to(values, columns.shape)
    kept = values != 0
    model.addRow(low, high, int(kept.sum()), _ints(columns[kept]), values[kept].astype(np.float64))
