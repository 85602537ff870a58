"""What changes of nodes do to the score: to the sums behind its deviations, and to all else."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.components import AGGREGATES, COUNT, LOST, SPREAD, WEIGHTS
from ganeti_htools.engine.rules.score import changed, node_values
from ganeti_htools.engine.rules.trial import NodeChange
from ganeti_htools.model.columns import Bools, Floats
from ganeti_htools.model.state import State


class Effect(NamedTuple):
    """What a change of nodes does: to sum and sum of squares of some spreads, and to all else."""

    spreads: dict[int, tuple[Any, Any]]
    rest: Any


def added(effects: Iterable[Effect], spreads: int, moves: int) -> tuple[Floats, Floats]:
    """The changes of all sums, and of sums of squares (spreads by moves)."""
    changes, squares = np.zeros((2, spreads, moves))
    for effect in effects:
        for group, (change, square) in effect.spreads.items():
            changes[group] += change
            squares[group] += square
    return changes, squares


class Totals(NamedTuple):
    """Count of online nodes, how far they are from the centre (spreads by nodes), sums of that and of its
    squares, the weighted sum of all that is no spread, and the values of all nodes.
    """

    number: float
    heights: Floats
    sums: Floats
    squares: Floats
    rest: float
    values: list[Any]


class ScoreParts:
    """How nodes count in the score: components that are the same thing put together.

    ``weights`` are those of the spreads, ``centre`` a value near the mean of each, so that sums of
    squares keep their precision.
    """

    def __init__(self, state: State, scope: Bools) -> None:
        self.state, self.rows = state, np.flatnonzero(scope)
        values = self.values()
        groups: dict[int, list[int]] = {}
        for which, aggregate in enumerate(AGGREGATES):
            if aggregate is SPREAD:
                groups.setdefault(id(values[which]), []).append(which)
        self.leaders = [members[0] for members in groups.values()]
        self.weights = np.array([sum(WEIGHTS[which] for which in each) for each in groups.values()])
        self.sums = [which for which, aggregate in enumerate(AGGREGATES) if aggregate in (COUNT, LOST)]
        online = ~state.columns.offline[self.rows]
        some = online if online.any() else slice(None)
        self.centre = np.array([values[which][some].mean() for which in self.leaders])

    def values(self) -> list[Any]:
        """The values of the nodes in scope now."""
        return node_values(self.state.columns.take(self.rows))

    def totals(self) -> Totals:
        """The statistics of the nodes in scope now."""
        values, offline = self.values(), self.state.columns.offline[self.rows]
        spreads: Floats = np.stack([values[which] for which in self.leaders])[:, ~offline]
        spreads -= self.centre[:, np.newaxis]
        rest = sum(
            WEIGHTS[which] * float(values[which][offline if AGGREGATES[which] is LOST else ~offline].sum())
            for which in self.sums
        )
        squares = np.einsum("ij,ij->i", spreads, spreads)
        return Totals(float(spreads.shape[1]), spreads, spreads.sum(axis=1), squares, rest, values)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # nodes that report nothing
    def effect(self, touched: NodeChange) -> Effect:
        """What the change of some nodes does."""
        old, new = touched.old, touched.new
        offline = old.offline
        some, every = bool(offline.any()), bool(offline.all())
        spreads: dict[int, tuple[Any, Any]] = {}
        rest: Any = 0.0
        for group, leader in enumerate(self.leaders):
            if every or (pair := changed(leader, old, new)) is None:
                continue
            x, y = pair
            change = y - x
            square = change * (x + y - 2 * self.centre[group])
            if some:
                change, square = np.where(offline, 0.0, change), np.where(offline, 0.0, square)
            spreads[group] = change, square
        for which in self.sums:
            if (pair := changed(which, old, new)) is not None:
                change = WEIGHTS[which] * (pair[1] - pair[0])
                if AGGREGATES[which] is LOST:
                    rest = rest + np.where(offline, change, 0.0) if some else rest
                elif not every:
                    rest = rest + (np.where(offline, 0.0, change) if some else change)
        return Effect(spreads, rest)
