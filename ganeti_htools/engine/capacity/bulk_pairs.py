"""Bulk allocation of mirrored instances: pairs of nodes within each group."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import BulkSearch, InstanceNodes, Known, NodeKey, parts
from ganeti_htools.engine.rules import affinity, node_rules
from ganeti_htools.engine.rules.components import COUNT, SPREAD, Aggregate, components
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import weighted
from ganeti_htools.model.columns import SINGLE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

# Amounts kept free for a primary that are so few are found out about all at once.
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


class KeptPeers:
    """The amounts that each node keeps free for each other one, as numbers: equal numbers, equal amounts.

    ``numbers`` (primaries by secondaries) are the memory itself (MiB), unless an instance demands custom
    classes, of which nodes keep something free as well.
    """

    def __init__(self, state: State, asked: RequestedInstance) -> None:
        self.state, self.asked = state, asked
        self.numbers = state.peers
        self.known: dict[tuple[int, ...], int] | None = None
        if any(asked.classes):
            tables = np.stack([state.peers, *state.class_peers], axis=-1)
            met, numbers = np.unique(tables.reshape(-1, tables.shape[-1]), axis=0, return_inverse=True)
            self.known = {amounts: number for number, amounts in enumerate(map(tuple, met.tolist()))}
            self.numbers = numbers.reshape(state.peers.shape)

    def amounts(self, numbers: Ints) -> tuple[Ints, list[Any]]:
        """The memory (MiB), and what is kept of each custom class."""
        if self.known is None:
            return numbers, []
        memory, *classes = np.array(list(self.known))[numbers].T
        return memory, classes

    def add(self, nodes: InstanceNodes) -> None:
        """The instance comes to nodes."""
        state, asked = self.state, self.asked
        state.peers[nodes] += asked.secondary_mem
        for peers, kept in zip(state.class_peers, asked.secondary_classes, strict=True):
            peers[nodes] += kept
        if self.known is not None:
            amounts = tuple(int(peers[nodes]) for peers in (state.peers, *state.class_peers))
            self.numbers[nodes] = self.known.setdefault(amounts, len(self.known))


class AsSecondary(NamedTuple):
    """Rows of a table that has a column for each node to which the instance may come as secondary.

    Why it must not come (one row), the changes of spreads, those of their squares, and the changes of counts
    (a row for each that a secondary changes).
    """

    codes: Any
    change: Floats
    squares: Floats
    counts: Floats


class PairSearch(BulkSearch):
    """Mirrored instances: pairs within each group, scored by two changes one after the other."""

    def __init__(
        self, state: State, asked: RequestedInstance, nodes: Ints, known: Known | None = None
    ) -> None:
        self.kept = KeptPeers(state, asked)
        super().__init__(state, asked, nodes, known)
        self.spreads, self.counts = self._concerned(SPREAD), self._concerned(COUNT)
        groups = state.group[nodes]
        self.blocks = [_GroupPairs(self, np.flatnonzero(groups == group)) for group in sorted_unique(groups)]

    @property
    def kept_numbers(self) -> Ints:
        """The amounts that each node keeps free for each other one, numbered."""
        return self.kept.numbers

    @property
    def candidates(self) -> int:
        """The number of candidates."""
        return sum(int(np.count_nonzero(block.apart)) for block in self.blocks)

    def best(self) -> InstanceNodes | None:
        """The best pair for the next instance, None without any."""
        found = [block.best(scores) for block, scores in zip(self.blocks, self.scores(), strict=True)]
        solutions = [solution for solution in found if solution is not None]
        if not solutions:
            return None
        lowest = np.fmin.reduce([score for score, _ in solutions])
        return max(nodes for score, nodes in solutions if score == lowest or np.isnan(lowest))

    def scores(self) -> list[Floats]:
        """The scores of the pairs of each group, primaries by secondaries; infinite where they do not fit."""
        _, *now = Deviation.of(self.now, self.looked)
        before = Deviation(*(each[:, np.newaxis] for each in (self.sizes, *now)))
        _, sums, variances = before.after(self.primary.change, self.primary.squares)
        variances = np.fmax(variances, 0.0)  # 0 if it is no number, as with Ganeti's htools
        return [block.scores(sums[:, block.at], variances[:, block.at]) for block in self.blocks]

    def settle(self, nodes: InstanceNodes) -> None:
        """Carry out a placement but for the list of instances."""
        primary, secondary = (int(at) for at in np.searchsorted(self.nodes, nodes))
        block = next(block for block in self.blocks if primary in block.at)
        self.write(nodes.primary, self.outcomes[primary].primary.figures)
        kept = int(self.kept_numbers[nodes])
        self.write(nodes.secondary, self.outcomes[secondary].secondary[kept].figures)
        if block.shared is not None:
            self.state.columns.location[nodes.primary] += affinity.shared_locations(self.state, *nodes)
        self.kept.add(nodes)
        block.look([primary, secondary])

    def _concerned(self, aggregate: Aggregate) -> dict[int, int]:
        """Rows of the components that a secondary changes, numbered."""
        old = self.state.columns.take(self.nodes[:1])
        new, _ = node_rules.add_secondary(old, self.asked, 0)
        changes = {name for name, x, y in zip(old._fields, old, new, strict=True) if x is not y}
        rows: dict[int, int] = {}
        for row, component in zip(self.row_of, self.score_table.components, strict=True):
            if component.aggregate is aggregate and changes.intersection(component.figures):
                rows.setdefault(row, len(rows))
        return rows

    def _find_out(self, keys: Sequence[NodeKey]) -> None:
        super()._find_out(keys)
        usual = sorted_unique(self.kept_numbers[self.nodes[:, np.newaxis], self.nodes].ravel()).tolist()
        if len(usual) < USUAL:
            self.find_out_second(dict.fromkeys(keys, usual))

    def find_out_second(self, kept: Mapping[NodeKey, Collection[int]]) -> None:
        """Find the outcome of nodes as secondary that keep so much free for the primary already."""
        which = np.repeat(np.arange(len(kept)), [len(amounts) for amounts in kept.values()])
        numbers = np.array(list(chain.from_iterable(kept.values())))
        outcomes = [self.known[key] for key in kept]
        old = self._nodes(list(kept)).take(which)
        memory, classes = self.kept.amounts(numbers)
        new, codes = node_rules.add_secondary(old, self.asked, memory, peers=classes)
        rows, number = [*self.spreads, *self.counts], len(self.spreads)
        x = np.array([outcome.now[rows] for outcome in outcomes])[which].T
        y = self.values([self.which[row] for row in rows], new)
        change, squares = y - x, y[:number] * y[:number] - x[:number] * x[:number]
        table = AsSecondary(codes[np.newaxis], change[:number], squares, change[number:])
        arrivals = self.arrivals(np.concatenate(table), new)
        for at, each, arrival in zip(which.tolist(), numbers.tolist(), arrivals, strict=True):
            outcomes[at].secondary[each] = arrival

    def failures(self) -> dict[Fail, int]:
        """Count the pairs that each reason rules out."""
        codes = [block.codes()[block.apart] for block in self.blocks]
        return self.tally(np.concatenate(codes) if codes else np.zeros(0))


class _GroupPairs:
    """The pairs of a group: primaries in rows, secondaries in columns.

    ``secondary`` is what a secondary changes, each figure of :class:`AsSecondary` for all pairs; ``shared``
    is how many locations pairs share, None if nodes have none.
    """

    def __init__(self, search: PairSearch, at: Ints) -> None:
        self.search, self.at, self.nodes = search, at, search.nodes[at]
        self.column = {candidate: column for column, candidate in enumerate(at.tolist())}
        self.apart = ~np.eye(len(at), dtype=np.bool_)
        self.shared = None
        if search.state.location_rows:
            self.shared = affinity.shared_locations(search.state, self.nodes[:, np.newaxis], self.nodes)
        sizes = (1, len(search.spreads), len(search.spreads), len(search.counts))
        self.table = np.zeros((sum(sizes), len(at), len(at)))
        self.secondary = AsSecondary(*parts(self.table, sizes))
        self.look(at.tolist())

    def look(self, candidates: list[int]) -> None:
        """Update the outcomes of some nodes, in both roles."""
        search, outcomes = self.search, self.search.look(candidates)
        kept = search.kept_numbers[self.nodes[:, np.newaxis], search.nodes[candidates]].T.tolist()
        unknown = {
            search.key(candidate): set(amounts).difference(outcome.secondary)
            for candidate, outcome, amounts in zip(candidates, outcomes, kept, strict=True)
            if not outcome.secondary.keys() >= set(amounts)
        }
        if unknown:
            search.find_out_second(unknown)
        for candidate, outcome, amounts in zip(candidates, outcomes, kept, strict=True):
            columns = [outcome.secondary[amount].column for amount in amounts]
            self.table[:, :, self.column[candidate]] = np.array(columns).T

    def codes(self) -> Floats:
        """For each pair, why it does not do."""
        primary = self.search.codes[self.at, np.newaxis]
        return np.where(primary != FITS, primary, self.secondary.codes[0])

    def fits(self) -> Bools:
        """The pairs that nothing speaks against but perhaps redundancy."""
        return np.asarray(self.apart & (self.codes() == FITS))

    def scores(self, sums: Floats, variances: Floats) -> Floats:
        """The scores of all pairs, given the statistics with each primary; infinite where they do not fit."""
        fits = self.fits()
        if not fits.any():
            return np.full(fits.shape, np.inf)
        values = self._components(sums[:, :, np.newaxis], variances[:, :, np.newaxis])
        return np.where(fits, weighted(self.search.weights, values, fits.shape), np.inf)

    def best(self, scores: Floats) -> tuple[float, InstanceNodes] | None:
        """The best pair and its score."""
        lowest = scores.min()
        there = scores == lowest
        if not np.isfinite(lowest):
            there &= self.fits()
        if np.isnan(lowest):  # Ganeti's htools take the last primary, and its first secondary
            fits = self.fits()
            p = int(np.flatnonzero(fits.any(axis=1))[-1])
            s = int(np.argmax(fits[p]))
        elif there.any():
            p, s = divmod(int(np.flatnonzero(there)[-1]), len(self.at))
        else:
            return None
        return float(lowest), InstanceNodes(int(self.nodes[p]), int(self.nodes[s]))

    def _components(self, sums: Floats, variances: Floats) -> Iterator[Any]:
        """The value of each component for pairs, given the statistics with each primary."""
        search, (_, change, squares, counts) = self.search, self.secondary
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
                yield count if component.name not in SHARED or self.shared is None else count + self.shared
            else:
                yield search.steady[which]
