"""The cluster score: twenty weighted figures that are 0 on a perfectly even cluster (``hbal(1)``).

Most are standard deviations over the online nodes, a few are counts. A standard deviation is kept as
(count, sum, variance), so replacing one node's value costs the same on any cluster and many
candidates are scored in a few array operations. Sums run in node order and updates use the same
arithmetic as Ganeti's htools: scores are then equal to the last bit, and so are ties.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules.components import (
    AGGREGATES,
    COMPONENTS,
    CROWDING,
    LOST,
    PARTS,
    SPREAD,
    WEIGHTS,
)
from ganeti_htools.model.columns import Bools, Columns, Floats, Ints


def node_values(columns: Columns, before: tuple[Columns, Sequence[Any]] | None = None) -> list[Any]:
    """What each node contributes to each component.

    Components with the same formula over the same columns are one object, as the forthcoming ones are
    while a cluster has no forthcoming instances; so are values of ``before`` (columns with their values)
    whose columns are the same objects.
    """
    known: dict[Any, Any] = {}
    values = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for which, (component, parts) in enumerate(zip(COMPONENTS, PARTS, strict=True)):
            figures = [columns[part] for part in parts]
            if before and all(figure is before[0][part] for figure, part in zip(figures, parts, strict=True)):
                values.append(before[1][which])
                continue
            key = component.formula, *map(id, figures)
            if key not in known:
                known[key] = component.formula(columns, *figures)
            values.append(known[key])
    return values


def changed(which: int, old: Columns, new: Columns) -> tuple[Any, Any] | None:
    """What nodes contribute to a component before and after, None if it is made of the same columns."""
    if all(old[part] is new[part] for part in PARTS[which]):
        return None
    return COMPONENTS[which].of(old), COMPONENTS[which].of(new)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The score's components as running figures: count of online nodes, sums and variances.

    Entries are numbers, or arrays over candidates. ``variances`` is 0 where the aggregate is a sum.
    """

    online: float
    sums: tuple[Any, ...]
    variances: tuple[Any, ...]

    @property
    def rated(self) -> bool:
        """Whether there is a score: none is a number once an online node reports 0 CPUs or memory, or has no
        spindles. This is so for all candidates then, for no placement changes what is divided by.
        """
        return math.isfinite(sum(self.sums))

    def repaired(self) -> "Statistics":
        """With 0 for variances that are no numbers: what Ganeti's htools make of them in an update."""
        return replace(self, variances=tuple(0.0 if math.isnan(each) else each for each in self.variances))

    def replaced(self, old: Sequence[Any], new: Sequence[Any], offline: Bools) -> "Statistics":
        """After the values of one node (for each candidate, one) have changed.

        ``old`` and ``new`` are from :func:`node_values`, ``offline`` tells which of the nodes are.
        Components that are one object in both have not changed and cost nothing.
        """
        n = self.online
        if not n:
            return self
        some, every = bool(offline.any()), bool(offline.all())
        sums, variances = list(self.sums), list(self.variances)
        done: dict[tuple[int, int, int, int], tuple[Any, Any]] = {}
        for which, (aggregate, x, y) in enumerate(zip(AGGREGATES, old, new, strict=True)):
            if x is y or (every if aggregate is not LOST else not some):
                continue
            key = id(x), id(y), id(sums[which]), id(variances[which])
            if key in done:
                sums[which], variances[which] = done[key]
                continue
            if some and not every:
                # The others may report nothing, and have no number to subtract.
                counts = offline if aggregate is LOST else ~offline
                x, y = np.where(counts, x, 0.0), np.where(counts, y, 0.0)
            if aggregate is SPREAD:
                done[key] = replaced_spread(n, sums[which], variances[which], x, y)
            else:
                done[key] = sums[which] + (y - x), 0.0
            sums[which], variances[which] = done[key]
        return Statistics(n, tuple(sums), tuple(variances))

    def rows(self, block: slice) -> "Statistics":
        """The statistics of some rows, where candidates stand in rows and columns."""
        return Statistics(
            self.online, tuple(rows_of(self.sums, block)), tuple(rows_of(self.variances, block))
        )

    def components(self) -> Iterator[Any]:
        """The value of each component, unweighted."""
        roots: dict[int, Any] = {}
        for aggregate, total, variance in zip(AGGREGATES, self.sums, self.variances, strict=True):
            if aggregate is SPREAD:
                if id(variance) not in roots:
                    roots[id(variance)] = np.sqrt(variance)
                yield roots[id(variance)]
            else:
                yield total

    def score(self) -> Any:
        """The weighted sum of all components, for each candidate."""
        values = list(self.components())
        return weighted(values, np.broadcast_shapes(*{np.shape(value) for value in values}))


def weighted(values: Iterable[Any], shape: tuple[int, ...]) -> Any:
    """The weighted sum, in this shape, of values as :meth:`Statistics.components` gives them."""
    total = np.zeros(shape)
    for weight, value in zip(WEIGHTS, values, strict=True):
        total += value if weight == 1.0 else weight * value
    return total


def rows_of(values: Sequence[Any], block: slice) -> list[Any]:
    """Some rows of each of the arrays that have more than one; what is one object stays one object."""
    sliced = {id(value): value for value in values}
    for key, value in sliced.items():
        if np.ndim(value) == 2 and len(value) > 1:
            sliced[key] = value[block]
    return [sliced[id(value)] for value in values]


def replaced_spread(n: float, total: Any, variance: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Sum and variance of ``n`` values after one (for each candidate, one) has changed from x to y."""
    total, variance = spread_after(n, total, variance, *spread_change(n, x, y))
    if np.ndim(variance) == 0:
        return total, max(0.0, variance)
    return total, np.fmax(variance, 0.0, out=variance)


def spread_change(n: float, x: Any, y: Any) -> tuple[Any, Any]:
    """What a change from x to y adds to the sum of ``n`` values; and ``n`` times what to that of squares."""
    return y - x, n * (y * y - x * x)


def spread_after(n: float, total: Any, variance: Any, change: Any, squares: Any) -> tuple[Any, Any]:
    """Sum and variance of ``n`` values after what :func:`spread_change` gives for a change.

    Rounding may leave the variance a little below 0.
    """
    scaled = squares - 2 * total * change
    scaled -= change * change
    scaled /= n * n
    scaled += variance
    return total + change, scaled


def in_order(values: Floats) -> Floats:
    """Sums along the last axis, added up from left to right."""
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1])
    total: Floats = np.add.accumulate(values, axis=-1)[..., -1]
    return total


def moments(values: Floats) -> tuple[Floats, Floats]:
    """Sums and variances along the last axis, which is not empty, added up from left to right."""
    n = float(values.shape[-1])
    sums = in_order(values)
    centred = values - (sums / n)[..., np.newaxis]
    centred *= centred
    return sums, in_order(centred) / n


def _moments(values: Floats, offline: Bools) -> tuple[Floats, Floats, Floats]:
    """For each row of nodes' values, added up in node order: the sum and variance of those that are online,
    and the sum of those that are offline. There is an online node.
    """
    return *moments(values[:, ~offline]), in_order(values[:, offline])


def statistics(values: Sequence[Any], offline: Bools, crowding: float = 0.0) -> Statistics:
    """The statistics of nodes in order, from :func:`node_values`; all 0 without online nodes."""
    matrix = np.array([np.broadcast_to(value, offline.shape) for value in values], np.float64)
    n = float(np.count_nonzero(~offline))
    if not n:
        return Statistics(n, (0.0,) * len(AGGREGATES), (0.0,) * len(AGGREGATES))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # nodes that report nothing
        sums, variances, lost = (each.tolist() for each in _moments(matrix, offline))
    first: dict[int, int] = {}
    same = [first.setdefault(id(value), which) for which, value in enumerate(values)]
    figures = [
        (sums[same[which]], variances[same[which]])
        if aggregate is SPREAD
        else ((lost if aggregate is LOST else sums)[which], 0.0)
        for which, aggregate in enumerate(AGGREGATES)
    ]
    figures[CROWDING] = crowding, 0.0
    return Statistics(n, tuple(total for total, _ in figures), tuple(spread for _, spread in figures))


def variants(
    values: Sequence[Any],
    changes: Sequence[tuple[Ints, Sequence[Any], Sequence[Any]]],
    offline: Bools,
    crowding: Floats,
) -> Floats:
    """The scores of many variants of nodes, each computed afresh as :func:`statistics` does.

    ``values`` are from :func:`node_values`. A change gives every variant one node (by position, NOWHERE
    for none) another value: positions, old values and new values (the same object where they are).
    """
    base, number = statistics(values, offline), len(crowding)
    sums, spreads = list(base.sums), list(base.variances)
    sums[CROWDING] = crowding
    groups: dict[int, list[int]] = {}  # components that change, those with the same values together
    for which, aggregate in enumerate(AGGREGATES):
        if any(old[which] is not new[which] for _, old, new in changes):
            groups.setdefault(id(values[which]) if aggregate is SPREAD else -1 - which, []).append(which)
    if groups:
        firsts = [group[0] for group in groups.values()]
        matrix = np.empty((len(groups), number, len(offline)))
        matrix[:] = np.array([values[which] for which in firsts], np.float64)[:, np.newaxis]
        for places, old, new in changes:
            there = np.flatnonzero(places >= 0)
            for row, which in enumerate(firsts):
                if old[which] is not new[which]:
                    matrix[row, there, places[there]] = np.broadcast_to(new[which], places.shape)[there]
        found = [
            each.reshape(len(groups), number) for each in _moments(matrix.reshape(-1, len(offline)), offline)
        ]
        for group, total, variance, lost in zip(groups.values(), *found, strict=True):
            for which in group:
                sums[which] = lost if AGGREGATES[which] is LOST else total
                spreads[which] = variance if AGGREGATES[which] is SPREAD else 0.0
    scores: Floats = Statistics(base.online, tuple(sums), tuple(spreads)).score()
    return scores


def score(columns: Columns, crowding: float = 0.0) -> float:
    """The score of these nodes."""
    return float(statistics(node_values(columns), columns.offline, crowding).score())
