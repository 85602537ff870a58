"""Effects of changed nodes on the score: on the sums behind its deviations, and on the rest."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.components import COUNT, LOST, table
from ganeti_htools.engine.rules.score import (
    NodeValues,
    changed_values,
    counted_nodes,
    distinct_spreads,
    effective_weights,
    node_counts,
    node_values,
)
from ganeti_htools.engine.rules.trial import NodeChange
from ganeti_htools.model.columns import Bools, Columns, Floats
from ganeti_htools.model.state import State


class Effect(NamedTuple):
    """The effect of a change of nodes: on sum and sum of squares of some spreads, and on the rest."""

    spreads: dict[int, tuple[Any, Any]]
    rest: Any


def added(effects: Iterable[Effect], spreads: int, moves: int) -> tuple[Floats, Floats]:
    """Add up effects: the changes of all sums, and of the sums of squares (spreads by moves)."""
    changes, squares = np.zeros((2, spreads, moves))
    for effect in effects:
        for group, (change, square) in effect.spreads.items():
            changes[group] += change
            squares[group] += square
    return changes, squares


class Totals(NamedTuple):
    """Statistics of each spread over its counted online nodes, about its centre.

    ``heights`` are the nodes' distances from the centre (spreads by nodes, 0 on nodes that do not count),
    ``sums`` and ``squares`` the sums of the distances and of their squares. ``rest`` is the weighted sum of
    all other components, ``values`` are those of all nodes.
    """

    numbers: Floats
    heights: Floats
    sums: Floats
    squares: Floats
    rest: float
    values: NodeValues


class ScoreParts:
    """The parts of the score: components that are the same are put together.

    ``weights`` are those of the spreads, ``numbers`` their counts of online nodes. ``centre`` is a value near
    the mean of each spread, so that sums of squares keep their precision.
    """

    def __init__(self, state: State, scope: Bools) -> None:
        self.state, self.rows, self._everywhere = state, np.flatnonzero(scope), bool(scope.all())
        columns = self.columns()
        values = node_values(columns)
        counted = counted_nodes(columns)
        self.table, counts = table(columns.shape), node_counts(columns, counted)
        self.every = effective_weights(self.table, counts)
        aggregates = self.table.aggregates
        weights = distinct_spreads(aggregates, self.every, values)
        self.leaders, self.weights = list(weights), np.array(list(weights.values()))
        self.numbers = np.array([counts[which] or 1.0 for which in self.leaders])
        self.sums = [which for which, aggregate in enumerate(aggregates) if aggregate in (COUNT, LOST)]
        online = ~columns.offline
        self.counted = None if counted is None else counted[self.leaders][:, online]
        some = [online if counted is None else online & counted[which] for which in self.leaders]
        pairs = zip(self.leaders, some, strict=True)
        self.centre = np.array([values[which][at if at.any() else slice(None)].mean() for which, at in pairs])

    def columns(self) -> Columns:
        """Return the present figures of the nodes in scope."""
        columns = self.state.columns
        return columns if self._everywhere else columns.take(self.rows)

    def totals(self) -> Totals:
        """Compute the present statistics of the nodes in scope."""
        columns = self.columns()
        values, offline = node_values(columns), columns.offline
        online: Any = ~offline if offline.any() else slice(None)
        spreads: Floats = np.stack([values[which] for which in self.leaders])[:, online]
        spreads -= self.centre[:, np.newaxis]
        if self.counted is not None:
            spreads *= self.counted
        aggregates = self.table.aggregates
        rest = sum(
            self.every[which] * float(values[which][offline if aggregates[which] is LOST else online].sum())
            for which in self.sums
        )
        squares = np.einsum("ij,ij->i", spreads, spreads)
        return Totals(self.numbers, spreads, spreads.sum(axis=1), squares, rest, values)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # nodes that report nothing
    def effect(
        self, touched: NodeChange, only: Collection[int] | None = None, before: dict[int, Any] | None = None
    ) -> Effect:
        """Compute the effect of a change of nodes, on all spreads unless ``only`` some are given.

        ``before`` keeps values of the old figures for other changes of the same nodes.
        """
        old, new, before = touched.old, touched.new, {} if before is None else before
        offline = old.offline
        number = np.count_nonzero(offline)
        some, every = number > 0, 0 < number == offline.size
        spreads: dict[int, tuple[Any, Any]] = {}
        rest: Any = 0.0
        for group in () if every else range(len(self.leaders)) if only is None else only:
            if (pair := changed_values(self.table, self.leaders[group], old, new, before)) is None:
                continue
            x, y = pair
            change = y - x
            square = change * (x + y - 2 * self.centre[group])
            if some:
                change, square = np.where(offline, 0.0, change), np.where(offline, 0.0, square)
            spreads[group] = change, square
        for which in self.sums:
            lost = self.table.aggregates[which] is LOST
            if every if not lost else not some:
                continue
            if (pair := changed_values(self.table, which, old, new, before)) is None:
                continue
            change = self.every[which] * (pair[1] - pair[0])
            rest = rest + (np.where(offline == lost, change, 0.0) if some else change)
        return Effect(spreads, rest)
