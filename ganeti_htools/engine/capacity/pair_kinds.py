"""Pairs of nodes that are equal candidates, counted by kind.

Nodes with one outcome as primary are a row, outcomes of secondaries that are equal a column. On an empty
cluster a few rows and columns stand for all pairs. A placement changes two nodes, hence the pairs of these.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import NodeOutcome, parts
from ganeti_htools.engine.capacity.pair_amounts import PairAmounts
from ganeti_htools.model.columns import NOWHERE, Floats, Ints, sorted_unique

SPARE = 64  # rows and columns for kinds to come, besides as many as there are
APART = -1  # the code of a node with itself


class AsSecondary(NamedTuple):
    """Rows of a table that has a column for each outcome of a secondary.

    Why it must not come (one row), the changes of spreads, those of their squares, and the changes of counts
    (a row for each that a secondary changes).
    """

    codes: Any
    change: Floats
    squares: Floats
    counts: Floats


class PairKinds:
    """The pairs of a group by kind.

    * ``row`` has the row of each node as primary, ``column`` (secondaries by primaries) the column of each
      pair; column 0 is that of a node with itself.
    * ``number`` (rows by columns) counts the pairs of each kind.
    * ``second`` are the outcomes of each column; ``sizes`` are the numbers of rows in its parts.
    * ``outcomes`` finds the outcomes of candidates, with those as secondary at some numbers of ``amounts``.
    """

    def __init__(
        self,
        at: Ints,
        nodes: Ints,
        amounts: PairAmounts,
        outcomes: Callable[[Mapping[int, Collection[int]]], list[NodeOutcome]],
        sizes: Sequence[int],
    ) -> None:
        self.at, self.nodes, self.amounts, self.outcomes, self.sizes = at, nodes, amounts, outcomes, sizes
        self._build()

    def _build(self) -> None:
        """Find the kinds of all pairs."""
        found = self.outcomes(dict.fromkeys(self.at.tolist(), ()))
        self.rows: dict[NodeOutcome, int] = {}
        self.row = np.array([self.rows.setdefault(outcome, len(self.rows)) for outcome in found])
        alike = [np.flatnonzero(self.row == row) for row in range(len(self.rows))]
        numbers = self.amounts.numbers[np.ix_(self.nodes, self.nodes)].T
        met = [sorted_unique(numbers[some].ravel()).tolist() for some in alike]
        self.outcomes(dict(zip([int(self.at[some[0]]) for some in alike], met, strict=True)))
        height = 2 * len(self.rows) + SPARE
        self.known = np.full((height, 2 * len(self.amounts.known) + SPARE), NOWHERE)
        itself = np.zeros(sum(self.sizes))
        itself[0] = APART
        self.columns = {itself.tobytes(): 0}
        self.column = np.empty(numbers.shape, np.int64)
        for row, (outcome, some) in enumerate(zip(self.rows, alike, strict=True)):
            self._learn(row, outcome, met[row])
            self.column[some] = self.known[row][numbers[some]]
        np.fill_diagonal(self.column, 0)
        width = 2 * len(self.columns) + SPARE
        self.number = np.zeros((height, width), np.int64)
        for row, some in enumerate(alike):
            self.number[row] = np.bincount(self.column[:, some].ravel(), minlength=width)
        self.table = np.zeros((len(itself), width))
        self.second = AsSecondary(*parts(self.table, self.sizes))
        self._tabulate(0)

    def _learn(self, row: int, outcome: NodeOutcome, numbers: Sequence[int]) -> None:
        """Find the columns of a row's nodes as secondary at these numbers."""
        for number in numbers:
            column = outcome.secondary[self.amounts.known[number]].column.tobytes()
            self.known[row, number] = self.columns.setdefault(column, len(self.columns))

    def _tabulate(self, first: int) -> None:
        """Write the columns from the first new one on into the table."""
        for at, column in enumerate(islice(self.columns, first, None), first):
            self.table[:, at] = np.frombuffer(column)

    def samples(self) -> Ints:
        """A candidate of each row, NOWHERE without any."""
        found = np.full(len(self.number), NOWHERE)
        found[self.row] = self.at
        return found

    def change(self, positions: Sequence[int]) -> None:
        """Update the pairs of some nodes, which have changed."""
        found = self.outcomes({int(self.at[position]): () for position in positions})
        rows = [self.rows.setdefault(outcome, len(self.rows)) for outcome in found]
        if len(self.rows) > len(self.known) or len(self.amounts.known) > self.known.shape[1]:
            return self._build()
        numbers = [self.amounts.numbers[self.nodes, self.nodes[position]] for position in positions]
        unknown = [some[self.known[row, some] == NOWHERE] for row, some in zip(rows, numbers, strict=True)]
        if any(map(len, unknown)):
            first, met = len(self.columns), [sorted_unique(some).tolist() for some in unknown]
            self.outcomes(dict(zip(self.at[positions].tolist(), met, strict=True)))
            for row, outcome, some in zip(rows, found, met, strict=True):
                self._learn(row, outcome, some)
            if len(self.columns) > self.table.shape[1]:
                return self._build()
            self._tabulate(first)
        for position, row, some in zip(positions, rows, numbers, strict=True):
            self._move(position, row, self.known[row, some])
        return None

    def _move(self, position: int, row: int, new: Ints) -> None:
        """Give a node another row, and its pairs as secondary other columns."""
        new[position] = 0
        as_primary = np.bincount(self.column[:, position], minlength=self.number.shape[1])
        self.number[self.row[position]] -= as_primary
        self.number[row] += as_primary
        self.row[position] = row
        for columns, sign in ((self.column[position], -1), (new, 1)):
            np.add.at(self.number, (self.row, columns), sign)
        self.column[position] = new
