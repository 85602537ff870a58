"""The scope of an allocation: the nodes that take new instances, and the redundancy that has to hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.solution import Solution
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.redundancy.assessment import Assessment, assess, excusing
from ganeti_htools.engine.redundancy.cache import LossCache
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.pools import NO_POOLS, PoolRoom, pool_room
from ganeti_htools.model.columns import Bools, Ints, sorted_unique
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy


@dataclass(frozen=True, slots=True)
class AllocationScope:
    """The online ``nodes`` (rows) that may take instances, and the rules that hold.

    The loss of ``ignored`` nodes need not be survived. A ``closed`` scope takes nothing at all, because some
    node is not N+1. ``pools`` is the free space of pools.
    """

    nodes: Ints
    ignored: Bools
    options: PlacementOptions
    progress: Callable[[int], object] = lambda placed: None
    cache: LossCache = field(default_factory=LossCache)
    closed: bool = False
    pools: PoolRoom = NO_POOLS

    def guards(self, mirrored: bool) -> bool:
        """Whether every node must survive a loss with each such instance that is placed."""
        return self.options.capacity and not (mirrored and self.options.accept_existing)

    def assess(self, state: State) -> Assessment:
        return excusing(assess(state, state.everywhere, self.options, self.ignored, self.cache))


def bad_groups(state: State, options: PlacementOptions) -> Bools:
    """The groups (by row) in which some node cannot be lost."""
    groups = range(len(state.cluster.groups))
    return np.array(
        [not excusing(assess(state, state.group == row, options)).holds() for row in groups], np.bool_
    )


def allocable_groups(state: State) -> Bools:
    """The groups (by row) to which the administrator lets instances be allocated."""
    policies = [group.alloc_policy for group in state.cluster.groups]
    return np.array([policy is not AllocPolicy.UNALLOCABLE for policy in policies], np.bool_)


def online_nodes(state: State, groups: Bools) -> Ints:
    """Rows of the online nodes of some groups (by row)."""
    return np.flatnonzero(~state.columns.offline & groups[state.group])


def chosen_scope(state: State, options: PlacementOptions, apart: Bools | None = None) -> AllocationScope:
    """The scope of an allocation (``hspace(1)``).

    A node that is not N+1 rules out its group, and with it the whole cluster; no node does where existing
    errors are accepted. Groups that stand on their own (``--independent-groups``) rule out only themselves,
    as long as one is left; ``apart`` tells which of them are not redundant, and so ruled out as well.
    """
    nobody = np.zeros(len(state.group), np.bool_)
    bad_nodes, groups = redundancy_health.bad_nodes(state, ~nobody), allocable_groups(state)
    if not options.accept_existing:
        groups[state.group[bad_nodes]] = False
    if apart is not None:
        groups &= ~apart
    nodes, pools = online_nodes(state, groups), pool_room(state)
    spared = options.accept_existing or (apart is not None and groups.any())
    if bad_nodes.any() and not spared:
        return AllocationScope(nodes, nobody, options, closed=True, pools=pools)
    return AllocationScope(nodes, nobody if apart is None else apart[state.group], options, pools=pools)


def positions_by_group(state: State, nodes: Ints) -> list[Ints]:
    """Positions of the nodes of each group that has a pair."""
    groups = state.group[nodes]
    return [at for group in sorted_unique(groups) if len(at := np.flatnonzero(groups == group)) > 1]


def on_all_pairs(
    state: State, asked: RequestedInstance, scope: AllocationScope, assessment: Assessment
) -> Iterator[Solution]:
    """Redundant places for a mirrored instance, in each group in turn."""
    base = choice.base(state, state.everywhere)
    for at in positions_by_group(state, scope.nodes):
        nodes = scope.nodes[at]
        yield on_pairs(state, asked, nodes, nodes, base, scope.options, assessment)
