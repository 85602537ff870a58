"""The cluster score: twenty weighted figures that are 0 on a perfectly even cluster (``hbal(1)``).

Most are standard deviations over the online nodes, a few are counts. A standard deviation is kept as
(count, sum, variance), so replacing one node's value costs the same on any cluster and many
candidates are scored in a few array operations. Sums run in node order and updates use the same
arithmetic as Ganeti's htools: scores are then equal to the last bit, and so are ties.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.places import free_disk_share
from ganeti_htools.model.state import Bools, Columns, Floats

SPREAD, COUNT, OFFLINE = "spread", "count", "offline"

# name, weight, and how nodes' values become one figure: a standard deviation or a sum over online
# nodes, or a sum over offline ones.
COMPONENTS = (
    ("free_mem_cv", 0.5, SPREAD),
    ("free_disk_cv", 0.5, SPREAD),
    ("n1_cnt", 1.0, COUNT),
    ("reserved_mem_cv", 1.0, SPREAD),
    ("offline_all_cnt", 4.0, OFFLINE),
    ("offline_pri_cnt", 16.0, OFFLINE),
    ("vcpu_ratio_cv", 0.5, SPREAD),
    ("cpu_load_cv", 1.0, SPREAD),
    ("mem_load_cv", 1.0, SPREAD),
    ("disk_load_cv", 1.0, SPREAD),
    ("net_load_cv", 1.0, SPREAD),
    ("pri_tags_score", 2.0, COUNT),
    ("spindles_cv", 0.5, SPREAD),
    ("free_mem_cv_forth", 0.5, SPREAD),
    ("free_disk_cv_forth", 0.5, SPREAD),
    ("vcpu_ratio_cv_forth", 0.5, SPREAD),
    ("spindles_cv_forth", 0.5, SPREAD),
    ("location_score", 1.0, COUNT),
    ("location_exclusion_score", 1.0, COUNT),
    ("reserved_mem_rtotal", 0.25, COUNT),
)
CROWDING = 18  # the one figure that is not a sum over nodes; callers say how it changes
WEIGHTS = tuple(weight for _, weight, _ in COMPONENTS)
KINDS = tuple(kind for _, _, kind in COMPONENTS)


def node_values(columns: Columns, crowding: Any = 0.0) -> list[Any]:
    """What each node contributes to each component; equal components are one object.

    ``crowding`` stands in for the instances in excess of one for each pair of location and exclusion
    tag, a figure of the whole cluster: give its change for each candidate.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        free_mem = columns.unallocated / columns.t_mem
        free_mem_forth = columns.f_mem_forth / columns.t_mem
        reserved = columns.r_mem / columns.t_mem
        cpu = columns.u_cpu / columns.t_cpu / columns.cpu_speed
        spindles = columns.inst_spindles / columns.hi_spindles
        same = columns.u_cpu_forth is columns.u_cpu
        cpu_forth = cpu if same else columns.u_cpu_forth / columns.t_cpu / columns.cpu_speed
        same = columns.inst_spindles_forth is columns.inst_spindles
        spindles_forth = spindles if same else columns.inst_spindles_forth / columns.hi_spindles
    disk = free_disk_share(columns)
    same = columns.f_dsk_forth is columns.f_dsk and columns.f_spindles_forth is columns.f_spindles
    disk_forth = disk if same else free_disk_share(columns, "_forth")
    everyone = columns.primaries + columns.secondaries
    return [
        free_mem,
        disk,
        np.where(columns.fail_n1, everyone, 0),
        reserved,
        everyone,
        columns.primaries,
        cpu,
        columns.load_cpu,
        columns.load_mem,
        columns.load_dsk,
        columns.load_net,
        columns.conflicts,
        spindles,
        free_mem_forth,
        disk_forth,
        cpu_forth,
        spindles_forth,
        columns.location,
        crowding,
        reserved,
    ]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The score's components as running figures: count of online nodes, sums and variances.

    Entries are numbers, or arrays over candidates. ``variances`` is 0 where the kind is a sum.
    """

    online: float
    sums: tuple[Any, ...]
    variances: tuple[Any, ...]

    def replaced(self, old: Sequence[Any], new: Sequence[Any], offline: Bools) -> "Statistics":
        """After the values of one node (for each candidate, one) have changed.

        ``old`` and ``new`` are from :func:`node_values`, ``offline`` tells which of the nodes are.
        Components that are one object in both have not changed and cost nothing.
        """
        n = self.online
        some, every = bool(offline.any()), bool(offline.all())
        sums, variances = list(self.sums), list(self.variances)
        done: dict[tuple[int, int, int, int], tuple[Any, Any]] = {}
        for which, (kind, x, y) in enumerate(zip(KINDS, old, new, strict=True)):
            if x is y or (every if kind is not OFFLINE else not some):
                continue
            if some and not every:
                y = np.where(offline, y, x) if kind is OFFLINE else np.where(offline, x, y)
            key = id(x), id(y), id(sums[which]), id(variances[which])
            if key not in done:
                done[key] = (
                    (sums[which] + (y - x), 0.0)
                    if kind is not SPREAD
                    else _replaced_spread(n, sums[which], variances[which], x, y)
                )
            sums[which], variances[which] = done[key]
        return Statistics(n, tuple(sums), tuple(variances))

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
        total: Any = 0.0
        for weight, value in zip(WEIGHTS, self.components(), strict=True):
            total = total + weight * value
        return total


def _replaced_spread(n: float, total: Any, variance: Any, x: Any, y: Any) -> tuple[Any, Any]:
    change = y - x
    squares = y * y - x * x
    scaled = (n * squares - 2 * total * change) - change * change
    return total + change, np.maximum(0.0, variance + scaled / (n * n))


def _in_order(values: Floats) -> Floats:
    """Row sums, added up from left to right."""
    if values.shape[-1] == 0:
        return np.zeros(values.shape[:-1])
    total: Floats = np.add.accumulate(values, axis=-1)[..., -1]
    return total


def statistics(values: Sequence[Any], offline: Bools, crowding: float = 0.0) -> Statistics:
    """The statistics of nodes in order, from :func:`node_values`. Empty spreads are nan."""
    matrix = np.array([np.broadcast_to(value, offline.shape) for value in values], np.float64)
    matrix[CROWDING] = 0.0
    online = matrix[:, ~offline]
    n = float(online.shape[1])
    sums = _in_order(online)
    with np.errstate(invalid="ignore"):
        centred = online - (sums / n if n else np.nan)[:, np.newaxis]
        variances = _in_order(centred * centred) / n if n else np.full(len(sums), np.nan)
    lost = _in_order(matrix[:, offline])
    first: dict[int, int] = {}
    same = [first.setdefault(id(value), which) for which, value in enumerate(values)]
    spreads = list(zip(sums.tolist(), variances.tolist(), strict=True))
    figures = [
        spreads[same[which]] if kind is SPREAD else (float((lost if kind is OFFLINE else sums)[which]), 0.0)
        for which, kind in enumerate(KINDS)
    ]
    figures[CROWDING] = crowding, 0.0
    return Statistics(n, tuple(total for total, _ in figures), tuple(spread for _, spread in figures))


def score(columns: Columns, crowding: float = 0.0) -> float:
    """The score of these nodes."""
    return float(statistics(node_values(columns), columns.offline, crowding).score())
