"""Bulk allocation of mirrored instances: pairs of nodes within each group."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import BulkSearch, InstanceNodes, parts
from ganeti_htools.engine.rules import affinity, node_rules, placements, settling
from ganeti_htools.engine.rules.components import COUNT, SPREAD, Aggregate, components
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import weighted
from ganeti_htools.engine.rules.trial import BLOCK
from ganeti_htools.model.columns import NOWHERE, SINGLE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

APART = -1  # the code of a node with itself
BOUNDED = 1 << 14  # where there are more kinds of pairs, bounds tell which ones to score
ROUNDING = 1e-13  # of a variance, as a share of the squares that it comes from
SPARE = 64  # rows and columns for kinds to come, besides as many as there are

# The components that change with the locations that a pair shares, and how.
SHARED = [each.name for each in components(SINGLE) if "location" in each.figures]
_UNKNOWN = [
    each.name
    for each in components(SINGLE)
    if each.name in SHARED and (each.figures != ("location",) or each.aggregate is not COUNT)
]
if _UNKNOWN:
    raise ValueError(f"bulk allocation does not know what shared locations do to {', '.join(_UNKNOWN)}")


class AsSecondary(NamedTuple):
    """Rows of a table that has a column for each outcome of a secondary.

    Why it must not come (one row), the changes of spreads, those of their squares, and the changes of counts
    (a row for each that a secondary changes).
    """

    codes: Any
    change: Floats
    squares: Floats
    counts: Floats


class PairSearch(BulkSearch):
    """Mirrored instances: pairs within each group, scored by two changes one after the other."""

    def __init__(self, state: State, asked: RequestedInstance, nodes: Ints) -> None:
        super().__init__(state, asked, nodes)
        self.spreads, self.counts = self._concerned(SPREAD), self._concerned(COUNT)
        groups = state.group[nodes]
        self.blocks = [_GroupPairs(self, np.flatnonzero(groups == group)) for group in sorted_unique(groups)]

    @property
    def candidates(self) -> int:
        return sum(len(block.nodes) * (len(block.nodes) - 1) for block in self.blocks)

    def best(self) -> InstanceNodes | None:
        """The best pair for the next instance, None without any."""
        found = [block.best() for block in self._rated(BOUNDED)]
        solutions = [solution for solution in found if solution is not None]
        if not solutions:
            return None
        lowest = np.fmin.reduce([score for score, _ in solutions])
        return max(nodes for score, nodes in solutions if score == lowest or np.isnan(lowest))

    def scores(self) -> list[Floats]:
        """The scores of the pairs of each group, primaries by secondaries; infinite where they do not fit."""
        return [block.of_pairs() for block in self._rated(np.inf)]

    def _rated(self, most: float) -> "list[_GroupPairs]":
        """The groups, whose pairs have been scored; of more than ``most`` kinds those that may be best."""
        _, *now = Deviation.of(self.now, self.looked)
        before = Deviation(*(each[:, np.newaxis] for each in (self.sizes, *now)))
        for block in self.blocks:
            block.rate(before, most)
        return self.blocks

    def settle(self, nodes: InstanceNodes) -> None:
        """Carry out a placement but for the list of instances."""
        (p, s), state = nodes, self.state
        primary, secondary = np.searchsorted(self.nodes, nodes)
        old, kept = state.columns.take([s]), placements.class_peers(state, p, s)
        new, _ = node_rules.add_secondary(old, self.asked, state.peers[p, s], peers=kept)
        self.write(primary)
        state.columns = state.columns.apart(new.aliases)
        state.columns.put(s, new)
        state.columns.location[p] += affinity.shared_locations(state, p, s)
        settling.reserve(state, self.asked, p, s)
        self.look(np.array([primary, secondary]))
        block = next(block for block in self.blocks if nodes.primary in block.nodes)
        block.change(np.searchsorted(block.nodes, nodes))

    def _concerned(self, aggregate: Aggregate) -> dict[int, int]:
        """Rows of the components that a secondary changes, numbered."""
        old = self.state.columns.take(self.nodes[:1])
        new, _ = node_rules.add_secondary(old, self.asked, 0)
        changes = {name for name, x, y in zip(old._fields, old, new, strict=True) if x is not y}
        rows: dict[int, int] = {}
        for row, component in zip(self.row_of, self.score_table.components, strict=True):
            concerned = changes.intersection(component.figures) or component.name in SHARED
            if component.aggregate is aggregate and concerned:
                rows.setdefault(row, len(rows))
        return rows

    def as_secondaries(self, p: Ints, candidates: Ints) -> Floats:
        """The table of candidates as secondaries for primaries (rows), see :class:`AsSecondary`."""
        state, s, rows = self.state, self.nodes[candidates], [*self.spreads, *self.counts]
        peers = placements.class_peers(state, p, s)
        new, codes = node_rules.add_secondary(
            state.columns.take(s), self.asked, state.peers[p, s], peers=peers
        )
        x, y = (
            self.now[rows][:, self.position[candidates]],
            self.values([self.which[row] for row in rows], new),
        )
        number = len(self.spreads)
        change, squares = y - x, y[:number] * y[:number] - x[:number] * x[:number]
        for row, at in self.counts.items():
            if self.score_table.components[self.which[row]].name in SHARED:
                change[number + at] += affinity.shared_locations(state, p, s)
        return np.concatenate((codes[np.newaxis], change[:number], squares, change[number:]))

    def different(self, primaries: Ints, secondary: int) -> tuple[Ints, Ints]:
        """Primaries that tell all outcomes of a secondary (rows), and for each primary which of them."""
        state, tables = self.state, [self.state.peers, *self.state.class_peers]
        amounts = [each[primaries, secondary] for each in tables[: None if any(self.asked.classes) else 1]]
        if state.location_rows:
            amounts.append(affinity.shared_locations(state, primaries, secondary))
        mixed = np.zeros(len(primaries), np.int64)
        for each in amounts:
            mixed = mixed * (int(each.max()) + 1) + each
            mixed = np.searchsorted(sorted_unique(mixed), mixed)
        first = np.empty(int(mixed.max()) + 1, np.int64)
        first[mixed] = primaries
        return first, mixed

    def failures(self) -> dict[Fail, int]:
        codes = [block.codes() for block in self.blocks]
        return self.tally(np.concatenate(codes) if codes else np.zeros(0))


class _GroupPairs:
    """The pairs of a group by kind, and the ``scores`` of the kinds; infinite where no pair fits.

    Nodes with one outcome as primary are a row, equal outcomes of secondaries a column. ``row`` has the row
    of each node as primary, ``column`` (secondaries by primaries) the column of each pair; column 0 is that
    of a node with itself. ``number`` (rows by columns) counts the pairs of each kind, ``used`` those of each
    column.
    """

    def __init__(self, search: PairSearch, at: Ints) -> None:
        self.search, self.at, self.nodes = search, at, search.nodes[at]
        self._build()

    def _build(self) -> None:
        """Find the kinds of all pairs."""
        self.row_kinds, self.column_kinds = dict[bytes, int](), {b"": 0}
        self.row, self.column = self._kinds(np.arange(len(self.at)))
        height, width = (2 * len(each) + SPARE for each in (self.row_kinds, self.column_kinds))
        spreads, counts = len(self.search.spreads), len(self.search.counts)
        sizes = (1, spreads, spreads, counts)
        self.table = np.zeros((sum(sizes), width))
        self.second = AsSecondary(*parts(self.table, sizes))
        self.table[0, 0] = APART
        self._tabulate(1)
        self.number = np.zeros((height, width), np.int64)
        np.add.at(self.number, (self.row, self.column), 1)
        self.used = self.number.sum(axis=0)

    def _kinds(self, positions: Ints) -> tuple[Ints, Ints]:
        """The rows of nodes, and their columns as secondaries of all others."""
        search, rows, columns = self.search, self.row_kinds, self.column_kinds
        tables = search.table[:, self.at[positions]].T
        row = np.array([rows.setdefault(each.tobytes(), len(rows)) for each in tables])
        found = [search.different(self.nodes, node) for node in self.nodes[positions].tolist()]
        firsts = [first for first, _ in found]
        secondaries = np.repeat(self.at[positions], list(map(len, firsts)))
        table = search.as_secondaries(np.concatenate(firsts), secondaries).T
        labels = np.array([columns.setdefault(each.tobytes(), len(columns)) for each in table])
        ends = np.cumsum(list(map(len, firsts)))[:-1]
        column = np.array([some[back] for some, (_, back) in zip(np.split(labels, ends), found, strict=True)])
        column[np.arange(len(positions)), positions] = 0
        return row, column

    def _tabulate(self, first: int) -> None:
        """Write the columns from the first new one on into the table."""
        for at, column in enumerate(islice(self.column_kinds, first, None), first):
            self.table[:, at] = np.frombuffer(column)

    def change(self, positions: Ints) -> None:
        """Update the pairs of some nodes, which have changed."""
        known = len(self.column_kinds)
        rows, columns = self._kinds(positions)
        if len(self.row_kinds) > len(self.number) or len(self.column_kinds) > self.number.shape[1]:
            return self._build()
        self._tabulate(known)
        for at, row, column in zip(positions, rows, columns, strict=True):
            self._count(at, -1)
            self.row[at], self.column[at] = row, column
            self._count(at, 1)
        return None

    def _count(self, at: int, sign: int) -> None:
        """Count the pairs of a node."""
        np.add.at(self.number[self.row[at]], self.column[:, at], sign)
        np.add.at(self.number, (self.row, self.column[at]), sign)
        np.add.at(self.used, self.column[at], sign)

    def samples(self) -> Ints:
        """A candidate of each row, NOWHERE without any."""
        found = np.full(len(self.number), NOWHERE)
        found[self.row] = self.at
        return found

    def codes(self) -> Floats:
        """For each pair, why it does not do."""
        samples = self.samples()
        rows = np.flatnonzero(samples != NOWHERE)
        primary = self.search.codes[samples[rows], np.newaxis]
        codes = np.where(primary != FITS, primary, self.second.codes[0])
        apart = self.number[rows, 1:]
        return np.asarray(np.repeat(codes[:, 1:].ravel(), apart.ravel()))

    def rate(self, before: Deviation, most: float) -> None:
        """Score the kinds of pairs that fit, given the present statistics; see :meth:`PairSearch._rated`."""
        search, samples = self.search, self.samples()
        rows = np.flatnonzero(samples != NOWHERE)
        rows = rows[search.codes[samples[rows]] == FITS]
        columns = np.flatnonzero((self.second.codes[0] == FITS) & (self.used > 0))
        primary, at = search.primary, samples[rows]
        _, sums, variances = before.after(primary.change[:, at], primary.squares[:, at])
        variances = np.fmax(variances, 0.0)  # 0 if it is no number, as with Ganeti's htools
        if len(rows) * len(columns) > most:
            some, others = self._promising(before, sums, variances, rows, columns)
            rows, columns, sums, variances = rows[some], columns[others], sums[:, some], variances[:, some]
        fits = self.number[rows[:, np.newaxis], columns] > 0
        there = fits.any(axis=0)
        self.rows, self.columns, self.fits = rows, columns[there], fits[:, there]
        self.scores = self._scores(sums, variances, self.columns, self.fits)

    def _promising(
        self, before: Deviation, sums: Floats, variances: Floats, rows: Ints, columns: Ints
    ) -> tuple[Bools, Bools]:
        """Mark the rows and columns of kinds that may be the best, given the statistics with each primary.

        With both nodes, a spread has the variance with the primary alone, plus a part of the secondary, less
        2 a b / n^2: a and b are what each adds to the sum of the n values. The last part is small and has a
        known range. The deviation is a concave function of the variance. So it is not below the chord over
        the range of variances, which is linear: a part of the primary plus a part of the secondary.
        """
        some = list(self.search.spreads)
        change, squares, counts = (part[:, columns] for part in self.second[1:])
        n, total, first = before.number[some], before.sum[some], variances[some]
        second = (squares - change * (2 * total + change) / n) / n
        (least, most), (lower, higher) = (
            (each.min(axis=1, keepdims=True), each.max(axis=1, keepdims=True)) for each in (first, second)
        )
        mixed = np.abs(sums[some] - total).max(axis=1) * np.abs(change).max(axis=1)
        scale = (total / n) ** 2 + most + np.fmax(-lower, higher)
        off = 2 * mixed[:, np.newaxis] / n**2 + ROUNDING * scale
        low, high = np.fmax(least + lower - off, 0.0), most + higher + off
        slopes = 1 / np.maximum(np.sqrt(low) + np.sqrt(high), 1e-300)  # finite for spreads that stay 0
        first, second = np.sqrt(low) + slopes * (first - low - off), slopes * second
        nothing = np.zeros((len(sums), 1))
        primaries = self._weighted(first, np.sqrt(variances), sums, nothing)
        secondaries = self._weighted(second, nothing, nothing, counts) - self._weighted(*4 * (nothing,))
        best = np.argmin(primaries, keepdims=True)
        fits = self.number[rows[best], columns][np.newaxis] > 0
        limit = self._scores(sums[:, best], variances[:, best], columns, fits).min()
        limit += 1e-9 * max(1.0, abs(limit))
        return ~(primaries + secondaries.min() > limit), ~(secondaries + primaries.min() > limit)

    def _scores(self, sums: Floats, variances: Floats, columns: Ints, fits: Bools) -> Floats:
        """The scores of kinds, given the statistics with each primary; infinite where they do not fit."""
        change, squares, counts = (part[:, np.newaxis, columns] for part in self.second[1:])
        some, (height, width) = list(self.search.spreads), fits.shape
        sizes, scores = self.search.sizes[some, np.newaxis, np.newaxis], np.empty(fits.shape)
        rows = max(1, BLOCK // max(1, width))
        for start in range(0, height, rows):
            part = slice(start, start + rows)
            first, spread = sums[:, part, np.newaxis], variances[:, part, np.newaxis]
            both = Deviation(sizes, first[some], spread[some]).after(change, squares).variance
            both = np.sqrt(np.fmax(both, 0.0, out=both), out=both)
            values = self._weighted(both, np.sqrt(spread), first, counts)
            scores[part] = np.where(fits[part], values, np.inf)
        return scores

    def of_pairs(self) -> Floats:
        """The scores of all pairs, primaries by secondaries; infinite where they do not fit."""
        scores = np.full(self.number.shape, np.inf)
        scores[self.rows[:, np.newaxis], self.columns] = self.scores
        return np.asarray(scores[self.row[:, np.newaxis], self.column.T])

    def best(self) -> tuple[float, InstanceNodes] | None:
        """The best pair and its score."""
        if not self.scores.size:
            return None
        lowest = self.scores.min()
        # If it is no number, Ganeti's htools take the last primary, and its first secondary.
        unrated = bool(np.isnan(lowest))
        there = self.fits if unrated else self.fits & (self.scores == lowest)
        at = np.full(len(self.number), NOWHERE)
        at[self.rows[there.any(axis=1)]] = np.flatnonzero(there.any(axis=1))
        for primary in np.flatnonzero(at[self.row] != NOWHERE)[::-1].tolist():
            good = np.zeros(self.number.shape[1], np.bool_)
            good[self.columns[there[at[self.row[primary]]]]] = True
            secondaries = np.flatnonzero(good[self.column[:, primary]])
            if len(secondaries):
                secondary = secondaries[0 if unrated else -1]
                return float(lowest), InstanceNodes(int(self.nodes[primary]), int(self.nodes[secondary]))
        return None

    def _weighted(self, both: Floats, one: Floats, sums: Floats, counts: Floats) -> Any:
        """The weighted sum of all components.

        ``both`` are spreads that both nodes change, ``one`` other spreads with the primary. ``sums`` are
        counts with the primary, ``counts`` what the secondary adds.
        """
        search = self.search

        def values() -> Iterator[Any]:
            for row, steady, aggregate in zip(
                search.row_of, search.steady, search.score_table.aggregates, strict=True
            ):
                if aggregate is SPREAD:
                    yield both[search.spreads[row]] if row in search.spreads else one[row]
                elif aggregate is COUNT:
                    yield sums[row] + counts[search.counts[row]] if row in search.counts else sums[row]
                else:
                    yield steady

        return weighted(search.weights, values(), np.broadcast_shapes(one.shape[1:], counts.shape[1:]))
