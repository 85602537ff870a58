"""Bulk allocation of mirrored instances: pairs of nodes within each group."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import (
    LOCATION,
    BulkSearch,
    Key,
    Nodes,
    changes_of,
    replaced,
)
from ganeti_htools.engine.rules import affinity, node_rules
from ganeti_htools.engine.rules.components import (
    AGGREGATES,
    COMPONENTS,
    COUNT,
    SPREAD,
    WEIGHTS,
    Aggregate,
)
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import FIGURES, Floats, Ints, sorted_unique
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import Fail

# Amounts of memory kept free for a primary that are so few are found out about all at once.
USUAL = 16


class PairSearch(BulkSearch):
    """Mirrored instances: pairs within each group, scored by two changes one after the other."""

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        super().__init__(state, asked, nodes)
        self.spreads, self.counts = self._concerned(SPREAD), self._concerned(COUNT)
        groups = state.group[nodes]
        self.blocks = [_GroupPairs(self, np.flatnonzero(groups == group)) for group in sorted_unique(groups)]

    def best(self) -> Nodes | None:
        """Where the next instance goes, if anywhere."""
        sums, variances = self.statistics()
        _, change, squares = self.later
        column = sums[:, np.newaxis], variances[:, np.newaxis]
        sums, variances = replaced(*column, self.size, change, squares)
        variances = np.fmax(variances, 0.0)  # 0 if it is no number, as with Ganeti's htools
        found = [block.best(sums[:, block.at], variances[:, block.at]) for block in self.blocks]
        solutions = [solution for solution in found if solution is not None]
        if not solutions:
            return None
        lowest = np.fmin.reduce([score for score, _ in solutions])
        return max(nodes for score, nodes in solutions if score == lowest or np.isnan(lowest))

    def settle(self, nodes: Nodes) -> None:
        """Carry out a placement but for the list of instances."""
        primary, secondary = (int(at) for at in np.searchsorted(self.nodes, nodes))
        block = next(block for block in self.blocks if primary in block.at)
        self.write(nodes.primary, self.outcomes[primary].primary)
        self.write(nodes.secondary, self.outcomes[secondary].secondary[int(self.state.peers[nodes])])
        if block.shared is not None:
            shared = affinity.shared_locations(self.state, *nodes)
            self.state.columns.location[nodes.primary] += shared
            self.steady[LOCATION] += shared
        self.state.peers[nodes] += self.asked.secondary_mem
        block.look([primary, secondary])

    def _concerned(self, aggregate: Aggregate) -> list[int]:
        """Rows of the components that a secondary changes."""
        old = self.state.columns.take(self.nodes[:1])
        new, _ = node_rules.add_secondary(old, self.asked, 0)
        changes = {name for name, x, y in zip(FIGURES, old, new, strict=True) if x is not y}
        rows = [
            self.row_of[which]
            for which, each in enumerate(COMPONENTS)
            if each.aggregate is aggregate and changes.intersection(each.figures)
        ]
        return list(dict.fromkeys(rows))

    def _find_out(self, keys: Sequence[Key]) -> None:
        super()._find_out(keys)
        usual = sorted_unique(self.state.peers[self.nodes[:, np.newaxis], self.nodes].ravel()).tolist()
        if len(usual) < USUAL:
            self.find_out_second(dict.fromkeys(keys, usual))

    def find_out_second(self, kept: Mapping[Key, Collection[int]]) -> None:
        """What becomes of nodes as secondary if they keep so much memory free for the primary already."""
        which = np.repeat(np.arange(len(kept)), [len(amounts) for amounts in kept.values()])
        amounts = np.array(list(chain.from_iterable(kept.values())))
        outcomes = [self.known[key] for key in kept]
        old = self._nodes(list(kept)).take(which)
        new, codes = node_rules.add_secondary(old, self.asked, amounts)
        rows = [*self.spreads, *self.counts]
        x = np.array([outcome.now[rows] for outcome in outcomes])[which].T
        y = self.values([self.which[row] for row in rows], new)
        change, squares = changes_of(x, y, self.size)
        number = len(self.spreads)
        table = np.concatenate([codes[np.newaxis], change[:number], squares[:number], change[number:]])
        figures = zip(*(getattr(new, name).tolist() for name in self.changing), strict=True)
        found = zip(which.tolist(), amounts.tolist(), table.T.tolist(), figures, strict=True)
        for at, amount, changes, after in found:
            outcomes[at].second[amount], outcomes[at].secondary[amount] = changes, after

    def failures(self) -> dict[Fail, int]:
        """How many pairs each reason rules out."""
        codes = [block.codes()[block.apart] for block in self.blocks]
        return self.tally(np.concatenate(codes) if codes else np.zeros(0))


class _GroupPairs:
    """The pairs of a group: primaries in rows, secondaries in columns.

    ``second`` is what a secondary changes, as :class:`NodeOutcome` has it: why it must not come, the changes
    of ``spreads`` and their squares, and the changes of ``counts``, which are rows of the search.
    """

    def __init__(self, search: PairSearch, at: Ints) -> None:
        self.search, self.at, self.nodes = search, at, search.nodes[at]
        self.column = {candidate: column for column, candidate in enumerate(at.tolist())}
        self.apart = ~np.eye(len(at), dtype=np.bool_)
        self.shared = None
        if search.state.location_rows:
            self.shared = affinity.shared_locations(search.state, self.nodes[:, np.newaxis], self.nodes)
        self.spreads, self.counts = search.spreads, search.counts
        self.second = np.zeros((1 + 2 * len(self.spreads) + len(self.counts), len(at), len(at)))
        self.plan = [self._step(which) for which in range(len(AGGREGATES))]
        self.look(at.tolist())

    def look(self, candidates: list[int]) -> None:
        """Take note of what becomes of some nodes, in both roles."""
        search, outcomes = self.search, self.search.look(candidates)
        kept = search.state.peers[self.nodes[:, np.newaxis], search.nodes[candidates]].T.tolist()
        unknown = {
            search.key(candidate): set(amounts).difference(outcome.second)
            for candidate, outcome, amounts in zip(candidates, outcomes, kept, strict=True)
            if not outcome.second.keys() >= set(amounts)
        }
        if unknown:
            search.find_out_second(unknown)
        for candidate, outcome, amounts in zip(candidates, outcomes, kept, strict=True):
            column = self.column[candidate]
            self.second[:, :, column] = np.array([outcome.second[amount] for amount in amounts]).T

    def codes(self) -> Floats:
        """For each pair, why it does not do."""
        primary = self.search.codes[self.at, np.newaxis]
        return np.where(primary != FITS, primary, self.second[0])

    def best(self, sums: Floats, variances: Floats) -> tuple[float, Nodes] | None:
        """The best pair and its score, given the statistics with each primary."""
        fits = self.apart & (self.codes() == FITS)
        if not fits.any():
            return None
        scores = np.where(fits, self._scores(sums, variances), np.inf)
        lowest = scores.min()
        if np.isnan(lowest):  # Ganeti's htools take the last primary, and its first secondary
            p = int(np.flatnonzero(fits.any(axis=1))[-1])
            s = int(np.argmax(fits[p]))
        else:
            p, s = divmod(int(np.flatnonzero(fits & (scores == lowest))[-1]), len(self.at))
        return float(lowest), Nodes(int(self.nodes[p]), int(self.nodes[s]))

    def _step(self, which: int) -> tuple[str, int]:
        """Where a component's share of the score is found, by row of an array."""
        row = self.search.row_of[which]
        if AGGREGATES[which] is SPREAD:
            return ("two", self.spreads.index(row)) if row in self.spreads else ("one", row)
        return ("count", which) if AGGREGATES[which] is COUNT and row in self.counts else ("steady", which)

    def _scores(self, sums: Floats, variances: Floats) -> Any:
        search, number = self.search, len(self.spreads)
        change, squares = self.second[1 : 1 + number], self.second[1 + number : 1 + 2 * number]
        counted = self.second[1 + 2 * number :]
        concerned = sums[self.spreads, :, np.newaxis], variances[self.spreads, :, np.newaxis]
        _, both = replaced(*concerned, search.size, change, squares)
        one = np.sqrt(variances)[:, :, np.newaxis]
        one *= search.weights[:, np.newaxis, np.newaxis]
        two = np.sqrt(np.fmax(both, 0.0, out=both), out=both)
        two *= search.weights[self.spreads, np.newaxis, np.newaxis]
        total = np.zeros(self.apart.shape)
        for source, at in self.plan:
            if source == "one":
                total += one[at]
            elif source == "two":
                total += two[at]
            elif source == "count":
                row = search.row_of[at]
                total += WEIGHTS[at] * (sums[row, :, np.newaxis] + counted[self.counts.index(row)])
            elif at == LOCATION and self.shared is not None:
                total += WEIGHTS[at] * (search.steady[at] + self.shared)
            elif search.steady[at]:
                total += WEIGHTS[at] * search.steady[at]
        return total
