"""The cluster score: twenty weighted figures that are 0 on a perfectly even cluster (``hbal(1)``).

Most components are standard deviations over the online nodes (:mod:`.deviation`), a few are counts. An update
of one node's value costs the same on any cluster, and a few array operations score many candidates. Sums run
in node order with the arithmetic of Ganeti's htools: scores and ties are equal to the last bit.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.components import LOST, SPREAD, Aggregate, ComponentTable, table
from ganeti_htools.engine.rules.deviation import Deviation, sum_in_order
from ganeti_htools.model.columns import Bools, Columns, Floats, Ints, Shape


class Repeats(NamedTuple):
    """Components that repeat others, as the forthcoming ones do without forthcoming instances.

    For each component: the first one with the same ``values`` (the same formula of equal columns), and the
    first one that is the same altogether (``leaders``: the values are aggregated alike as well).
    """

    values: tuple[int, ...]
    leaders: tuple[int, ...]


@lru_cache(maxsize=256)
def _repeats(shape: Shape, firsts: Sequence[int]) -> Repeats:
    """The repeats among the components of columns with such aliases."""
    values: dict[Any, int] = {}
    leaders: dict[Any, int] = {}
    found = []
    score_table = table(shape)
    for which, (component, parts) in enumerate(zip(score_table.components, score_table.parts, strict=True)):
        key = component.formula, *(firsts[part] for part in parts)
        alike = *key, component.aggregate, component.counted
        found.append((values.setdefault(key, which), leaders.setdefault(alike, which)))
    return Repeats(*zip(*found, strict=True))


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The contributions of nodes to each component, and which components repeat others."""

    values: Sequence[Any]
    repeats: Repeats

    def __getitem__(self, component: int) -> Any:
        return self.values[component]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def rows(self, block: slice) -> "NodeValues":
        """The values of some rows, where candidates stand in rows and columns."""
        return NodeValues(rows_of(self.values, block), self.repeats)


def node_values(columns: Columns, before: tuple[Columns, NodeValues] | None = None) -> NodeValues:
    """Compute the contributions of nodes to each component.

    Values of ``before`` (columns with their values) are taken over where the columns have not been touched.
    """
    values: list[Any] = []
    score_table, repeats = table(columns.shape), _repeats(columns.shape, columns.firsts)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for which, (component, parts) in enumerate(
            zip(score_table.components, score_table.parts, strict=True)
        ):
            if (first := repeats.values[which]) != which:
                values.append(values[first])
            elif before and _untouched(before[0], columns, parts):
                values.append(before[1][which])
            else:
                values.append(component.formula(columns, *[columns[part] for part in parts]))
    return NodeValues(values, repeats)


@dataclass(frozen=True, slots=True)
class ChangedValues:
    """The contributions of nodes to those components whose columns have changed."""

    values: Mapping[int, Any]
    repeats: Repeats

    @classmethod
    def of(cls, old: Columns, new: Columns) -> "ChangedValues":
        values: dict[int, Any] = {}
        score_table, repeats = table(new.shape), _repeats(new.shape, new.firsts)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for which, parts in enumerate(score_table.parts):
                if (first := repeats.values[which]) != which:
                    if first in values:
                        values[which] = values[first]
                elif not _untouched(old, new, parts):
                    values[which] = score_table.components[which].formula(new, *[new[part] for part in parts])
        return cls(values, repeats)


def _untouched(old: Columns, new: Columns, parts: Iterable[int]) -> bool:
    for part in parts:  # noqa: SIM110  # a generator takes several times as long
        if old[part] is not new[part]:
            return False
    return True


def distinct_spreads(
    aggregates: Sequence[Aggregate], weights: Sequence[float], values: NodeValues
) -> dict[int, float]:
    """The weights of spreads, by component; a component that others repeat has the weight of all of them."""
    found: dict[int, float] = {}
    for leader, aggregate, weight in zip(values.repeats.leaders, aggregates, weights, strict=True):
        if aggregate is SPREAD:
            found[leader] = found.get(leader, 0.0) + weight
    return found


def changed_values(
    score_table: ComponentTable, which: int, old: Columns, new: Columns, before: dict[int, Any]
) -> tuple[Any, Any] | None:
    """Compute a component's values before and after; None if its columns are untouched.

    ``before`` keeps the values of ``old`` by component.
    """
    parts, formula = score_table.parts[which], score_table.components[which].formula
    if _untouched(old, new, parts):
        return None
    if which not in before:
        before[which] = formula(old, *[old[part] for part in parts])
    return before[which], formula(new, *[new[part] for part in parts])


@dataclass(frozen=True, slots=True)
class Statistics:
    """The score's components as running figures: number of counted nodes, sum and variance of each.

    ``weights`` are the effective weights of the components. Entries of ``sums`` and ``variances`` are
    numbers, or arrays over candidates. ``variances`` is 0 where the aggregate is a sum. ``leaders``: see
    :class:`Repeats`.
    """

    table: ComponentTable
    online: float
    counts: tuple[float, ...]
    weights: tuple[float, ...]
    sums: tuple[Any, ...]
    variances: tuple[Any, ...]
    leaders: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.table.components)

    @property
    def rated(self) -> bool:
        """Whether the score is a number.

        It is none if an online node reports 0 CPUs or 0 memory, or has no spindles. No placement changes
        these divisors, so the answer holds for all candidates.
        """
        return math.isfinite(sum(self.sums))

    def repaired(self) -> "Statistics":
        """Replace variances that are no numbers by 0, as Ganeti's htools do in an update."""
        return replace(self, variances=tuple(0.0 if math.isnan(each) else each for each in self.variances))

    def replaced(self, old: NodeValues, new: NodeValues, offline: Bools) -> "Statistics":
        """Compute the statistics after the values of one node (for each candidate, one) have changed.

        ``offline`` marks nodes that are offline. Values that are one object in both cost nothing.
        """
        if not self.online:
            return self
        some, every = bool(offline.any()), bool(offline.all())
        sums, variances = list(self.sums), list(self.variances)
        leaders = common_leaders(self.leaders, new.repeats.leaders)
        for which, (aggregate, x, y) in enumerate(zip(self.table.aggregates, old, new, strict=True)):
            if (leader := leaders[which]) != which:
                sums[which], variances[which] = sums[leader], variances[leader]
                continue
            if x is y or (every if aggregate is not LOST else not some):
                continue
            if some and not every:
                # Other nodes may report nothing: their values are no numbers.
                counts = offline if aggregate is LOST else ~offline
                x, y = np.where(counts, x, 0.0), np.where(counts, y, 0.0)
            if aggregate is SPREAD:
                before = Deviation(self.counts[which], sums[which], variances[which])
                _, sums[which], variances[which] = before.replaced(x, y)
            else:
                sums[which], variances[which] = sums[which] + (y - x), 0.0
        return replace(self, sums=tuple(sums), variances=tuple(variances), leaders=leaders)

    def rows(self, block: slice) -> "Statistics":
        """Select some rows of candidates that stand in rows and columns."""
        sums, variances = rows_of(self.sums, block), rows_of(self.variances, block)
        return replace(self, sums=tuple(sums), variances=tuple(variances))

    def components(self) -> Iterator[Any]:
        """Compute the value of each component, unweighted."""
        roots: dict[int, Any] = {}
        for which, (leader, aggregate) in enumerate(zip(self.leaders, self.table.aggregates, strict=True)):
            if aggregate is not SPREAD:
                yield self.sums[which]
                continue
            if leader == which:
                roots[which] = np.sqrt(self.variances[which])
            yield roots[leader]

    def score(self) -> Any:
        """Compute the weighted sum of all components, for each candidate."""
        values = list(self.components())
        shape = np.broadcast_shapes(*{np.shape(value) for value in values})
        return weighted(self.weights, values, shape)


def weighted(weights: Sequence[float], values: Iterable[Any], shape: tuple[int, ...]) -> Any:
    """Compute the weighted sum, in this shape, of values from :meth:`Statistics.components`."""
    total = np.zeros(shape)
    for weight, value in zip(weights, values, strict=True):
        total += value if weight == 1.0 else weight * value
    return total


def rows_of(values: Sequence[Any], block: slice) -> list[Any]:
    """Select some rows of each array that has more than one."""
    return [value[block] if np.ndim(value) == 2 and len(value) > 1 else value for value in values]


@lru_cache(maxsize=256)
def common_leaders(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Find, for each component, the first one that is the same by both tables of leaders."""
    first: dict[tuple[int, int], int] = {}
    pairs = zip(one, other, strict=True)
    return tuple(first.setdefault(pair, which) for which, pair in enumerate(pairs))


def counted_nodes(columns: Columns) -> Bools | None:
    """Find the nodes that each component counts while they are online (components by nodes); None if all."""
    score_table = table(columns.shape)
    if not score_table.partial:
        return None
    found: Bools = np.ones((len(score_table.components), len(columns.offline)), np.bool_)
    for which in score_table.partial:
        if counted := score_table.components[which].counted:
            found[which] = counted(columns)
    return found


def node_counts(columns: Columns, counted: Bools | None) -> list[float]:
    """Count the online nodes that each component counts."""
    online = ~columns.offline
    if counted is None:
        return [float(np.count_nonzero(online))] * len(table(columns.shape).components)
    counts: list[float] = np.count_nonzero(counted & online, axis=1).astype(np.float64).tolist()
    return counts


def effective_weights(score_table: ComponentTable, counts: Sequence[float]) -> tuple[float, ...]:
    """Compute the weights; components of one family that count any node share the family's weight.

    The others of the family weigh nothing.
    """
    if not score_table.partial:
        return score_table.weights
    families = [component.shared for component in score_table.components]
    having = Counter(family for family, count in zip(families, counts, strict=True) if count)
    return tuple(
        (weight / having[family] if count else 0.0) if family else weight
        for family, weight, count in zip(families, score_table.weights, counts, strict=True)
    )


def statistics(columns: Columns, values: NodeValues, exclusion: float = 0.0) -> Statistics:
    """Compute the statistics of nodes in order; all 0 without online nodes."""
    leaders = values.repeats.leaders
    return _statistics(columns, _matrix(columns, values, leaders), leaders, exclusion)


@lru_cache(maxsize=256)
def _rows(shape: Shape, leaders: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Find the leading components: spreads, sums over online nodes, and sums over offline nodes."""
    rows: tuple[list[int], ...] = [], [], []
    for which in sorted(set(leaders)):
        aggregate = table(shape).aggregates[which]
        rows[0 if aggregate is SPREAD else 2 if aggregate is LOST else 1].append(which)
    return tuple(map(tuple, rows))


def _matrix(columns: Columns, values: NodeValues, leaders: tuple[int, ...], *variants: int) -> Floats:
    """Put the values of leading components together (:func:`_rows` by variants, if any, by nodes)."""
    firsts = sum(_rows(columns.shape, leaders), ())
    matrix = np.empty((len(firsts), *variants, len(columns.offline)))
    for row, which in enumerate(firsts):
        matrix[row] = values[which]
    return matrix


@np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
def _statistics(columns: Columns, matrix: Floats, leaders: tuple[int, ...], exclusion: Any) -> Statistics:
    """Compute the statistics of such a matrix, whose nodes are added up in order."""
    score_table, offline, counted = table(columns.shape), columns.offline, counted_nodes(columns)
    counts = node_counts(columns, counted)
    n, weights = float(np.count_nonzero(~offline)), effective_weights(score_table, counts)
    if not n:
        nothing = (0.0,) * len(counts)
        return Statistics(score_table, n, tuple(counts), weights, nothing, nothing, leaders)
    spreads, totals, lost = _rows(columns.shape, leaders)
    online: Any = ~offline if offline.any() else slice(None)
    first, last = len(spreads), len(spreads) + len(totals)
    if counted is not None:
        counted = counted[list(spreads)].reshape(first, *(1,) * (matrix.ndim - 2), -1)[..., online]
    _, *moments = Deviation.of(matrix[:first][..., online], counted)
    figures = dict(zip(spreads, zip(*map(_entries, moments), strict=True), strict=True))
    for rows, values in ((totals, matrix[first:last][..., online]), (lost, matrix[last:][..., offline])):
        figures.update(zip(rows, ((total, 0.0) for total in _entries(sum_in_order(values))), strict=True))
    figures[score_table.location_exclusion] = exclusion, 0.0
    sums, variances = zip(*map(figures.__getitem__, leaders), strict=True)
    return Statistics(score_table, n, tuple(counts), weights, sums, variances, leaders)


def _entries(values: Floats) -> Any:
    """Split values by rows: into numbers, or into arrays over variants."""
    return values.tolist() if values.ndim < 2 else values


def variant_scores(
    columns: Columns, values: NodeValues, changes: Sequence[tuple[Ints, ChangedValues]], exclusion: Floats
) -> Floats:
    """Compute the scores of many variants of nodes, each from nothing as :func:`statistics` does.

    A change gives every variant one node (by position, NOWHERE for none) other values: positions and values.
    """
    leaders = values.repeats.leaders
    for _, new in changes:
        leaders = common_leaders(leaders, new.repeats.leaders)
    matrix = _matrix(columns, values, leaders, len(exclusion))
    firsts = sum(_rows(columns.shape, leaders), ())
    for places, new in changes:
        there = np.flatnonzero(places >= 0)
        at = places[there]
        for row, which in enumerate(firsts):
            if (value := new.values.get(which)) is not None:
                matrix[row, there, at] = value[there] if np.size(value) > 1 else value
    scores: Floats = _statistics(columns, matrix, leaders, exclusion).score()
    return scores


def score(columns: Columns, exclusion: float = 0.0) -> float:
    return float(statistics(columns, node_values(columns), exclusion).score())
