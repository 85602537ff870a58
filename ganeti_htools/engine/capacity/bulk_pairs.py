"""Bulk allocation of mirrored instances: pairs of nodes within each group."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import BulkSearch, InstanceNodes, Known, NodeKey, NodeOutcome
from ganeti_htools.engine.capacity.pair_amounts import PairAmounts, PairFigures
from ganeti_htools.engine.capacity.pair_kinds import AsSecondary, PairKinds
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.components import COUNT, SPREAD, Aggregate, components
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import weighted
from ganeti_htools.model.columns import NOWHERE, SINGLE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

# Figures of pairs that are so few are found out about all at once.
USUAL = 16

# The components that change with the locations that a pair shares, and how.
SHARED = [each.name for each in components(SINGLE) if "location" in each.figures]
_UNKNOWN = [
    each.name
    for each in components(SINGLE)
    if each.name in SHARED and (each.figures != ("location",) or each.aggregate is not COUNT)
]
if _UNKNOWN:
    raise ValueError(f"bulk allocation does not know what shared locations do to {', '.join(_UNKNOWN)}")


class PairSearch(BulkSearch):
    """Mirrored instances: pairs within each group, scored by two changes one after the other."""

    def __init__(
        self, state: State, asked: RequestedInstance, nodes: Ints, known: Known | None = None
    ) -> None:
        self.amounts = PairAmounts(state, asked)
        super().__init__(state, asked, nodes, known)
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
        primary, secondary = (int(at) for at in np.searchsorted(self.nodes, nodes))
        block = next(block for block in self.blocks if primary in block.position)
        amounts = self.amounts.of(nodes)
        self.write(nodes.primary, self.outcomes[primary].primary.figures)
        self.write(nodes.secondary, self.outcomes[secondary].secondary[amounts].figures)
        self.state.columns.location[nodes.primary] += amounts.shared
        self.amounts.add(nodes)
        self.look([primary, secondary])
        block.kinds.change([block.position[primary], block.position[secondary]])

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

    def _find_out(self, keys: Sequence[NodeKey]) -> None:
        super()._find_out(keys)
        if len(self.amounts.known) < USUAL:
            self.find_out_second(dict.fromkeys(keys, self.amounts.known))

    def _next(self) -> Iterator[NodeKey]:
        yield from super()._next()
        for outcome, at in self.different().items():
            for number in set(self.amounts.numbers[self.nodes, self.nodes[at]].tolist()):
                if second := outcome.secondary.get(self.amounts.known[number]):
                    yield NodeKey(self.like[at], second.figures)

    def find_out_second(self, wanted: Mapping[NodeKey, Collection[PairFigures]]) -> None:
        """Find the outcome of nodes as secondary in pairs with these amounts."""
        amounts = [each for some in wanted.values() for each in some]
        which = np.repeat(np.arange(len(wanted)), [len(some) for some in wanted.values()])
        outcomes, old = [self.known[key] for key in wanted], self._nodes(list(wanted)).take(which)
        memory, shared, *classes = np.array([(each.memory, each.shared, *each.classes) for each in amounts]).T
        new, codes = node_rules.add_secondary(old, self.asked, memory, peers=classes)
        rows, number = [*self.spreads, *self.counts], len(self.spreads)
        x = np.array([outcome.now for outcome in outcomes])[which][:, rows].T
        y = self.values([self.which[row] for row in rows], new)
        change, squares = y - x, y[:number] * y[:number] - x[:number] * x[:number]
        for row, at in self.counts.items():
            if self.score_table.components[self.which[row]].name in SHARED:
                change[number + at] += shared
        table = AsSecondary(codes[np.newaxis], change[:number], squares, change[number:])
        arrivals = self.arrivals(np.concatenate(table), new)
        for at, each, arrival in zip(which.tolist(), amounts, arrivals, strict=True):
            outcomes[at].secondary[each] = arrival

    def with_secondaries(self, numbers: Mapping[int, Collection[int]]) -> list[NodeOutcome]:
        """The outcomes of candidates, with those as secondary in pairs with these amounts (numbers)."""
        found = [self.outcomes[candidate] for candidate in numbers]
        unknown: dict[NodeKey, set[PairFigures]] = {}
        for (candidate, some), outcome in zip(numbers.items(), found, strict=True):
            missing = {self.amounts.known[number] for number in some}.difference(outcome.secondary)
            if missing:  # two candidates may have one key, and lack different amounts
                unknown.setdefault(self.key(candidate), set()).update(missing)
        if unknown:
            self.find_out_second(unknown)
        return found

    def failures(self) -> dict[Fail, int]:
        """Count the pairs that each reason rules out."""
        codes = [block.codes() for block in self.blocks]
        return self.tally(np.concatenate(codes) if codes else np.zeros(0))


class _GroupPairs:
    """The pairs of a group, by kind, and the ``scores`` of the kinds; infinite where no pair fits."""

    def __init__(self, search: PairSearch, at: Ints) -> None:
        self.search, self.nodes = search, search.nodes[at]
        self.position = {candidate: position for position, candidate in enumerate(at.tolist())}
        search.look(at.tolist())
        sizes = (1, len(search.spreads), len(search.spreads), len(search.counts))
        self.kinds = PairKinds(at, self.nodes, search.amounts, search.with_secondaries, sizes)

    def codes(self) -> Floats:
        """For each pair, why it does not do."""
        samples, kinds = self.kinds.samples(), self.kinds
        rows = np.flatnonzero(samples != NOWHERE)
        primary = self.search.codes[samples[rows], np.newaxis]
        codes = np.where(primary != FITS, primary, kinds.second.codes[0])
        apart = kinds.number[rows, 1:]
        return np.asarray(np.repeat(codes[:, 1:].ravel(), apart.ravel()))

    def rate(self, before: Deviation) -> None:
        """Score the kinds of pairs that fit, given the present statistics."""
        search, kinds, samples = self.search, self.kinds, self.kinds.samples()
        rows = np.flatnonzero(samples != NOWHERE)
        rows = rows[search.codes[samples[rows]] == FITS]
        there = kinds.number[rows] > 0
        columns = np.flatnonzero((kinds.second.codes[0] == FITS) & there.any(axis=0))
        there, primary, at = there[:, columns], search.primary, samples[rows]
        _, sums, variances = before.after(primary.change[:, at], primary.squares[:, at])
        variances = np.fmax(variances, 0.0)  # 0 if it is no number, as with Ganeti's htools
        secondary = [part[:, columns] for part in kinds.second[1:]]
        self.rows, self.columns, self.fits = rows, columns, there
        self.scores = self._scores(sums, variances, secondary, there)

    def _scores(self, sums: Floats, variances: Floats, secondary: Sequence[Floats], fits: Bools) -> Floats:
        """The scores of kinds, given the statistics with each primary; infinite where they do not fit."""
        change, squares, counts = (part[:, np.newaxis] for part in secondary)
        sums, variances = sums[:, :, np.newaxis], variances[:, :, np.newaxis]
        values = self._components(sums, variances, change, squares, counts)
        return np.where(fits, weighted(self.search.weights, values, fits.shape), np.inf)

    def of_pairs(self) -> Floats:
        """The scores of all pairs, primaries by secondaries; infinite where they do not fit."""
        scores = np.full(self.kinds.number.shape, np.inf)
        scores[self.rows[:, np.newaxis], self.columns] = self.scores
        return np.asarray(scores[self.kinds.row[:, np.newaxis], self.kinds.column.T])

    def best(self) -> tuple[float, InstanceNodes] | None:
        """The best pair and its score."""
        if not self.scores.size:
            return None
        lowest = self.scores.min()
        # If it is no number, Ganeti's htools take the last primary, and its first secondary.
        unrated = bool(np.isnan(lowest))
        there = self.fits if unrated else self.fits & (self.scores == lowest)
        good = np.zeros(self.kinds.number.shape, np.bool_)
        good[self.rows[:, np.newaxis], self.columns] = there
        for primary in np.flatnonzero(np.any(good, axis=1, keepdims=True)[self.kinds.row])[::-1].tolist():
            secondaries = np.flatnonzero(good[self.kinds.row[primary], self.kinds.column[:, primary]])
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
