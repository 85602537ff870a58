"""What nodes have left as instances come to them, and how well they are balanced.

All in plain Python, which is faster than arrays while the nodes in question are few.
"""

from math import sqrt

import numpy as np

from ganeti_htools.engine.redundancy.arrivals import Arrival, Score, spreads_of
from ganeti_htools.engine.rules.components import AGGREGATES, INDEX, WEIGHTS
from ganeti_htools.engine.rules.score import distinct_spreads, node_values
from ganeti_htools.model.columns import Bools, Floats
from ganeti_htools.model.state import State

# From so many candidates on, their scores are computed in arrays.
MANY = 40


class Balance:
    """The sums and variances of the components that are spreads, and what changed values make of them."""

    def __init__(self, values: list[list[float]], counted: Bools) -> None:
        self.counted = counted
        self.number = number = float(np.count_nonzero(counted))
        if number:
            table = np.array(values)[counted]
            sums = table.sum(axis=0)
            table -= sums / number
            self.sums: list[float] = sums.tolist()
            self.variances: list[float] = ((table * table).sum(axis=0) / number).tolist()
            # A value x that becomes x + d adds d * (each * x - all * sum + bend * d) to the variance.
            self.each, self.all = 2 / number, 2 / (number * number)
            self.bend = (number - 1) / (number * number)

    def copy(self) -> "Balance":
        """One of its own to be changed."""
        copy = object.__new__(Balance)
        copy.__dict__.update(self.__dict__)
        return copy

    def change(self, values: list[float], changes: list[float]) -> None:
        """The values of a node change, in place."""
        each, every, bend = self.each, self.all, self.bend
        self.variances = [
            max(0.0, variance + d * (each * x - every * total + bend * d))
            for variance, total, x, d in zip(self.variances, self.sums, values, changes, strict=True)
        ]
        self.sums = [total + d for total, d in zip(self.sums, changes, strict=True)]

    def deviations(self, weights: tuple[float, ...], values: list[float], changes: list[float]) -> float:
        """The weighted standard deviations after the values of a node have changed."""
        each, every, bend = self.each, self.all, self.bend
        score = 0.0
        for weight, variance, total, x, d in zip(
            weights, self.variances, self.sums, values, changes, strict=True
        ):
            variance += d * (each * x - every * total + bend * d)
            if variance > 0.0:
                score += weight * sqrt(variance)
        return score

    def many_deviations(self, weights: tuple[float, ...], values: Floats, changes: Floats) -> list[float]:
        """The deviations for many nodes (rows), each by itself."""
        slopes = self.each * values - self.all * np.array(self.sums)
        variances = np.maximum(np.array(self.variances) + changes * (slopes + self.bend * changes), 0.0)
        scores: list[float] = (np.sqrt(variances) @ np.array(weights)).tolist()
        return scores


class Nodes:
    """What the nodes have left, and what their score is made of: plain numbers, by row of the node."""

    def __init__(self, state: State, exclusive: bool) -> None:
        columns = state.columns
        self.mem: list[int] = columns.unallocated.tolist()
        self.disk: list[int] = columns.f_dsk.tolist()
        self.spindles: list[int] = columns.f_spindles.tolist() if exclusive else []
        self.number: list[int] = (columns.primaries + columns.secondaries).tolist()
        base, online = node_values(columns), ~columns.offline
        self.failing: list[int] = base[INDEX["n1_cnt"]].tolist()
        weights = distinct_spreads(AGGREGATES, WEIGHTS, base)
        self.score = Score(tuple(weights), tuple(weights.values()))
        spreads = spreads_of(self.score, base, online)
        self.rated = bool(np.isfinite(spreads).all())
        self.values: list[list[float]] = spreads.tolist()
        self.table = spreads if len(online) >= MANY else None  # the values, where arrays are faster
        self.balance: Balance | None = None

    def copy(self) -> "Nodes":
        """Nodes of its own to be changed; values of a node are replaced, never changed."""
        copy = object.__new__(Nodes)
        copy.__dict__.update(self.__dict__)
        copy.mem, copy.disk, copy.spindles = self.mem.copy(), self.disk.copy(), self.spindles.copy()
        copy.number, copy.failing = self.number.copy(), self.failing.copy()
        copy.values = self.values.copy()
        copy.table = None if self.table is None else self.table.copy()
        copy.balance = None if self.balance is None else self.balance.copy()
        return copy

    def balanced(self, counted: Bools) -> Balance:
        """The balance of some nodes."""
        known = self.balance
        if known is None or not (known.counted is counted or np.array_equal(known.counted, counted)):
            known = self.balance = Balance(self.values, counted)
        return known

    def change(self, node: int, changes: list[float]) -> None:
        """The values of a node change."""
        values = self.values[node]
        if self.balance is not None and self.balance.number and self.balance.counted[node]:
            self.balance.change(values, changes)
        self.values[node] = [value + change for value, change in zip(values, changes, strict=True)]
        if self.table is not None:
            self.table[node] = self.values[node]

    def deviations(self, balance: Balance, arrival: Arrival, places: list[int]) -> list[float]:
        """The weighted standard deviations with an instance on each of some nodes."""
        weights = self.score.weights
        if self.table is None or len(places) < MANY:
            return [balance.deviations(weights, self.values[at], arrival.spreads[at]) for at in places]
        return balance.many_deviations(weights, self.table[places], arrival.table[places])
