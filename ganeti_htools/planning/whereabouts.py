"""Where an instance is, and what moving it would do to the score as it is now."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.explaining.possible_moves import possible_moves
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View

MOST = 3  # moves that are told


@dataclass(frozen=True, slots=True)
class Other:
    """Another place in the group: the nodes, primary first, and the score then."""

    nodes: Sequence[str]
    score: float


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where an instance is: group and nodes, primary first; the group's score, and the best other places.

    ``tried`` is how many other places were looked at, ``fit`` how many of them it might have.
    """

    instance: str
    group: str
    nodes: Sequence[str]
    score: float
    others: Sequence[Other]
    tried: int
    fit: int


def whereabouts(cluster: Cluster, name: str) -> Whereabouts:
    """Where an instance is, given its name or the beginning of it up to a dot. Raises HtoolsError."""
    state = view.state_of(cluster, View())
    row = view.instance(state, name)
    group = int(state.group[state.pnode[row]])
    scope, chosen = state.group == group, np.zeros(len(state.pnode), np.bool_)
    chosen[row] = not view.split(state)[row]
    moves = possible_moves(state, scope, chosen, BalancingOptions()).get(row, [])
    place = int(state.pnode[row]), int(state.snode[row])

    def nodes(pnode: int, snode: int) -> list[str]:
        return state.names(node for node in (pnode, snode) if node != NOWHERE)

    fit = [
        Other(nodes(*move.kind.nodes(*place, move.node)), move.place.score)
        for move in moves
        if not move.place.why
    ]
    return Whereabouts(
        cluster.instances[row].name,
        cluster.groups[group].name,
        nodes(*place),
        score_of(state, scope),
        sorted(fit, key=lambda other: other.score)[:MOST],
        len(moves),
        len(fit),
    )
