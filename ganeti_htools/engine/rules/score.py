"""The cluster score: twenty weighted figures that are 0 on a perfectly even cluster (``hbal(1)``).

Most are standard deviations over the online nodes, a few are counts. A standard deviation is kept as
(count, sum, variance), so replacing one node's value costs the same on any cluster and many
candidates are scored in a few array operations. Sums run in node order and updates use the same
arithmetic as Ganeti's htools: scores are then equal to the last bit, and so are ties.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, is_
from typing import Any

import numpy as np

from ganeti_htools.engine.rules.node_rules import free_disk_share
from ganeti_htools.model.columns import Bools, Columns, Floats, Ints

SPREAD, COUNT, OFFLINE = "spread", "count", "offline"


def _free_mem(c: Columns) -> Any:
    return c.unallocated / c.t_mem


def _reserved(c: Columns) -> Any:
    return c.r_mem / c.t_mem


def _everyone(c: Columns) -> Any:
    return c.primaries + c.secondaries


UNCHANGED: Floats = np.zeros(())

# name, weight, how the nodes' values become one figure (a standard deviation or a sum over the online
# nodes, or a sum over the offline ones), what a node contributes, and the columns this is made of.
COMPONENTS: tuple[tuple[str, float, str, Callable[[Columns], Any], tuple[str, ...]], ...] = (
    ("free_mem_cv", 0.5, SPREAD, _free_mem, ("i_mem",)),
    ("free_disk_cv", 0.5, SPREAD, free_disk_share, ("f_dsk", "f_spindles")),
    (
        "n1_cnt",
        1.0,
        COUNT,
        lambda c: np.where(c.fail_n1, c.primaries + c.secondaries, 0),
        ("fail_n1", "primaries", "secondaries"),
    ),
    ("reserved_mem_cv", 1.0, SPREAD, _reserved, ("r_mem",)),
    ("offline_all_cnt", 4.0, OFFLINE, _everyone, ("primaries", "secondaries")),
    ("offline_pri_cnt", 16.0, OFFLINE, lambda c: c.primaries, ("primaries",)),
    ("vcpu_ratio_cv", 0.5, SPREAD, lambda c: c.u_cpu / c.t_cpu / c.cpu_speed, ("u_cpu",)),
    ("cpu_load_cv", 1.0, SPREAD, lambda c: c.load_cpu, ("load_cpu",)),
    ("mem_load_cv", 1.0, SPREAD, lambda c: c.load_mem, ("load_mem",)),
    ("disk_load_cv", 1.0, SPREAD, lambda c: c.load_dsk, ("load_dsk",)),
    ("net_load_cv", 1.0, SPREAD, lambda c: c.load_net, ("load_net",)),
    ("pri_tags_score", 2.0, COUNT, lambda c: c.conflicts, ("conflicts",)),
    ("spindles_cv", 0.5, SPREAD, lambda c: c.inst_spindles / c.hi_spindles, ("inst_spindles",)),
    ("free_mem_cv_forth", 0.5, SPREAD, lambda c: c.f_mem_forth / c.t_mem, ("f_mem_forth",)),
    (
        "free_disk_cv_forth",
        0.5,
        SPREAD,
        lambda c: free_disk_share(c, "_forth"),
        ("f_dsk_forth", "f_spindles_forth"),
    ),
    ("vcpu_ratio_cv_forth", 0.5, SPREAD, lambda c: c.u_cpu_forth / c.t_cpu / c.cpu_speed, ("u_cpu_forth",)),
    (
        "spindles_cv_forth",
        0.5,
        SPREAD,
        lambda c: c.inst_spindles_forth / c.hi_spindles,
        ("inst_spindles_forth",),
    ),
    ("location_score", 1.0, COUNT, lambda c: c.location, ("location",)),
    # Instances in excess of one for each pair of location and exclusion tag: a figure of the whole
    # cluster, to which callers add.
    ("location_exclusion_score", 1.0, COUNT, lambda c: UNCHANGED, ()),
    ("reserved_mem_rtotal", 0.25, COUNT, _reserved, ("r_mem",)),
)
CROWDING = 18
WEIGHTS = tuple(weight for _, weight, _, _, _ in COMPONENTS)
KINDS = tuple(kind for _, _, kind, _, _ in COMPONENTS)
# Components with the same formula are one object where they are made of the same columns, as the
# forthcoming ones are while a cluster has no forthcoming instances.
FAMILY = tuple({14: 1, 15: 6, 16: 12, 19: 3}.get(which, which) for which in range(len(COMPONENTS)))


def node_values(columns: Columns, before: tuple[Columns, Sequence[Any]] | None = None) -> list[Any]:
    """What each node contributes to each component.

    Components made of the same columns are one object; so are values of ``before`` (columns with
    their values) whose columns are the same objects.
    """
    known: dict[tuple[int, ...], Any] = {}
    values = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for which, (_, _, _, value, names) in enumerate(COMPONENTS):
            used = [id(getattr(columns, name)) for name in names]
            if before and used == [id(getattr(before[0], name)) for name in names]:
                values.append(before[1][which])
                continue
            key = (FAMILY[which], *used)
            if key not in known:
                known[key] = value(columns)
            values.append(known[key])
    return values


_PARTS = tuple(attrgetter(*names) if names else None for _, _, _, _, names in COMPONENTS)


def changed(which: int, old: Columns, new: Columns) -> tuple[Any, Any] | None:
    """What nodes contribute to a component before and after, None if it is made of the same columns."""
    parts = _PARTS[which]
    if parts is None:
        return None
    before, after = parts(old), parts(new)
    if before is after or (isinstance(before, tuple) and all(map(is_, before, after))):
        return None
    value = COMPONENTS[which][3]
    return value(old), value(new)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The score's components as running figures: count of online nodes, sums and variances.

    Entries are numbers, or arrays over candidates. ``variances`` is 0 where the kind is a sum.
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
        for which, (kind, x, y) in enumerate(zip(KINDS, old, new, strict=True)):
            if x is y or (every if kind is not OFFLINE else not some):
                continue
            key = id(x), id(y), id(sums[which]), id(variances[which])
            if key in done:
                sums[which], variances[which] = done[key]
                continue
            if some and not every:
                # The others may report nothing, and have no number to subtract.
                counts = offline if kind is OFFLINE else ~offline
                x, y = np.where(counts, x, 0.0), np.where(counts, y, 0.0)
            if kind is SPREAD:
                done[key] = replaced_spread(n, sums[which], variances[which], x, y)
            else:
                done[key] = sums[which] + (y - x), 0.0
            sums[which], variances[which] = done[key]
        return Statistics(n, tuple(sums), tuple(variances))

    def rows(self, block: slice) -> "Statistics":
        """The same for some rows of candidates that stand in rows and columns."""
        return Statistics(
            self.online, tuple(rows_of(self.sums, block)), tuple(rows_of(self.variances, block))
        )

    def components(self) -> Iterator[Any]:
        """The value of each component, unweighted."""
        roots: dict[int, Any] = {}
        for kind, total, variance in zip(KINDS, self.sums, self.variances, strict=True):
            if kind is SPREAD:
                if id(variance) not in roots:
                    roots[id(variance)] = np.sqrt(variance)
                yield roots[id(variance)]
            else:
                yield total

    def score(self) -> Any:
        """The weighted sum of all components, for each candidate."""
        values = list(self.components())
        total = np.zeros(np.broadcast_shapes(*{np.shape(value) for value in values}))
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
    change = y - x
    squares = y * y - x * x
    scaled = n * squares - 2 * total * change
    if np.ndim(scaled) == 0:
        return total + change, max(0.0, variance + (scaled - change * change) / (n * n))
    scaled -= change * change
    scaled /= n * n
    if np.ndim(variance) < 2 or np.shape(variance) == np.shape(scaled):
        scaled += variance
    else:
        scaled = scaled + variance
    return total + change, np.fmax(scaled, 0.0, out=scaled)


def _in_order(values: Floats) -> Floats:
    """Row sums, added up from left to right."""
    padded = np.concatenate([np.zeros((len(values), 1)), values], axis=1)
    sums: Any = np.add.accumulate(padded, axis=1)
    total: Floats = sums[:, -1]
    return total


def statistics(values: Sequence[Any], offline: Bools, crowding: float = 0.0) -> Statistics:
    """The statistics of nodes in order, from :func:`node_values`; all 0 without online nodes."""
    matrix = np.array([np.broadcast_to(value, offline.shape) for value in values], np.float64)
    online = matrix[:, ~offline]
    n = float(online.shape[1])
    if not n:
        return Statistics(n, (0.0,) * len(KINDS), (0.0,) * len(KINDS))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # nodes that report nothing
        sums, lost = _in_order(online), _in_order(matrix[:, offline])
        centred = online - (sums / n)[:, np.newaxis]
        variances = _in_order(centred * centred) / n
    first: dict[int, int] = {}
    same = [first.setdefault(id(value), which) for which, value in enumerate(values)]
    spreads = list(zip(sums.tolist(), variances.tolist(), strict=True))
    figures = [
        spreads[same[which]] if kind is SPREAD else (float((lost if kind is OFFLINE else sums)[which]), 0.0)
        for which, kind in enumerate(KINDS)
    ]
    figures[CROWDING] = crowding, 0.0
    return Statistics(n, tuple(total for total, _ in figures), tuple(spread for _, spread in figures))


def variants(
    values: Sequence[Any],
    changes: Sequence[tuple[Ints, Sequence[Any], Sequence[Any]]],
    offline: Bools,
    crowding: Floats,
) -> Floats:
    """The scores of many variants of nodes, each computed from nothing like :func:`statistics`.

    ``values`` are from :func:`node_values`. A change gives every variant one node (by position, NOWHERE
    for none) another value: positions, old values and new values (the same object where they are).
    """
    base, number = statistics(values, offline), len(crowding)
    sums, spreads = list(base.sums), list(base.variances)
    sums[CROWDING] = crowding
    rows: dict[int, int] = {}  # of the components that change, among these
    for which, kind in enumerate(KINDS):
        if any(old[which] is not new[which] for _, old, new in changes):
            rows.setdefault(id(values[which]) if kind is SPREAD else -1 - which, which)
    made = list(rows.values())
    if not made:
        return np.broadcast_to(Statistics(base.online, tuple(sums), tuple(spreads)).score(), (number,))
    matrix = np.empty((len(made), number, len(offline)))
    matrix[:] = np.array([values[which] for which in made], np.float64)[:, np.newaxis]
    for places, old, new in changes:
        there = np.flatnonzero(places >= 0)
        for row, which in enumerate(made):
            if old[which] is not new[which]:
                matrix[row, there, places[there]] = np.broadcast_to(new[which], places.shape)[there]
    flat = matrix.reshape(-1, len(offline))
    online = flat[:, ~offline]
    totals: Any = _in_order(online)
    centred = online - (totals / base.online)[:, np.newaxis]
    variances = (_in_order(centred * centred) / base.online).reshape(len(made), number)
    totals = totals.reshape(len(made), number)
    lost: Any = _in_order(flat[:, offline]).reshape(len(made), number)
    row_of = {key: row for row, key in enumerate(rows)}
    for which, kind in enumerate(KINDS):
        found = row_of.get(id(values[which]) if kind is SPREAD else -1 - which)
        if found is not None:
            sums[which] = lost[found] if kind is OFFLINE else totals[found]
            spreads[which] = variances[found] if kind is SPREAD else 0.0
    scores: Floats = Statistics(base.online, tuple(sums), tuple(spreads)).score()
    return scores


def score(columns: Columns, crowding: float = 0.0) -> float:
    """The score of these nodes."""
    return float(statistics(node_values(columns), columns.offline, crowding).score())
