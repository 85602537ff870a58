"""Putting equal instances on nodes, one after the other, each to the best place then.

This is what :mod:`.allocate` does for one instance, done until no place is left. Between two placements
only the chosen nodes change, and what would become of these has often been found out before: of another
node with the same figures. The scores of all candidates follow in a few array operations. Additions are
made in the order in which Ganeti's htools make them: the same candidates tie then, and of these the last
is chosen.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules import affinity, choice, instance_policy, node_rules, settling
from ganeti_htools.engine.rules.components import (
    AGGREGATES,
    COMPONENTS,
    COUNT,
    INDEX,
    SPREAD,
    WEIGHTS,
    Aggregate,
)
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.score import node_values
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import CHANGING, FIGURES, NOWHERE, Columns, Floats, Ints, sorted_unique
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import Fail

LOCATION = INDEX["location_score"]
# What an instance without tags leaves as it is, except that its nodes may share locations.
STEADY = [which for which, each in enumerate(COMPONENTS) if set(each.figures) <= {"conflicts", "location"}]

# How many values are looked at in one go when candidates that lie close together are scored afresh.
BATCH = 1 << 20

# Amounts of memory kept free for a primary that are so few are found out about all at once.
USUAL = 16


# What policies say of a node, and all its figures.
Key = tuple[Any, ...]


class Nodes(NamedTuple):
    """Rows of the nodes of an instance."""

    primary: int
    secondary: int = NOWHERE


@dataclass(frozen=True, slots=True)
class Filled:
    """How many instances found a place, and how many candidates each reason rules out for one more."""

    placed: int
    failures: dict[Fail, int]


def fill(
    state: State,
    row: Instance,
    nodes: Ints,
    first: int = 0,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda placed: None,
) -> Filled:
    """Place instances like ``row``, in place, on ``nodes``, until none fits or ``limit`` is reached.

    They have no tags and the usual load, and get numbers from ``first`` on appended to their name.
    Mirrored ones go on pairs within a group. ``nodes`` are rows in order, all online; scores are those of
    all nodes. Redundancy is looked at node by node only. ``progress`` is told of each placement.
    """
    asked = state.ask(row)
    placed: list[Nodes] = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = _Pairs(state, asked, nodes) if asked.mirrored else _Singles(state, asked, nodes)
        while limit is None or len(placed) < limit:
            best = search.best()
            if best is None:
                break
            search.settle(best)
            placed.append(best)
            progress(len(placed))
        failures = search.failures()
    rows = [replace(row, name=f"{row.name}-{first + number}") for number in range(len(placed))]
    settling.add_rows(state, asked, rows, placed)
    return Filled(len(placed), failures)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What becomes of a node with certain figures if an instance comes.

    ``now`` is what the node contributes to the components; ``first`` is why a primary must not come, then
    what the node would contribute with it, and the change of that and of its square times the number
    of nodes; ``primary`` are its figures then. ``second`` and ``secondary`` are the same with a secondary,
    by how much memory the node keeps free for the same primary already.
    """

    now: Floats
    first: Floats
    primary: tuple[Any, ...]
    second: dict[int, list[float]] = field(default_factory=dict)
    secondary: dict[int, tuple[Any, ...]] = field(default_factory=dict)


class _Search:
    """What nodes contribute to the score now, and what they would with a primary more.

    Components whose values are one object are kept once: ``row_of`` has the row of each. ``now`` has a
    column for each online node, ``first`` one for each candidate, as :class:`_Outlook` says.
    """

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        self.state, self.asked, self.nodes = state, asked, nodes
        everyone = np.ones(len(state.group), np.bool_)
        self.steady = list(choice.base(state, everyone, affinity.crowding(state, everyone)).sums)
        online = np.flatnonzero(~state.columns.offline)
        self.size = float(len(online))
        self.position = np.searchsorted(online, nodes)

        rows: dict[int, int] = {}
        self.row_of = [rows.setdefault(id(value), len(rows)) for value in node_values(state.columns)]
        self.which = [self.row_of.index(row) for row in range(len(rows))]
        self.now = self.values(self.which, state.columns)[:, online]
        self.weights = np.array([WEIGHTS[which] for which in self.which])
        self.first = np.zeros((1 + 3 * len(rows), len(nodes)))
        self.policy = instance_policy.codes(state, asked, nodes)
        # Columns that are one object are kept once: the first of their names, those that change last.
        alike: dict[int, str] = {}
        for name, column in zip(FIGURES, state.columns, strict=True):
            alike.setdefault(id(column), name)
        self.columns = [getattr(state.columns, name) for name in alike.values()]
        self.changing = [name for name in alike.values() if name in CHANGING]
        self.known: dict[Key, _Outlook] = {}
        self.outlooks: dict[int, _Outlook] = {}

    @property
    def codes(self) -> Floats:
        """For each candidate, why a primary must not come."""
        codes: Floats = self.first[0]
        return codes

    @property
    def later(self) -> tuple[Floats, Floats, Floats]:
        """What candidates would contribute, the change, and that of the square times the number of nodes."""
        then, change, squares = self.first[1:].reshape(3, -1, len(self.nodes))
        return then, change, squares

    def look(self, candidates: Sequence[int]) -> list[_Outlook]:
        """Take note of what becomes of some candidates."""
        keys = [self.key(at) for at in candidates]
        if any(key not in self.known for key in keys):
            self._find_out([key for key in {*keys, *self._next()} if key not in self.known])
        found = [self.known[key] for key in keys]
        for at, outlook in zip(candidates, found, strict=True):
            self.outlooks[at] = outlook
            self.now[:, self.position[at]] = outlook.now
            self.first[:, at] = outlook.first
        return found

    def key(self, at: int) -> Key:
        """All figures of a node, and what policies say."""
        row = int(self.nodes[at])
        return (self.policy.item(at), *[column.item(row) for column in self.columns])

    def _next(self) -> Iterator[Key]:
        """What nodes will be with one instance more: finding out about many takes hardly longer."""
        for at, outlook in self.outlooks.items():
            steady = self.key(at)[: -len(self.changing)]
            yield steady + outlook.primary
            for kept in set(outlook.secondary).intersection(
                self.state.peers[self.nodes, self.nodes[at]].tolist()
            ):
                yield steady + outlook.secondary[kept]

    def _nodes(self, keys: Sequence[Key]) -> Columns:
        """The figures of nodes with these keys."""
        _, *figures = zip(*keys, strict=True)
        columns = {
            id(known): np.array(own, known.dtype) for known, own in zip(self.columns, figures, strict=True)
        }
        return self.state.columns.map(lambda column: columns[id(column)])

    def _find_out(self, keys: Sequence[Key]) -> None:
        old, policy = self._nodes(keys), np.array([key[0] for key in keys], np.int8)
        new, codes = node_rules.add_primary(old, self.asked, 0, 0)
        codes = np.where(policy != FITS, policy, codes)
        x, y = (self.values(self.which, columns) for columns in (old, new))
        first = np.concatenate([codes[np.newaxis], y, *_changes(x, y, self.size)])
        figures = zip(*(getattr(new, name).tolist() for name in self.changing), strict=True)
        self.known.update(zip(keys, map(_Outlook, x.T, first.T, figures), strict=True))

    @staticmethod
    def values(which: Sequence[int], columns: Columns) -> Floats:
        """What nodes contribute to some components, a row for each."""
        table = np.empty((len(which), len(columns.offline)))
        for each, component in zip(table, which, strict=True):
            each[:] = COMPONENTS[component].of(columns)
        return table

    def statistics(self) -> tuple[Floats, Floats]:
        """Sums and variances of each row of ``now``, added up from left to right."""
        return _statistics(self.now, self.size)

    def settle(self, nodes: Nodes) -> None:
        """Carry out a placement but for the list of instances."""
        at = int(np.searchsorted(self.nodes, nodes.primary))
        self.write(nodes.primary, self.outlooks[at].primary)
        self.look([at])

    def write(self, row: int, figures: Sequence[Any]) -> None:
        """Change the figures of a node."""
        for name, figure in zip(self.changing, figures, strict=True):
            getattr(self.state.columns, name)[row] = figure

    def tally(self, codes: Floats) -> dict[Fail, int]:
        """How often each reason occurs."""
        numbers = np.bincount(codes.astype(np.int64), minlength=len(FAIL) + 1)
        return {fail: int(numbers[code]) for code, fail in FAIL.items()}


def _changes(x: Floats, y: Floats, size: float) -> tuple[Floats, Floats]:
    return y - x, size * (y * y - x * x)


def _statistics(values: Floats, size: float) -> tuple[Any, Any]:
    sums = np.add.accumulate(values, axis=-1)[..., -1]
    centred = values - (sums / size)[..., np.newaxis]
    centred *= centred
    return sums, np.add.accumulate(centred, axis=-1)[..., -1] / size


def _replaced(sums: Any, variances: Any, size: float, change: Any, squares: Any) -> tuple[Any, Any]:
    """Sums and variances, which may be a little below 0, after a value changed."""
    scaled = squares - 2 * sums * change
    scaled -= change * change
    scaled /= size * size
    scaled += variances
    return sums + change, scaled


class _Singles(_Search):
    """Instances with one node: Ganeti's htools compute the score of every candidate from nothing."""

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        super().__init__(state, asked, nodes)
        self.look(range(len(nodes)))

    def best(self) -> Nodes | None:
        """Where the next instance goes, if anywhere."""
        fits = np.flatnonzero(self.codes == FITS)
        if not len(fits):
            return None
        sums, variances = self.statistics()
        _, change, squares = self.later
        column = sums[:, np.newaxis], variances[:, np.newaxis]
        sums, variances = _replaced(*column, self.size, change[:, fits], squares[:, fits])
        scores = self._scores(sums, np.maximum(variances, 0.0))
        near = fits[choice.near_best(scores)]
        if len(near) > 1:
            fresh = self._afresh(near)
            # Ganeti's htools take the first if no score is a number.
            near = near[[0]] if np.isnan(fresh).all() else near[fresh == np.fmin.reduce(fresh)]
        return Nodes(int(self.nodes[near[-1]]))

    def _afresh(self, candidates: Ints) -> Floats:
        scores = np.empty(len(candidates))
        number = max(1, BATCH // self.now.size)
        for start in range(0, len(candidates), number):
            some = candidates[start : start + number]
            values = np.repeat(self.now[:, np.newaxis], len(some), axis=1)
            values[:, np.arange(len(some)), self.position[some]] = self.later[0][:, some]
            scores[start : start + number] = self._scores(*_statistics(values, self.size))
        return scores

    def _scores(self, sums: Any, variances: Any) -> Any:
        roots = np.sqrt(variances)
        total: Any = 0.0
        for which, (aggregate, weight) in enumerate(zip(AGGREGATES, WEIGHTS, strict=True)):
            row = self.row_of[which]
            if aggregate is SPREAD:
                total = total + weight * roots[row]
            elif aggregate is COUNT and which not in STEADY:
                total = total + weight * sums[row]
            else:
                total = total + weight * self.steady[which]
        return total

    def failures(self) -> dict[Fail, int]:
        """How many candidates each reason rules out."""
        return self.tally(self.codes)


class _Pairs(_Search):
    """Mirrored instances: pairs within each group, scored by two changes one after the other."""

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        super().__init__(state, asked, nodes)
        self.spreads, self.counts = self._concerned(SPREAD), self._concerned(COUNT)
        groups = state.group[nodes]
        self.blocks = [_Block(self, np.flatnonzero(groups == group)) for group in sorted_unique(groups)]

    def best(self) -> Nodes | None:
        """Where the next instance goes, if anywhere."""
        sums, variances = self.statistics()
        _, change, squares = self.later
        column = sums[:, np.newaxis], variances[:, np.newaxis]
        sums, variances = _replaced(*column, self.size, change, squares)
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
        self.write(nodes.primary, self.outlooks[primary].primary)
        self.write(nodes.secondary, self.outlooks[secondary].secondary[int(self.state.peers[nodes])])
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
        outlooks = [self.known[key] for key in kept]
        old = self._nodes(list(kept)).take(which)
        new, codes = node_rules.add_secondary(old, self.asked, amounts)
        rows = [*self.spreads, *self.counts]
        x = np.array([outlook.now[rows] for outlook in outlooks])[which].T
        y = self.values([self.which[row] for row in rows], new)
        change, squares = _changes(x, y, self.size)
        number = len(self.spreads)
        table = np.concatenate([codes[np.newaxis], change[:number], squares[:number], change[number:]])
        figures = zip(*(getattr(new, name).tolist() for name in self.changing), strict=True)
        found = zip(which.tolist(), amounts.tolist(), table.T.tolist(), figures, strict=True)
        for at, amount, changes, after in found:
            outlooks[at].second[amount], outlooks[at].secondary[amount] = changes, after

    def failures(self) -> dict[Fail, int]:
        """How many pairs each reason rules out."""
        codes = [block.codes()[block.apart] for block in self.blocks]
        return self.tally(np.concatenate(codes) if codes else np.zeros(0))


class _Block:
    """The pairs of a group: primaries in rows, secondaries in columns.

    ``second`` is what a secondary changes, as :class:`_Outlook` has it: why it must not come, the changes
    of ``spreads`` and their squares, and the changes of ``counts``, which are rows of the search.
    """

    def __init__(self, search: _Pairs, at: Ints) -> None:
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
        search, outlooks = self.search, self.search.look(candidates)
        kept = search.state.peers[self.nodes[:, np.newaxis], search.nodes[candidates]].T.tolist()
        unknown = {
            search.key(candidate): set(amounts).difference(outlook.second)
            for candidate, outlook, amounts in zip(candidates, outlooks, kept, strict=True)
            if not outlook.second.keys() >= set(amounts)
        }
        if unknown:
            search.find_out_second(unknown)
        for candidate, outlook, amounts in zip(candidates, outlooks, kept, strict=True):
            column = self.column[candidate]
            self.second[:, :, column] = np.array([outlook.second[amount] for amount in amounts]).T

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
        _, both = _replaced(*concerned, search.size, change, squares)
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
