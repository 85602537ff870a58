"""Report of an instance: its place, and the best other places with their scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import existing
from ganeti_htools.model.load import LoadMode
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View

MAX_OTHERS = 3


@dataclass(frozen=True, slots=True)
class OtherPlacement:
    """Another placement in the group: its nodes, primary first, and the score that results."""

    nodes: Sequence[str]
    score: float


@dataclass(frozen=True, slots=True)
class PlacementReport:
    """The group and nodes (primary first) of an instance, the group's score, and the best other placements.

    ``tried`` counts the other placements, ``fit`` those that are possible.
    """

    instance: str
    group: str
    nodes: Sequence[str]
    score: float
    others: Sequence[OtherPlacement]
    tried: int
    fit: int


def placement_report(cluster: Cluster, name: str, load: LoadMode = "none") -> PlacementReport:
    """Report an instance by name, which may be cut off at a dot. Raises HtoolsError."""
    state = view.state_of(cluster, View(load=load))
    row = view.instance(state, name)
    group = int(state.group[state.pnode[row]])
    scope, chosen = state.group == group, np.zeros(len(state.pnode), np.bool_)
    chosen[row] = not view.across_groups(state)[row]
    moves = possible_moves(state, scope, chosen, BalancingOptions()).get(row, [])
    place = state.node_pair(row)

    def nodes(pnode: int, snode: int) -> list[str]:
        return state.names(existing(pnode, snode))

    fit = [
        OtherPlacement(nodes(*move.kind.nodes(*place, move.node)), move.place.score)
        for move in moves
        if not move.place.why
    ]
    return PlacementReport(
        cluster.instances[row].name,
        cluster.groups[group].name,
        nodes(*place),
        score_of(state, scope),
        sorted(fit, key=lambda other: other.score)[:MAX_OTHERS],
        len(moves),
        len(fit),
    )
