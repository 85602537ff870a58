"""Bulk allocation of mirrored instances: pairs of nodes within each group."""

from collections.abc import Iterator, Sequence
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
        """The number of candidates."""
        return sum(len(block.nodes) * (len(block.nodes) - 1) for block in self.blocks)

    def best(self) -> InstanceNodes | None:
        """The best pair for the next instance, None without any."""
        found = [block.best() for block in self._rated()]
        solutions = [solution for solution in found if solution is not None]
        if not solutions:
            return None
        lowest = np.fmin.reduce([score for score, _ in solutions])
        return max(nodes for score, nodes in solutions if score == lowest or np.isnan(lowest))

    def scores(self) -> list[Floats]:
        """The scores of the pairs of each group, primaries by secondaries; infinite where they do not fit."""
        return [block.of_pairs() for block in self._rated()]

    def _rated(self) -> "list[_GroupPairs]":
        """The groups, whose pairs have been scored."""
        _, *now = Deviation.of(self.now, self.looked)
        before = Deviation(*(each[:, np.newaxis] for each in (self.sizes, *now)))
        for block in self.blocks:
            block.rate(before)
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
        """Count the pairs that each reason rules out."""
        codes = [block.codes() for block in self.blocks]
        return self.tally(np.concatenate(codes) if codes else np.zeros(0))


class _GroupPairs:
    """The pairs of a group by kind, and the ``scores`` of the kinds; infinite where no pair fits.

    Nodes with one outcome as primary are a row, equal outcomes of secondaries a column. ``row`` has the row
    of each node as primary, ``column`` (secondaries by primaries) the column of each pair; column 0 is that
    of a node with itself. ``number`` (rows by columns) counts the pairs of each kind.
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

    def rate(self, before: Deviation) -> None:
        """Score the kinds of pairs that fit, given the present statistics."""
        search, samples = self.search, self.samples()
        rows = np.flatnonzero(samples != NOWHERE)
        rows = rows[search.codes[samples[rows]] == FITS]
        there = self.number[rows] > 0
        columns = np.flatnonzero((self.second.codes[0] == FITS) & there.any(axis=0))
        there, primary, at = there[:, columns], search.primary, samples[rows]
        _, sums, variances = before.after(primary.change[:, at], primary.squares[:, at])
        variances = np.fmax(variances, 0.0)  # 0 if it is no number, as with Ganeti's htools
        secondary = [part[:, columns] for part in self.second[1:]]
        self.rows, self.columns, self.fits = rows, columns, there
        self.scores = self._scores(sums, variances, secondary, there)

    def _scores(self, sums: Floats, variances: Floats, secondary: Sequence[Floats], fits: Bools) -> Floats:
        """The scores of kinds, given the statistics with each primary; infinite where they do not fit."""
        change, squares, counts = (part[:, np.newaxis] for part in secondary)
        scores, rows = np.empty(fits.shape), max(1, BLOCK // max(1, fits.shape[1]))
        for start in range(0, len(fits), rows):
            part, some = slice(start, start + rows), fits[start : start + rows]
            first, spread = sums[:, part, np.newaxis], variances[:, part, np.newaxis]
            values = self._components(first, spread, change, squares, counts)
            scores[part] = np.where(some, weighted(self.search.weights, values, some.shape), np.inf)
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
        good = np.zeros(self.number.shape, np.bool_)
        good[self.rows[:, np.newaxis], self.columns] = there
        for primary in np.flatnonzero(np.any(good, axis=1, keepdims=True)[self.row])[::-1].tolist():
            secondaries = np.flatnonzero(good[self.row[primary], self.column[:, primary]])
            if len(secondaries):
                secondary = secondaries[0 if unrated else -1]
                return float(lowest), InstanceNodes(int(self.nodes[primary]), int(self.nodes[secondary]))
        return None

    def _components(
        self, sums: Floats, variances: Floats, change: Floats, squares: Floats, counts: Floats
    ) -> Iterator[Any]:
        """The value of each component for kinds, given the statistics with each primary."""
        search = self.search
        some = list(search.spreads)
        sizes = search.sizes[some][:, np.newaxis, np.newaxis]
        both = Deviation(sizes, sums[some], variances[some]).after(change, squares).variance
        both = np.sqrt(np.fmax(both, 0.0, out=both), out=both)
        one = np.sqrt(variances)
        for which, (component, row) in enumerate(
            zip(search.score_table.components, search.row_of, strict=True)
        ):
            aggregate = component.aggregate
            if aggregate is SPREAD:
                yield both[search.spreads[row]] if row in search.spreads else one[row]
            elif aggregate is COUNT:
                count = sums[row]
                if row in search.counts:
                    count = count + counts[search.counts[row]]
                yield count
            else:
                yield search.steady[which]
