"""Candidates for powering down and up."""

from collections.abc import Collection

import numpy as np

from ganeti_htools.engine.squeezing.power_plan import AllowedMoves
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import standby, standby_priority
from ganeti_htools.model.types import DiskTemplate

OWN_STORAGE = "has instances on its own storage"
MIRRORS = "is secondary node of instances"

# Templates of instances that stay on their nodes.
_STAYING = {
    AllowedMoves.POOLS: {DiskTemplate.PLAIN, DiskTemplate.DRBD},
    AllowedMoves.DRBD: {DiskTemplate.PLAIN},
    AllowedMoves.ALL: set[DiskTemplate](),
}


def obstacles_to_power_down(state: State, allowed: AllowedMoves = AllowedMoves.POOLS) -> dict[int, str]:
    """Return the reasons why nodes can never be powered down, by row."""
    settled = ~state.forthcoming
    templates = [row.template for row in state.cluster.instances]
    local = settled & np.array([each in _STAYING[allowed] for each in templates], np.bool_)
    hosts = set(state.pnode[local].tolist())
    mirrors = set(state.snode[settled & (state.snode >= 0)].tolist())
    reasons: dict[int, str] = {}
    for row, node in enumerate(state.cluster.nodes):
        if node.master:
            reasons[row] = "is the master"
        elif node.in_maintenance:
            reasons[row] = "is in maintenance"
        elif state.columns.offline[row]:
            reasons[row] = "is offline or drained"
        elif row in hosts:
            reasons[row] = OWN_STORAGE
        elif row in mirrors and allowed is AllowedMoves.POOLS:
            reasons[row] = MIRRORS
    return reasons


def offline_candidates(state: State, allowed: AllowedMoves = AllowedMoves.POOLS) -> Ints:
    """Return the nodes that may be powered down, those with the most instances first.

    They are online, not the master, and have only instances that may leave them.
    """
    kept = obstacles_to_power_down(state, allowed)
    rows = np.array([row for row in range(len(state.group)) if row not in kept], np.int64)
    hosted = np.bincount(state.pnode[~state.forthcoming], minlength=len(state.group))
    return rows[np.argsort(-hosted[rows], kind="stable")]


def lacks_master_candidates(state: State, online: Bools) -> bool:
    """Whether too few nodes that can be master candidates would stay ``online``.

    The limit is the number that Ganeti wants, or 2 in a cluster with fewer such nodes.
    """
    nodes, wanted = state.cluster.nodes, state.cluster.candidate_pool
    if wanted is None:
        return False
    capable = np.array([node.master_capable is True for node in nodes], np.bool_)
    needed = wanted if np.count_nonzero(capable) >= wanted else 2
    left, had = (int(np.count_nonzero(capable & each)) for each in (online, ~state.columns.offline))
    return left < min(needed, had)


def drained_with_promotion(cluster: Cluster, names: Collection[str]) -> frozenset[str]:
    """Return the nodes (names) to drain, in any order, that others must replace as master candidates.

    They are the candidates among them if fewer candidates would remain than Ganeti wants: it then refuses to
    drain them without ``auto_promote`` (``LUNodeSetParams``). None if the source does not name candidates.
    """
    candidates = {node.name for node in cluster.nodes if node.master_candidate}
    able = candidates | {node.name for node in cluster.nodes if node.master_capable and not node.offline}
    leaving = candidates.intersection(names)
    enough = len(candidates - leaving) >= min(len(able - leaving), cluster.candidate_pool or 0)
    return frozenset() if enough else frozenset(leaving)


def candidate_pool_for(cluster: Cluster, nodes: Collection[Node]) -> int | None:
    """Return the number of master candidates that these nodes must provide if all others stay as they are."""
    if cluster.candidate_pool is None:
        return None
    names = {node.name for node in nodes}
    others = [node for node in cluster.nodes if node.name not in names and not node.closed]
    return max(0, cluster.candidate_pool - sum(node.master_capable is True for node in others))


def online_candidates(state: State) -> Ints:
    """Return the nodes that may be powered up: offline with a standby tag, not just drained, not in
    maintenance.

    Nodes with lower priorities in their tags come first, then those without one, each in input order.
    """
    nodes = state.cluster.nodes
    tagged = np.array(
        [standby(node.tags) and not (node.drained or node.in_maintenance) for node in nodes], np.bool_
    )
    rows = np.flatnonzero(state.columns.offline & tagged)
    priorities = np.array([standby_priority(nodes[row].tags) for row in rows], np.float64)
    return rows[np.argsort(priorities, kind="stable")]
