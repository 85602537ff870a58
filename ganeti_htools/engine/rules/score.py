"""The cluster score: twenty weighted figures that are 0 on a perfectly even cluster (``hbal(1)``).

Most are standard deviations over the online nodes, a few are counts. A standard deviation is kept as
(count, sum, variance), so replacing one node's value costs the same on any cluster and many
candidates are scored in a few array operations. Sums run in node order and updates use the same
arithmetic as Ganeti's htools: scores are then equal to the last bit, and so are ties.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.components import LOST, SPREAD, Aggregate, ComponentTable, table
from ganeti_htools.engine.rules.deviation import Deviation, in_order
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
    told = table(shape)
    for which, (component, parts) in enumerate(zip(told.components, told.parts, strict=True)):
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
    told, repeats = table(columns.shape), _repeats(columns.shape, columns.firsts)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for which, (component, parts) in enumerate(zip(told.components, told.parts, strict=True)):
            if (first := repeats.values[which]) != which:
                values.append(values[first])
            elif before and all(columns[part] is before[0][part] for part in parts):
                values.append(before[1][which])
            else:
                values.append(component.formula(columns, *[columns[part] for part in parts]))
    return NodeValues(values, repeats)


def distinct_spreads(
    aggregates: Sequence[Aggregate], weights: Sequence[float], values: NodeValues
) -> dict[int, float]:
    """The weights of spreads, by component; a component that others repeat has the weight of all of them."""
    found: dict[int, float] = {}
    for leader, aggregate, weight in zip(values.repeats.leaders, aggregates, weights, strict=True):
        if aggregate is SPREAD:
            found[leader] = found.get(leader, 0.0) + weight
    return found


def changed_values(which: int, old: Columns, new: Columns) -> tuple[Any, Any] | None:
    """What nodes contribute to a component before and after, None if it is made of the same columns."""
    told = table(old.shape)
    if all(old[part] is new[part] for part in told.parts[which]):
        return None
    return told.components[which].of(old), told.components[which].of(new)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The score's components as running figures: on how many nodes each looks, sums and variances.

    ``weights`` are those that the components have on these nodes. Entries of ``sums`` and ``variances`` are
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
        """The names of the components."""
        return tuple(component.name for component in self.table.components)

    @property
    def rated(self) -> bool:
        """Whether there is a score: none is a number once an online node reports 0 CPUs or memory, or has no
        spindles. This is so for all candidates then, for no placement changes what is divided by.
        """
        return math.isfinite(sum(self.sums))

    def repaired(self) -> "Statistics":
        """With 0 for variances that are no numbers: what Ganeti's htools make of them in an update."""
        return replace(self, variances=tuple(0.0 if math.isnan(each) else each for each in self.variances))

    def replaced(self, old: NodeValues, new: NodeValues, offline: Bools) -> "Statistics":
        """The statistics after the values of one node (for each candidate, one) have changed.

        ``offline`` tells which of the nodes are. Values that are one object in both cost nothing.
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
                # The others may report nothing, and have no number to subtract.
                counts = offline if aggregate is LOST else ~offline
                x, y = np.where(counts, x, 0.0), np.where(counts, y, 0.0)
            if aggregate is SPREAD:
                before = Deviation(self.counts[which], sums[which], variances[which])
                _, sums[which], variances[which] = before.replaced(x, y)
            else:
                sums[which], variances[which] = sums[which] + (y - x), 0.0
        return replace(self, sums=tuple(sums), variances=tuple(variances), leaders=leaders)

    def rows(self, block: slice) -> "Statistics":
        """The statistics of some rows, where candidates stand in rows and columns."""
        sums, variances = rows_of(self.sums, block), rows_of(self.variances, block)
        return replace(self, sums=tuple(sums), variances=tuple(variances))

    def components(self) -> Iterator[Any]:
        """The value of each component, unweighted."""
        roots: dict[int, Any] = {}
        for which, (leader, aggregate) in enumerate(zip(self.leaders, self.table.aggregates, strict=True)):
            if aggregate is not SPREAD:
                yield self.sums[which]
                continue
            if leader == which:
                roots[which] = np.sqrt(self.variances[which])
            yield roots[leader]

    def score(self) -> Any:
        """The weighted sum of all components, for each candidate."""
        values = list(self.components())
        shape = np.broadcast_shapes(*{np.shape(value) for value in values})
        return weighted(self.weights, values, shape)


def weighted(weights: Sequence[float], values: Iterable[Any], shape: tuple[int, ...]) -> Any:
    """The weighted sum, in this shape, of values as :meth:`Statistics.components` gives them."""
    total = np.zeros(shape)
    for weight, value in zip(weights, values, strict=True):
        total += value if weight == 1.0 else weight * value
    return total


def rows_of(values: Sequence[Any], block: slice) -> list[Any]:
    """Some rows of each of the arrays that have more than one."""
    return [value[block] if np.ndim(value) == 2 and len(value) > 1 else value for value in values]


@lru_cache(maxsize=256)
def common_leaders(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """For each component the first that is the same by both tables of leaders."""
    first: dict[tuple[int, int], int] = {}
    pairs = zip(one, other, strict=True)
    return tuple(first.setdefault(pair, which) for which, pair in enumerate(pairs))


def _moments(values: Floats, offline: Bools, looked: Bools | None) -> tuple[Floats, Floats, Floats]:
    """Along the last axis, which is that of nodes, added up in their order: sums and variances of those that
    are online and ``looked`` at, and sums of those that are offline; 0 without any.
    """
    online = ~offline
    at = None if looked is None else looked[..., online]
    _, sums, variances = Deviation.of(values[..., online], at)
    return sums, variances, in_order(values[..., offline])


def counted_nodes(columns: Columns) -> Bools | None:
    """At which nodes each component looks while they are online (components by nodes); None if at all."""
    told = table(columns.shape)
    if not told.partial:
        return None
    found: Bools = np.ones((len(told.components), len(columns.offline)), np.bool_)
    for which in told.partial:
        found[which] = told.components[which].counted(columns)
    return found


def node_counts(columns: Columns, looked: Bools | None) -> list[float]:
    """At how many online nodes each component looks."""
    online = ~columns.offline
    if looked is None:
        return [float(np.count_nonzero(online))] * len(table(columns.shape).components)
    counts: list[float] = np.count_nonzero(looked & online, axis=1).astype(np.float64).tolist()
    return counts


def effective_weights(told: ComponentTable, counts: Sequence[float]) -> tuple[float, ...]:
    """The weights of the components: some share theirs, those that look at some node."""
    if not told.partial:
        return told.weights
    families = [component.shared for component in told.components]
    having = Counter(family for family, count in zip(families, counts, strict=True) if count)
    return tuple(
        weight / max(1, having[family]) if family else weight
        for family, weight in zip(families, told.weights, strict=True)
    )


def statistics(columns: Columns, values: NodeValues, exclusion: float = 0.0) -> Statistics:
    """The statistics of nodes in order; all 0 without online nodes."""
    told, offline, looked = table(columns.shape), columns.offline, counted_nodes(columns)
    matrix = np.array([np.broadcast_to(value, offline.shape) for value in values], np.float64)
    counts = node_counts(columns, looked)
    n, weights, nothing = (
        float(np.count_nonzero(~offline)),
        effective_weights(told, counts),
        (0.0,) * len(counts),
    )
    if not n:
        return Statistics(told, n, tuple(counts), weights, nothing, nothing, values.repeats.leaders)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # nodes that report nothing
        sums, variances, lost = (each.tolist() for each in _moments(matrix, offline, looked))
    figures = [
        (sums[which], variances[which])
        if aggregate is SPREAD
        else ((lost if aggregate is LOST else sums)[which], 0.0)
        for which, aggregate in enumerate(told.aggregates)
    ]
    figures[told.location_exclusion] = exclusion, 0.0
    totals, spreads = zip(*figures, strict=True)
    return Statistics(told, n, tuple(counts), weights, totals, spreads, values.repeats.leaders)


def variant_scores(
    columns: Columns,
    values: NodeValues,
    changes: Sequence[tuple[Ints, NodeValues, NodeValues]],
    exclusion: Floats,
) -> Floats:
    """The scores of many variant_scores of nodes, each computed afresh as :func:`statistics` does.

    A change gives every variant one node (by position, NOWHERE for none) another value: positions, old values
    and new values. Values that are one object in both cost nothing.
    """
    leaders = values.repeats.leaders
    for _, _, new in changes:
        leaders = common_leaders(leaders, new.repeats.leaders)
    base, number, offline = statistics(columns, values), len(exclusion), columns.offline
    told = base.table
    sums, spreads = list(base.sums), list(base.variances)
    sums[told.location_exclusion] = exclusion
    groups: dict[int, list[int]] = {}  # components that change, those with the same values together
    for which in range(len(told.aggregates)):
        if any(old[which] is not new[which] for _, old, new in changes):
            groups.setdefault(leaders[which], []).append(which)
    if groups:
        firsts, looked = [group[0] for group in groups.values()], counted_nodes(columns)
        matrix = np.empty((len(groups), number, len(offline)))
        matrix[:] = np.array([values[which] for which in firsts], np.float64)[:, np.newaxis]
        for places, old, new in changes:
            there = np.flatnonzero(places >= 0)
            for row, which in enumerate(firsts):
                if old[which] is not new[which]:
                    matrix[row, there, places[there]] = np.broadcast_to(new[which], places.shape)[there]
        found = _moments(matrix, offline, None if looked is None else looked[firsts][:, np.newaxis])
        for group, total, variance, lost in zip(groups.values(), *found, strict=True):
            for which in group:
                sums[which] = lost if told.aggregates[which] is LOST else total
                spreads[which] = variance if told.aggregates[which] is SPREAD else 0.0
    scores: Floats = replace(base, sums=tuple(sums), variances=tuple(spreads), leaders=leaders).score()
    return scores


def score(columns: Columns, exclusion: float = 0.0) -> float:
    """The score of these nodes."""
    return float(statistics(columns, node_values(columns), exclusion).score())
