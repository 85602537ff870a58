"""Search for a better set of nodes to power down: more nodes, or less data moved.

The remaining nodes must hold every instance, so sets of nodes with little room are tried first. Among nodes
of similar room those with the least data to move come first. First sets grow by one node while possible;
then sets of the final size are tried in the order of the least data they move. Every trial balances the
group, so the number of trials is limited. Small groups are searched completely, large ones partly. All
nodes of a set are emptied in one phase.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

import numpy as np

from ganeti_htools.engine.moving.traffic import copied, copied_by
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_group import PowerGroup
from ganeti_htools.engine.squeezing.power_plan import PowerPlan, Wishes
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.moves import Move, Operation
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

EFFORT = 4000  # instances balanced, at least; and a third as many trials as there are candidates
GLANCES = 20  # sets checked by their bounds for each trial
STEPS = 20  # resolution of nodes' room, up to the average

# The cheapest operations that take a primary off its node.
_LEAVING = {
    MirrorType.EXTERNAL: (Operation.FAILOVER_TO,),
    MirrorType.INTERNAL: (Operation.FAILOVER, Operation.REPLACE_SECONDARY),
    MirrorType.NONE: (Operation.MOVE,),
}


def rank(state: State, plan: PowerPlan) -> tuple[int, int, int]:
    """Return the sort key of a plan: more nodes, then less data moved, then fewer moves."""
    return -len(plan.nodes), data_moved(state, plan.steps), len(plan.steps)


def data_moved(state: State, steps: Sequence[Move]) -> int:
    """Return the MiB of disks and memory that steps copy."""
    return sum(sum(copied(step.kind, state.cluster.instances[step.instance])) for step in steps)


def least_moved(state: State) -> Ints:
    """Return the least MiB to copy to empty each node, whatever other nodes are emptied."""
    least = np.zeros(len(state.group), np.int64)
    pairs = zip(state.cluster.instances, state.pnode.tolist(), state.snode.tolist(), strict=True)
    for row, primary, secondary in pairs:
        least[primary] += sum(copied_by(_LEAVING[row.template.mirror], row))
        if secondary != NOWHERE:
            least[secondary] += sum(copied_by((Operation.REPLACE_SECONDARY,), row))
    return least


def better_set(group: PowerGroup, found: PowerPlan, wishes: Wishes) -> PowerPlan:
    """Return the best plan found for another set of candidates, or the given plan.

    Preferred nodes of the given plan stay in; nodes that must stay up are excluded.
    """
    search = _Search(group, found, wishes)
    most = len(search.order) if wishes.most is None else wishes.most
    size = len(found.nodes) + 1
    while size <= most and search.smallest(size):
        size += 1
    if size == len(found.nodes) + 1:
        search.smallest(size - 1)
    search.cheapest(size - 1)
    return search.best


class _Search:
    """A search over sets of nodes with ``trials`` left, the ``best`` plan so far, and the sets ``tried``."""

    def __init__(self, group: PowerGroup, found: PowerPlan, wishes: Wishes) -> None:
        self.group, self.best = group, found
        self.order = group.within(offline_candidates(group.state, group.allowed))
        self.fixed = [node for node in found.nodes if node in wishes.prefer]
        self.others = [node for node in self.order if node not in wishes.never and node not in self.fixed]
        hosted = int(np.count_nonzero(group.scope[group.state.pnode]))
        self.trials = max(len(self.order) // 3, EFFORT // max(hosted, 1))
        self.tried = set[tuple[int, ...]]()
        self.least = least_moved(group.state)

    def smallest(self, size: int) -> bool:
        """Try sets of a size, those with the least room first; whether a better plan was found."""
        room = self.group.bounds.size[self.others]
        dearest = int(self.least.sum()) + 1
        coarse = np.rint(STEPS * room * len(room) / (room.sum() or 1.0)).astype(np.int64)
        costs = coarse * dearest + self.least[self.others]
        known, trials = self.best, self.trials - self.trials // 3
        for _, nodes in self._sets(costs, size):
            if self.trials <= trials or self._try(nodes):
                break
        return self.best is not known

    def cheapest(self, size: int) -> None:
        """Try sets of a size, those with the least data to move first, until no better plan is possible."""
        anyway = int(self.least[self.fixed].sum())
        for total, nodes in self._sets(self.least[self.others], size):
            if not self.trials or anyway + total >= data_moved(self.group.state, self.best.steps):
                return
            self._try(nodes)

    def _sets(self, costs: Ints, size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield feasible sets of a size with their cost, the cheapest first."""
        sets = ascending(costs.tolist(), size - len(self.fixed))
        for total, chosen in islice(sets, GLANCES * self.trials):
            wanted = {*self.fixed, *(self.others[position] for position in chosen)}
            nodes = tuple(node for node in self.order if node in wanted)
            if not self.group.infeasible(nodes, True, self.group.target):
                yield total, nodes

    def _try(self, nodes: tuple[int, ...]) -> bool:
        """Try a set; whether its plan is better."""
        self.trials -= 1
        if nodes in self.tried or self.group.stranded(nodes):
            return False
        self.tried.add(nodes)
        plan, start = self.group.plan_without(nodes), self.group.state
        better = rank(start, plan) < rank(start, self.best) and self.group.obstacle(plan.state) is None
        made = self.group.executable(plan) if better else None
        self.best = made or self.best
        return made is not None


def ascending(costs: Sequence[int], size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield all sets of a size (positions) with the sum of their costs, in ascending order of the sums.

    A set's successors replace one member by the next more expensive one. The next set is always a successor
    of an earlier one.
    """
    order = sorted(range(len(costs)), key=lambda position: costs[position])
    if size > len(order):
        return
    first = tuple(range(size))
    waiting = [(sum(costs[order[rank]] for rank in first), first)]
    seen = {first}
    while waiting:
        total, ranks = heappop(waiting)
        yield total, tuple(order[rank] for rank in ranks)
        for place, rank in enumerate(ranks):
            after = ranks[place + 1] if place + 1 < size else len(order)
            following = (*ranks[:place], rank + 1, *ranks[place + 1 :])
            if rank + 1 < after and following not in seen:
                seen.add(following)
                dearer = total - costs[order[rank]] + costs[order[rank + 1]]
                heappush(waiting, (dearer, following))
