"""Why nothing fits although there is room: nodes that could not be lost (``hspace(1)``)."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.capacity.site import Site
from ganeti_htools.engine.redundancy.node_loss import recover
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A node, and its instances that would not live on without it; all by name.

    Without instances: the node lacks the memory that it uses or keeps free already.
    """

    node: str
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Obstruction:
    """Why nothing was placed, and how many instances would have been had nobody looked (``unchecked``).

    ``more`` tells that the nodes can be lost as it is, but not with an instance more.
    """

    unchecked: int
    more: bool
    obstacles: tuple[Obstacle, ...]


def obstacles(state: State, site: Site) -> tuple[Obstacle, ...]:
    """What keeps a state from being redundant."""
    redundancy = site.redundancy(state)
    nodes, instances = state.cluster.nodes, state.cluster.instances
    found = []
    for node in np.flatnonzero(redundancy.fragile()).tolist():
        recoveries = recover(state.copy(), node, redundancy.scope)
        lost = [instances[recovery.instance].name for recovery in recoveries if recovery.node == NOWHERE]
        found.append(Obstacle(nodes[node].name, tuple(lost)))
    if not found:
        bad = state.columns.fail_n1 & ~state.columns.offline
        found = [Obstacle(nodes[node].name, ()) for node in np.flatnonzero(bad).tolist()]
    return tuple(found)


def obstruction(before: State, after: State, unchecked: int, site: Site) -> Obstruction:
    """Why nothing was placed: what is in the way before, or else after one instance came (``after``)."""
    found = obstacles(before, site)
    return Obstruction(unchecked, not found, found or obstacles(after, site))
