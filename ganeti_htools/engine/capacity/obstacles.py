"""Why nothing fits although there is room: nodes that could not be lost (``hspace(1)``)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.capacity.counting import Capacity, check_enough, standard
from ganeti_htools.engine.capacity.scope import AllocationScope, allocable_groups, online_nodes
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.redundancy.rule import recover
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind
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

    With ``more`` the nodes can be lost as the state is, but not with an instance more.
    """

    unchecked: int
    more: bool
    obstacles: tuple[Obstacle, ...]


def obstacles(state: State, scope: AllocationScope) -> tuple[Obstacle, ...]:
    """The nodes whose loss is fatal, or that fail N+1."""
    assessment = scope.assess(state)
    nodes, instances = state.cluster.nodes, state.cluster.instances
    found = []
    for node in np.flatnonzero(assessment.fragile()).tolist():
        recoveries = recover(state.copy(), node, assessment.bounds.scope)
        lost = [instances[recovery.instance].name for recovery in recoveries if recovery.node == NOWHERE]
        found.append(Obstacle(nodes[node].name, tuple(lost)))
    if not found:
        bad = redundancy_health.bad_nodes(state, state.everywhere)
        found = [Obstacle(nodes[node].name, ()) for node in np.flatnonzero(bad).tolist()]
    return tuple(found)


def obstruction(
    state: State, kind: InstanceKind, scope: AllocationScope, allocated: Callable[[AllocationScope], Capacity]
) -> Obstruction | None:
    """Why nothing was allocated on a scope, if it is redundancy that is missing, or would be with one more.

    ``allocated`` counts the instances placed with another scope.
    """
    if not (scope.closed or scope.guards(kind.mirrored)):
        return None
    nodes = online_nodes(state, allocable_groups(state))
    try:
        check_enough(state, kind.template, nodes)
    except RequestFailed:
        return None
    anywhere = replace(scope, nodes=nodes, options=replace(scope.options, capacity=False), closed=False)
    unchecked = allocated(anywhere)
    if not unchecked.placed:
        return None
    found = obstacles(state, scope)
    if found:
        return Obstruction(unchecked.placed, False, found)
    size, _ = unchecked.tiers[0]
    one = standard(state, kind, size, anywhere, 1)
    return Obstruction(unchecked.placed, True, obstacles(one.state, scope))
