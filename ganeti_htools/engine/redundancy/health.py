"""Health of a cluster: nodes that fail N+1, and losses that it would not survive (``hcheck(1)``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.redundancy.recoverability import recoveries, takers
from ganeti_htools.engine.redundancy.rule import Means, Recovery, recover
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, sorted_unique
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class RedundancyHealth:
    """Counts of faults, as Ganeti's tools count them; 0 is good.

    Nodes that fail N+1, nodes with primaries that exclude each other, instances whose primary is offline,
    nodes that are offline (which ``hcheck(1)`` calls instances with their secondary offline), and nodes
    without which not all instances would live on, None if nobody asked.
    """

    n1_fail: int
    conflict_tags: int
    offline_pri: int
    offline_nodes: int
    gn1_fail: int | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """All that was counted, in order."""
        counts = (self.n1_fail, self.conflict_tags, self.offline_pri, self.offline_nodes)
        return counts if self.gn1_fail is None else (*counts, self.gn1_fail)


@dataclass(frozen=True, slots=True)
class Loss:
    """A node (row) that is lost: where each of its instances comes back, and how many others lose their
    secondary.

    ``fullest`` has for each resource the fullest node (row) that takes instances afterwards, with the used
    share.
    """

    node: int
    recoveries: tuple[Recovery, ...]
    unmirrored: int
    fullest: Mapping[str, tuple[int, float]]

    @property
    def lost(self) -> int:
        """The number of instances that do not come back."""
        return sum(recovery.node == NOWHERE for recovery in self.recoveries)

    @property
    def recreated(self) -> int:
        """The number of instances that come back without their data."""
        return sum(
            recovery.node != NOWHERE and recovery.kind is Means.RECREATE for recovery in self.recoveries
        )

    @property
    def restarted(self) -> int:
        """The number of instances that come back with their data."""
        return len(self.recoveries) - self.lost - self.recreated


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The number of nodes that may be lost in turn until an instance loses its data or does not come
    back, and until one does not come back; those with the most memory first. Instances do not get new
    mirrors in between.
    """

    intact: int
    recreating: int


def bad_nodes(state: State, scope: Bools) -> Bools:
    """Online nodes in scope with less memory free than they have to keep for one that fails."""
    bad: Bools = scope & state.columns.fail_n1 & ~state.columns.offline
    return bad


def bad_instances(state: State, scope: Bools) -> Bools:
    bad = bad_nodes(state, scope)
    found: Bools = (bad[state.pnode] | (bad[state.snode] & (state.snode != NOWHERE))) & ~state.forthcoming
    return found


def groups(state: State) -> list[int]:
    """Rows of the node groups that have nodes."""
    rows: list[int] = sorted_unique(state.group).tolist()
    return rows


def fragile_nodes(state: State, scope: Bools) -> Bools:
    """Nodes that cannot be lost with all their instances living on in ``scope``, by Ganeti's rule.

    Drained and offline nodes in scope take instances if they report room; see :mod:`.recoverability`.
    """
    return assess(state, scope, PlacementOptions()).fragile()


def health(state: State, scope: Bools, capacity: bool = True) -> RedundancyHealth:
    """The health of a group: the nodes in scope. ``capacity``: also count nodes that cannot be lost."""
    columns = state.columns
    offline = scope & columns.offline
    return RedundancyHealth(
        n1_fail=int(np.count_nonzero(bad_nodes(state, scope))),
        conflict_tags=int(np.count_nonzero(columns.conflicts[scope])),
        offline_pri=int(columns.primaries[offline].sum()),
        offline_nodes=int(np.count_nonzero(offline)),
        gn1_fail=int(np.count_nonzero(fragile_nodes(state, scope))) if capacity else None,
    )


def total(parts: Sequence[RedundancyHealth], capacity: bool = True) -> RedundancyHealth:
    return RedundancyHealth(
        *(sum(part.counts[which] for part in parts) for which in range(5 if capacity else 4))
    )


def lose(state: State, node: int) -> Loss:
    """Lose a node: the recovery of each of its instances. No other offline node takes any."""
    unmirrored = int(np.count_nonzero((state.snode == node) & ~state.forthcoming))
    after = state.copy()
    found = tuple(recoveries(after, node))
    rows = np.flatnonzero(takers(state, node))
    shares = used_shares(after.columns.take(rows)) if len(rows) else {}
    fullest = {name: (int(rows[each.argmax()]), float(each.max())) for name, each in shares.items()}
    return Loss(node, found, unmirrored, fullest)


def used_shares(columns: Columns) -> dict[str, Floats]:
    """Compute the used share of each resource on each node; the limits of CPUs and spindles are the policy's.

    Nodes with exclusive storage have the spindles that they report. Where there is nothing to use, it is 0.
    """
    exclusive = columns.excl_stor
    resources: dict[str, tuple[Any, Any]] = {
        "memory": (columns.t_mem - columns.unallocated, columns.t_mem),
        "disk": (columns.t_dsk - columns.f_dsk, columns.t_dsk),
        "cpus": (columns.u_cpu, columns.t_cpu * columns.vcpu_ratio),
        "spindles": (
            np.where(exclusive, columns.t_spindles - columns.f_spindles, columns.inst_spindles),
            np.where(exclusive, columns.t_spindles, columns.hi_spindles),
        ),
    }
    return {
        name: np.divide(used, total, out=np.zeros(len(exclusive)), where=total > 0)
        for name, (used, total) in resources.items()
    }


def tolerance(state: State, scope: Bools) -> Tolerance:
    state, up, intact = state.copy(), ~state.columns.offline, None
    rows = np.flatnonzero(scope & up)
    rows = rows[np.argsort(-state.columns.t_mem[rows], kind="stable")]
    count = 0
    for node in rows.tolist():
        recoveries = list(recover(state, node, scope, up, every=True))
        if intact is None and any(recovery.kind is Means.RECREATE for recovery in recoveries):
            intact = count
        if any(recovery.node == NOWHERE for recovery in recoveries):
            break
        up[node] = False
        count += 1
    return Tolerance(count if intact is None else intact, count)
